"""The groups of connections, from requests that name them while a reader wants them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from support import oracle
from support.dialogue import Dialogue, pieces, request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.server.admin.live.groups import MAX_FRAME_BYTES, MAX_NAME_CHARS, NAMES, ConnectionGroups
from kafka_sidecar.proxy.server.server import Server

NUMBER = 7  # of the connection


class Sidecar:
    """What looking does to a server."""

    def __init__(self) -> None:
        self.taps: list[Any] = []

    def add_tap(self, make: Any) -> None:
        self.taps.append(make)

    def remove_tap(self, make: Any) -> None:
        self.taps.remove(make)


def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[ConnectionGroups, Dialogue]:
    sidecar = Sidecar()
    groups = ConnectionGroups(cast(Server, sidecar))
    monkeypatch.setattr(groups._looking, "extend", lambda: sidecar.add_tap(groups.tap))
    groups.look()
    made: dict[tuple[int, int], Tap | None] = {}

    def tap(key: int, version: int) -> Tap | None:
        return made.setdefault((key, version), sidecar.taps[0](key, version))

    talk = Dialogue(tap=tap)
    talk.session.number, talk.session.host, talk.session.client_id = NUMBER, "10.0.0.9", "shipping-2"
    return groups, talk


def named(key: int, version: int, group: str, at: int = 1) -> bytes:
    return oracle.request_frame(oracle.request(key, version, group_id=group), at)


# Those that kio has too.
VERSIONS: dict[int, range] = {
    ApiKey.JOIN_GROUP: range(10), ApiKey.SYNC_GROUP: range(6), ApiKey.HEARTBEAT: range(5),
    ApiKey.OFFSET_COMMIT: range(2, 11), ApiKey.CONSUMER_GROUP_HEARTBEAT: range(2),
    ApiKey.SHARE_GROUP_HEARTBEAT: range(1, 2), ApiKey.STREAMS_GROUP_HEARTBEAT: range(1),
}  # fmt: skip


@pytest.mark.parametrize(("key", "version"), [(key, version) for key in NAMES for version in VERSIONS[key]])
def test_each_request_of_a_member_names_its_group(key: int, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    groups, talk = watched(monkeypatch)
    asked = named(key, version, "shipping")
    talk.client(asked)
    assert talk.to_broker == asked
    assert groups.of(NUMBER, None, None, False) == "shipping"


def test_a_connection_that_fetches_has_the_group_of_its_client_id_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, talk = watched(monkeypatch)
    talk.client(named(ApiKey.HEARTBEAT, 3, "shipping"))
    client_id = talk.session.client_id
    assert groups.of(8, client_id, "10.0.0.9", True) == "shipping"
    assert groups.of(8, client_id, "10.0.0.9", False) is None
    assert groups.of(8, client_id, "10.0.0.8", True) is None
    assert groups.of(8, "another", "10.0.0.9", True) is None


def test_names_are_cut_and_what_cannot_be_read_or_is_large_names_none(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, talk = watched(monkeypatch)
    talk.client(*pieces(named(ApiKey.HEARTBEAT, 3, "in-pieces"), [20]))
    talk.client(request(ApiKey.HEARTBEAT, 3, 2, b"\x7f\xff"))
    talk.client(named(ApiKey.HEARTBEAT, 3, "x" * (MAX_FRAME_BYTES // 2 - 10)) + b"")
    assert groups.of(NUMBER, None, None, False) == "x" * MAX_NAME_CHARS
    talk.client(request(ApiKey.OFFSET_COMMIT, 2, 4, b"\x00\x03abc" + bytes(MAX_FRAME_BYTES)))
    assert groups.of(NUMBER, None, None, False) == "x" * MAX_NAME_CHARS


def test_nothing_is_remembered_without_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, talk = watched(monkeypatch)
    talk.client(named(ApiKey.HEARTBEAT, 3, "shipping"))
    groups._forget()
    assert groups.of(NUMBER, talk.session.client_id, "10.0.0.9", True) is None
