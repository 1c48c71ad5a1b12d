"""`dead-letters replay` at a broker: what is accepted arrives once, as it was sent."""

from __future__ import annotations

import json

import pytest
from integration.dead_letters.written import Sent, dead_letters, rejected, write_letters
from integration.front import Front

from kafka_sidecar.dead_letters.letter import REPLAYED

pytestmark = pytest.mark.integration


def arrived(front: Front, topic: str, partition: int = 0) -> list[tuple[object, ...]]:
    return [
        (one.key(), one.value(), tuple(one.headers() or ()), one.timestamp()[1])
        for one in front.log(topic, partition, "read_committed")
    ]


def test_what_is_accepted_arrives_once_and_what_is_not_can_be_replayed_later(front: Front) -> None:
    front.topic("json-a", 2)
    front.topic("letters-a")
    good = [
        Sent(b"k%d" % n if n % 2 else None, b'{"n": %d}' % n, (("h", b"1"), ("h", None)), 1_700_000_000_000 + n,
             rejected("json-a", partition=n % 2, rejection_id=f"r-{n}"))
        for n in range(40)
    ]  # fmt: skip
    bad = Sent(b"bad", b"{", (), 1_700_000_000_999, rejected("json-a", partition=1, rejection_id="r-bad"))
    write_letters(front.cluster.direct, "letters-a", [*good[:20], bad, *good[20:]])

    at = ("letters-a", "--bootstrap-servers", front.sidecar.bootstrap)
    listed = dead_letters("list", *at)
    assert listed.returncode == 0, listed.stderr
    assert "41" in listed.stdout
    first = dead_letters("replay", *at, "--json")
    assert first.returncode == 1, first.stdout + first.stderr
    report = json.loads(first.stdout)
    assert (report["accepted"], report["rejected"]) == (40, 1)
    for partition in (0, 1):
        assert arrived(front, "json-a", partition) == [
            (one.key, one.value, (*one.headers, (REPLAYED, one.reasons.rejection_id.encode())), one.timestamp)
            for one in good
            if one.reasons.partition == partition
        ]
    again = dead_letters("replay", *at, "--json")
    assert (again.returncode, json.loads(again.stdout)["accepted"], json.loads(again.stdout)["rejected"]) == (1, 0, 1)
    assert len(arrived(front, "json-a", 0)) + len(arrived(front, "json-a", 1)) == 40
