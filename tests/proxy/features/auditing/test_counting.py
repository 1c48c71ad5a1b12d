"""What all taps share: groups of clients, names of topics, frames that arrive in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import oracle
from support.auditing import Audited
from support.commit_requests import PLAIN, THREE, commit_request
from support.dialogue import Dialogue, pieces
from support.fetches import fetch_request
from support.interception import fetch_response
from support.produce_requests import batch, produce_request, produce_response

from kafka_sidecar.audit.contract import SEVERAL_GROUPS
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.features.auditing import counting as module
from kafka_sidecar.proxy.features.auditing.counting import (
    KEPT_S,
    MAX_CLIENTS,
    MAX_FRAME_BYTES,
    MAX_GROUPS,
    MAX_NAME_BYTES,
    AuditedTopics,
    AuditingStats,
    FrameParts,
    Groups,
)

APP = ("app", None)


def request(key: int, version: int, group: str = "billing") -> bytes:
    return oracle.request_frame(oracle.request(key, version, group_id=group), 7)


def fetched(found: Audited) -> str | None:
    found.dialogue.client(fetch_request(12, {"orders": {0: 0}})).broker(fetch_response(12, {"orders": {0: batch("a")}}))
    group: str | None = found.calls.delivered_[-1][0]
    return group


@pytest.mark.parametrize("cuts", [[], [20]])
def test_requests_of_members_name_the_group(cuts: list[int]) -> None:
    frame, found = request(ApiKey.HEARTBEAT, 4, "Bücher"), Audited()
    found.dialogue.client(*pieces(frame, cuts))
    assert found.counting.groups.find(APP) == "Bücher"
    assert found.dialogue.to_broker == frame


def test_a_fetch_is_of_the_group_that_the_client_has_named() -> None:
    found = Audited()
    assert fetched(found) is None
    other = Audited()
    other.dialogue.client(commit_request(PLAIN, 9, THREE))
    assert fetched_on(other) == "g"


def fetched_on(found: Audited) -> str | None:
    return found.counting.groups.find(APP)


def test_two_groups_at_a_time_are_several() -> None:
    now = 0.0
    groups = Groups(lambda: now)
    groups.learn(APP, "one")
    groups.learn(APP, "")
    groups.learn(("other", None), "two")
    assert (groups.find(APP), groups.find(("other", None))) == ("one", "two")
    groups.learn(APP, "two")
    assert groups.find(APP) == SEVERAL_GROUPS
    now = KEPT_S + 1
    groups.learn(APP, "two")
    assert groups.find(APP) == "two"


def test_a_bounded_number_of_clients_and_groups_is_remembered() -> None:
    groups = Groups(lambda: 0.0)
    for number in range(MAX_CLIENTS + 1):
        groups.learn((str(number), None), "g")
    assert (groups.find(("0", None)), groups.find((str(MAX_CLIENTS), None))) == (None, "g")
    for number in range(MAX_GROUPS * 2):
        groups.learn(APP, str(number))
    assert len(groups._seen[APP]) == MAX_GROUPS


def test_their_names_are_remembered_up_to_a_number_of_bytes_and_for_a_time() -> None:
    now = 0.0
    groups = Groups(lambda: now)
    for number in range(1000):
        groups.learn((f"{number}", None), f"{number:032767d}")
    assert 0 < len(groups._seen) <= MAX_NAME_BYTES // 32767
    assert groups.find(("999", None)) is not None
    now = KEPT_S + 1
    groups.learn(APP, "g")
    assert (len(groups._seen), groups.find(APP), groups.find(("999", None))) == (1, "g", None)
    assert groups._bytes < 1000


def test_no_name_is_remembered_that_a_topic_cannot_have() -> None:
    topics = AuditedTopics(lambda key: None, lambda name: True, lambda key, then: None, AuditingStats())
    assert topics.find("orders", print) == "orders"
    assert topics.find("o" * 32767, print) == "o" * 32767
    assert [*topics._known] == ["orders"]


@pytest.mark.parametrize("cuts", [[], [6]])
def test_a_request_without_a_group_is_relayed_and_counted_itself(cuts: list[int]) -> None:
    frame = oracle.framed(int(ApiKey.HEARTBEAT).to_bytes(2, "big") + b"\0\0" + bytes(4) + b"\xff\xff")
    found = Audited()
    found.dialogue.client(*pieces(frame, cuts))
    assert found.dialogue.to_broker == frame
    assert found.counting.stats.uncounted == {("Heartbeat", "unreadable"): 1}


ID, OTHER_ID = bytes([1]) * 16, bytes([2]) * 16


class Topics:
    """Audited are all topics but "private"."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.requested: list[tuple[bytes, Callable[[], None]]] = []
        self.stats = AuditingStats()
        self.counted: list[str] = []
        self.audited = AuditedTopics(
            self.names.get, lambda name: name != "private", lambda *one: self.requested.append(one), self.stats
        )

    def find(self, key: str | bytes) -> str | None:
        return self.audited.find(key, self.counted.append)


