"""Snapshots as JSON: in ASCII, whatever names contain, and as other programs read it."""

from __future__ import annotations

import json

import pytest

from kafka_sidecar.proxy.server.admin.live.encoding import decode, encode, encoded, members_of

HOSTILE = [
    "<script>alert(1)</script>", b"\xff\xfe not UTF-8".decode(errors="surrogateescape"), "\u202egnp.exe", "\x1b[2J\0",
    "\x7f" * 3, "\u00e4" * 249, "\n\ndata: {}\n\n", "\u2028", "x" * 249,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_survives_as_ascii_without_control_characters(name: str) -> None:
    data = encode({"of": [name], name: 1})
    assert all(0x20 <= byte < 0x7F for byte in data)
    assert json.loads(data) == decode(data) == {"of": [name], name: 1}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_event_ends_where_the_snapshot_ends(name: str) -> None:
    found = encoded([members_of({"timestamp": "now"}), members_of({"topics": name})], True)
    head, data, *rest = found.event.split(b"\n")
    assert (head, rest) == (b"event: snapshot", [b"", b""])
    assert json.loads(data.removeprefix(b"data: ")) == json.loads(found.line) == {"timestamp": "now", "topics": name}


@pytest.mark.parametrize("value", [1 << 63, 1 << 80, -1, 0.1, None, True, 5e-324])
def test_numbers_are_those_of_other_json(value: object) -> None:
    assert json.loads(encode({"value": value})) == {"value": value}
