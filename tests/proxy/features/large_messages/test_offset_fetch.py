"""OffsetFetch of topics with large messages: clients get what they have committed. kio is the reference."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.client import FakeClient
from support.driven import Driven, Step, driven
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.features.large_messages.offset_fetch import NoteResumed, StoredOffsets
from kafka_sidecar.proxy.relay.exchange import TopicNames

KEY, CORRELATION_ID = ApiKey.OFFSET_FETCH, 7
VERSIONS = range(1, 11)
FIRST_WITH_EPOCHS, FIRST_WITH_GROUPS, FIRST_WITH_IDS = 5, 8, 10
REQUEST = oracle.request_frame(oracle.request(KEY, 1, group_id="g"), CORRELATION_ID)

# By topic and partition: offset, metadata, leader epoch. "free" has no large messages.
Stored = dict[str, dict[int, tuple[int, str | None, int]]]
STORED: Stored = {
    "orders": {0: (3, "5,mine", 4), 1: (9, "", 2), 2: (-1, "", -1), 3: (7, "7,12,foo", 1), 4: (500, "12,foo", 1)},
    "free": {0: (3, "5,mine", 4)},
}
RESTORED: Stored = {
    "orders": {0: (5, "mine", 4), 1: (9, "", 2), 2: (-1, "", -1), 3: (7, "12,foo", 1), 4: (500, "12,foo", 1)},
    "free": {0: (3, "5,mine", 4)},
}


def response(version: int, stored: Stored, groups: int = 1, error_code: int = 0) -> bytes:
    topics = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "metadata": metadata,
                    "committed_leader_epoch": epoch,
                    "error_code": error_code,
                }
                for index, (offset, metadata, epoch) in partitions.items()
            ],
        }
        for name, partitions in stored.items()
    ]
    all_groups = [{"group_id": f"g{index}", "topics": topics} for index in range(groups)]
    return oracle.response_frame(oracle.response(KEY, version, topics=topics, groups=all_groups), CORRELATION_ID)


def stored_in(version: int, frame: Step) -> list[Stored]:
    """What a response says, by group."""
    assert isinstance(frame, bytes)
    correlation_id, message = oracle.read_response(KEY, version, frame)
    assert correlation_id == CORRELATION_ID
    groups = [group.topics for group in message.groups] if version >= FIRST_WITH_GROUPS else [message.topics]
    return [
        {
            _name_of(version, topic): {
                one.partition_index: (
                    one.committed_offset, one.metadata, getattr(one, "committed_leader_epoch", -1)
                )
                for one in topic.partitions
            }
            for topic in topics
        }
        for topics in groups
    ]  # fmt: skip


def _name_of(version: int, topic: Any) -> str:
    return topic.topic_id.bytes.lstrip(b"\1").decode() if version >= FIRST_WITH_IDS else str(topic.name)


def nothing(topic_id: bytes) -> str | None:
    return None


def without_epochs(stored: Stored) -> Stored:
    return {name: {at: (*one[:2], -1) for at, one in partitions.items()} for name, partitions in stored.items()}


def note_nothing(topic: str, partition: int, safe: int, committed: int) -> None:
    raise AssertionError("only the mode strict-li needs it")


def begin(
    version: int, names: dict[bytes, str] | None = None, mode: Any = "li", note: NoteResumed = note_nothing
) -> Driven:
    known = {topic_id(name): name for name in STORED} if names is None else names
    settings = TopicSettings(offsets=mode)
    stage = StoredOffsets(lambda topic: settings if topic == "orders" else None, known.get, note)
    exchange = driven(stage, version=version, client=FakeClient())
    assert exchange is not None
    assert exchange.request(REQUEST) is REQUEST
    assert exchange.wants_response
    return exchange


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_gets_what_it_has_committed_and_all_else_stays(version: int) -> None:
    want = RESTORED if version >= FIRST_WITH_EPOCHS else without_epochs(RESTORED)
    assert stored_in(version, begin(version).response(response(version, STORED))) == [want]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_all_groups_are_restored(version: int) -> None:
    assert stored_in(version, begin(version).response(response(version, STORED, groups=3))) == [RESTORED] * 3


def test_version_0_is_read_too() -> None:
    def frame(offset: int, metadata: str) -> bytes:
        partition = OffsetFetchResponsePartition(partition_index=1, committed_offset=offset, metadata=metadata)
        topic = OffsetFetchResponseTopic(name="orders", partitions=(partition,))
        return encode_response(OffsetFetchResponse(topics=(topic,)), 0, CORRELATION_ID)

    assert begin(0).response(frame(3, "5,mine")) == frame(5, "mine")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_in_which_nothing_is_stored_as_li_does_is_the_brokers_frame(version: int) -> None:
    samples: list[Stored] = [
        {"orders": {0: (5, "a,b", 1)}, "free": {0: (3, "5,mine", 4)}}, {"orders": {0: (5, None, 1)}}, {},
    ]  # fmt: skip
    for stored in samples:
        frame = response(version, stored)
        assert begin(version).response(frame) is frame


def test_the_broker_is_asked_for_names_of_topics_that_have_stored_offsets_of_li() -> None:
    names: dict[bytes, str] = {}
    exchange = begin(10, names)
    need = exchange.response(response(10, STORED | {"plain": {0: (3, "a,b", 1)}}))
    assert need == TopicNames(tuple(sorted((topic_id("free"), topic_id("orders")))))
    names[topic_id("orders")] = "orders"  # the other one is unknown to the cluster
    assert stored_in(10, exchange.answer()) == [RESTORED | {"plain": {0: (3, "a,b", 1)}}]


def test_in_the_mode_plain_offsets_stay_as_they_are() -> None:
    assert stored_in(9, begin(9, mode="plain").response(response(9, STORED))) == [STORED]


def test_in_the_mode_strict_li_it_is_noted_where_a_consumer_of_li_would_begin() -> None:
    noted: list[tuple[str, int, int, int]] = []
    exchange = begin(9, mode="strict-li", note=lambda *one: noted.append(one))
    assert stored_in(9, exchange.response(response(9, STORED))) == [RESTORED]
    want = {
        ("orders", partition, stored[0], RESTORED["orders"][partition][0])
        for partition, stored in STORED["orders"].items()
    }
    assert want.issuperset(noted)
    assert sorted(noted) == sorted(one for one in want if one[2] < one[3])
    assert noted


def test_a_client_of_li_gets_offsets_as_they_are_stored() -> None:
    stage = StoredOffsets(lambda topic: TopicSettings(), nothing, note_nothing, ["app*"])
    assert stage.start(FakeClient(client_id="app-1"), 9) is None
    assert stage.start(FakeClient(client_id="other"), 9) is not None
    assert stage.start(FakeClient(client_id=None), 9) is not None


def test_a_version_that_cannot_be_read_is_relayed() -> None:
    assert StoredOffsets(lambda topic: None, nothing, note_nothing).start(FakeClient(), 11) is None


def test_a_long_response_is_decoded_in_a_thread() -> None:
    many: Stored = {"orders": dict.fromkeys(range(1001), (3, "5,mine", 4))}
    exchange = begin(9)
    step = exchange.response(response(9, many))
    while isinstance(step, Work):
        step = exchange.answer(step.run())
    assert stored_in(9, step) == [{"orders": dict.fromkeys(range(1001), (5, "mine", 4))}]


@pytest.mark.parametrize("version", [1, 7, 9, 10])
def test_a_response_that_is_cut_off_raises_codec_error(version: int) -> None:
    frame = response(version, STORED)
    for end in range(12, len(frame)):
        if b"," in frame[:end]:
            with pytest.raises(CodecError):
                begin(version).response(frame[:end])