def test_a_name_is_looked_up_once() -> None:
    found = Topics()
    assert (found.find("orders"), found.audited.get("orders")) == ("orders", "orders")
    assert (found.find("private"), found.find("private")) == (None, None)
    found.names[ID] = "orders"
    assert (found.find(ID), found.audited.get(ID)) == ("orders", "orders")
    assert not found.requested


def test_an_id_is_requested_once_for_all_that_waits() -> None:
    found = Topics()
    assert [found.find(ID), found.find(ID), found.find(OTHER_ID)] == [None] * 3
    found.names |= {ID: "orders", OTHER_ID: "private"}
    assert [topic_id for topic_id, _ in found.requested] == [ID, OTHER_ID]
    for _, done in found.requested:
        done()
    assert found.counted == ["orders", "orders"]


def test_what_gets_no_name_is_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2)
    found = Topics()
    for _ in range(3):
        found.find(ID)
    assert found.stats.unnamed == 1
    found.requested[0][1]()
    assert found.stats.unnamed == 3
    found.find(ID)
    assert len(found.requested) == 2


def test_a_count_that_fails_late_is_counted_itself() -> None:
    found = Topics()

    def fail(name: str) -> None:
        raise RuntimeError(name)

    found.audited.find(ID, fail)
    found.find(ID)
    found.names[ID] = "orders"
    found.requested[0][1]()
    assert found.counted == ["orders"]
    assert found.stats.uncounted == {("Metadata", "auditor_failed"): 1}


def test_a_bounded_number_of_names_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KNOWN", 2)
    found = Topics()
    for name in ("a", "b", "c"):
        assert found.find(name) == name
    assert found.audited.get("a") is None
    assert found.find("a") == "a"


def test_a_whole_frame_is_not_copied() -> None:
    data = b"before frame after"
    assert FrameParts().add(data, 7, 12, True) == (data, 7, 12)


def test_pieces_are_put_together() -> None:
    pieces = FrameParts()
    assert pieces.add(b"xfrax", 1, 4, False) is None
    assert pieces.add(b"me", 0, 2, True) == (b"frame", 0, 5)


def test_a_frame_that_is_too_long_is_empty() -> None:
    pieces = FrameParts()
    for _ in range(3):
        assert pieces.add(bytes(MAX_FRAME_BYTES // 2), 0, MAX_FRAME_BYTES // 2, False) is None
    assert pieces.add(b"end", 0, 3, True) == (b"", 0, 0)


def test_what_is_done_by_name_is_counted_under_the_id_that_the_name_has_now() -> None:
    ids = {"orders": b"1" * 16}
    found = Audited(id_of=lambda name: ids.get(name, NO_ID))
    topics: list[Any] = []
    found.calls.produced = lambda client, topic, partition, batch: topics.append(topic)  # type: ignore[method-assign]
    other = found.another()

    def send(dialogue: Dialogue) -> bytes:
        sent = produce_request(9, {"orders": {0: batch("a")}})
        dialogue.client(sent).broker(produce_response(9, {"orders": {0: 7}}))
        topic_id: bytes = topics[-1].topic_id
        return topic_id

    assert [send(found.dialogue), send(other)] == [b"1" * 16] * 2
    found.counting.topics.learn(b"1" * 16, "orders")
    generation = found.counting.topics.generation
    assert send(found.dialogue) == b"1" * 16
    found.counting.topics.learn(b"2" * 16, "orders")
    found.counting.topics.learn(b"3" * 16, "payments")
    assert found.counting.topics.generation == generation + 1
    assert [send(found.dialogue), send(other)] == [b"2" * 16] * 2


def test_what_is_done_by_id_is_counted_under_that_id() -> None:
    found = Audited()
    topics: list[Any] = []
    found.counting.call("Fetch", b"1" * 16, topics.append)
    (requested,) = found.requested
    found.dialogue.topics.remember([(b"1" * 16, "orders")])
    requested[1]()
    found.counting.call("Fetch", b"1" * 16, topics.append)
    assert [(topic, topic.topic_id) for topic in topics] == [("orders", b"1" * 16)] * 2
