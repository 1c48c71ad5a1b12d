"""OffsetFetch of topics with large messages: clients get what they have committed. kio is the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import oracle
from support.client import FakeClient
from support.driven import Driven, Step, driven
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log, lm, message_id
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import TimeLimit, Work
from kafka_sidecar.proxy.features.large_messages.offset_fetch import FETCH, NoteResumed, StoredOffsets
from kafka_sidecar.proxy.relay.exchange import TopicNames

KEY, CORRELATION_ID = ApiKey.OFFSET_FETCH, 7
VERSIONS = range(1, 11)
FIRST_WITH_EPOCHS, FIRST_WITH_GROUPS, FIRST_WITH_IDS = 5, 8, 10
REQUEST = oracle.request_frame(oracle.request(KEY, 1, group_id="g"), CORRELATION_ID)

# By topic and partition: offset, metadata, leader epoch. "free" has no large messages. At 3 of partition 0 is a slice.
Stored = dict[str, dict[int, tuple[int, str | None, int]]]
STORED: Stored = {
    "orders": {0: (3, "5,mine", 4), 1: (9, "", 2), 2: (-1, "", -1), 3: (7, "7,12,foo", 1), 4: (500, "12,foo", 1)},
    "free": {0: (3, "5,mine", 4)},
}
RESTORED: Stored = {
    "orders": {0: (5, "mine", 4), 1: (9, "", 2), 2: (-1, "", -1), 3: (7, "12,foo", 1), 4: (500, "12,foo", 1)},
    "free": {0: (3, "5,mine", 4)},
}
NOT_A_REPLICA, OUT_OF_RANGE = 6, 1


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


class Sidecar:
    """A process that has seen a slice at 3 of partition 0, before a broker that has these logs."""

    def __init__(
        self, names: dict[bytes, str] | None = None, note: NoteResumed = note_nothing, **settings: Any
    ) -> None:
        self.cluster = Cluster({at: Log() for at in range(8)}, TopicSettings(**settings))
        for log in self.cluster.logs.values():
            log.start = log.end = 100
        self.cluster.stats.intervals.see_slice(topic_id("orders"), 0, b"m", 3)
        known = {topic_id(name): name for name in STORED} if names is None else names
        self.names, self.note = known, note
        self.services = replace(self.cluster.services, name_of=known.get, li_clients=("li-*",))

    def stage(self) -> StoredOffsets:
        stats, settings = self.cluster.stats, self.cluster.settings
        return StoredOffsets(
            lambda topic: settings if topic == "orders" else None, self.services, stats.intervals,
            stats.refused_offset, self.note,
        )  # fmt: skip

    def begin(self, version: int) -> Driven:
        exchange = driven(self.stage(), version=version, client=FakeClient())
        assert exchange is not None
        assert exchange.request(REQUEST) is REQUEST
        assert exchange.wants_response
        return exchange

    def fetch(self, version: int, frame: bytes) -> Step:
        """What the client gets for this response."""
        exchange = self.begin(version)
        return self.cluster.settle(FETCH, exchange, exchange.response(frame))


def begin(version: int, names: dict[bytes, str] | None = None, mode: Any = "li") -> Driven:
    return Sidecar(names, offsets=mode).begin(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_gets_what_it_has_committed_and_all_else_stays(version: int) -> None:
    want = RESTORED if version >= FIRST_WITH_EPOCHS else without_epochs(RESTORED)
    assert stored_in(version, begin(version).response(response(version, STORED))) == [want]


@pytest.mark.parametrize("version", [8, 9, 10])
def test_offsets_of_all_groups_are_restored(version: int) -> None:
    assert stored_in(version, begin(version).response(response(version, STORED, groups=3))) == [RESTORED] * 3


def test_version_0_is_read_too() -> None:
    def frame(offset: int, metadata: str) -> bytes:
        partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=offset, metadata=metadata)
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
    exchange = Sidecar(offsets="strict-li", note=lambda *one: noted.append(one)).begin(9)
    assert stored_in(9, exchange.response(response(9, STORED))) == [RESTORED]
    want = {
        ("orders", partition, stored[0], RESTORED["orders"][partition][0])
        for partition, stored in STORED["orders"].items()
    }
    assert want.issuperset(noted)
    assert sorted(noted) == sorted(one for one in want if one[2] < one[3])
    assert noted


def test_a_client_of_li_gets_offsets_as_they_are_stored() -> None:
    stage = Sidecar().stage()
    assert stage(FakeClient(client_id="li-1"), 9) is None
    assert stage(FakeClient(client_id="other"), 9) is not None
    assert stage(FakeClient(client_id=None), 9) is not None


def test_a_version_that_cannot_be_read_is_relayed() -> None:
    assert Sidecar().stage()(FakeClient(), 11) is None


def sliced_log() -> Log:
    """A plain record at 100, slices at 101 to 104, their carrier at 105, and a plain one at 106."""
    log = Log(start=100, end=100)
    log.add(b"first")
    log.add_large(bytes(9000), 5, 1)
    log.add(b"last")
    return log


def one_offset(sidecar: Sidecar, offset: int, metadata: str, version: int = 9) -> tuple[int, str | None]:
    """What the client gets for one of partition 1."""
    step = sidecar.fetch(version, response(version, {"orders": {1: (offset, metadata, 2)}}))
    (found,) = stored_in(version, step)
    (one,) = found["orders"].values()
    return one[:2]


@pytest.mark.parametrize("version", [1, 7, 8, 9, 10])
@pytest.mark.parametrize(
    ("stored", "want", "why"),
    [
        ((101, "103,mine"), (103, "mine"), None),  # a slice
        ((103, "105,"), (105, ""), None),  # another slice: the process that stored it had seen no earlier one
        ((100, "103,mine"), (100, "103,mine"), "no_segment"),  # a plain record
        ((105, "106,mine"), (106, "mine"), None),  # the last segment, as that of an abandoned message of li
        ((106, "107,host-7"), (106, "107,host-7"), "no_segment"),
        ((101, "1102,x"), (1102, "x"), None),
        ((101, "1103,x"), (101, "1103,x"), "too_far"),
        ((101, "1700000000000,x"), (101, "1700000000000,x"), "too_far"),
        ((101, "101,x"), (101, "101,x"), None),  # the offset is the same: nothing is read
        ((101, "101,"), (101, ""), None),
        ((101, "101,5,x"), (101, "5,x"), None),
        ((107, "110,x"), (107, "110,x"), "unread"),  # nothing is there yet
        ((99, "103,x"), (100, "103,x"), "deleted"),  # the log begins between the two
        ((99, "100,x"), (100, "100,x"), "deleted"),  # or at the second
        ((90, "95,x"), (90, "95,x"), "unread"),  # and after both
        ((101, "99,x"), (101, "99,x"), None),
    ],
)
def test_a_number_above_the_offset_is_believed_if_a_segment_is_there(
    version: int, stored: tuple[int, str], want: tuple[int, str], why: str | None
) -> None:
    sidecar = Sidecar()
    sidecar.cluster.logs[1].__dict__.update(sliced_log().__dict__)
    assert one_offset(sidecar, *stored, version) == want
    assert dict(sidecar.cluster.stats.refused_offsets) == ({why: 1} if why else {})


def test_a_message_that_is_whole_in_one_segment_is_no_reason_to_believe_it() -> None:
    """No group begins before what it has committed because of it."""
    sidecar, log = Sidecar(), Log(start=100, end=100)
    log.add(b"first")
    log.append(build_batch([NewRecord(b"whole", b"key", (lm(message_id(1), 0, 1, 5),))]))
    sidecar.cluster.logs[1].__dict__.update(log.__dict__)
    assert one_offset(sidecar, 101, "103,mine") == (101, "103,mine")
    assert dict(sidecar.cluster.stats.refused_offsets) == {"no_segment": 1}


def test_in_the_mode_strict_li_where_all_commits_are_wrapped_the_same_holds_and_equal_numbers_are_believed() -> None:
    noted: list[tuple[str, int, int, int]] = []
    sidecar = Sidecar(offsets="strict-li", note=lambda *one: noted.append(one))
    sidecar.cluster.logs[1].__dict__.update(sliced_log().__dict__)
    assert one_offset(sidecar, 101, "103,x") == (103, "x")
    assert one_offset(sidecar, 100, "103,x") == (100, "103,x")
    assert one_offset(sidecar, 100, "100,x") == (100, "x")
    assert noted == [("orders", 1, 101, 103)]


@pytest.mark.parametrize("error_code", [NOT_A_REPLICA, 29, 3])
def test_what_cannot_be_read_is_not_believed(error_code: int, caplog: pytest.LogCaptureFixture) -> None:
    """Records are read twice then, and none is skipped."""
    sidecar = Sidecar()
    sidecar.cluster.error_code = error_code
    with caplog.at_level("INFO"):
        assert [one_offset(sidecar, 101, "103,mine") for _ in range(2)] == [(101, "103,mine")] * 2
    assert sidecar.cluster.stats.refused_offsets == {"unread": 2}
    (line,) = caplog.records
    assert (line.message, line.topic, line.partition, line.offset, line.reason) == (  # type: ignore[attr-defined]
        "stored offset is not taken for that of a large message", "orders", 1, 101, "unread",
    )  # fmt: skip


def test_while_the_broker_throttles_the_client_waits_as_long_as_the_limit_says() -> None:
    sidecar = Sidecar()
    sidecar.services = replace(sidecar.services, time_limit=TimeLimit("large_messages", 20.0, 1.0))
    sidecar.cluster.throttled, sidecar.cluster.read_s = 1000, 1.0
    assert one_offset(sidecar, 101, "103,mine") == (101, "103,mine")
    assert sidecar.cluster.throttled == 980


def test_what_the_process_has_seen_is_not_read() -> None:
    sidecar = Sidecar()
    sidecar.cluster.stats.intervals.complete(ORDERS, 1, b"n", 101, 105)
    assert one_offset(sidecar, 101, "103,mine") == (103, "mine")
    assert sidecar.cluster.needs == []


def test_of_one_response_so_many_offsets_are_read_at_most_and_each_once() -> None:
    sidecar = Sidecar()
    sidecar.cluster.logs = dict.fromkeys(range(150), sliced_log())
    many = response(9, {"orders": dict.fromkeys(range(150), (101, "103,mine", 2))}, groups=2)
    first, second = stored_in(9, sidecar.fetch(9, many))
    assert first == second
    assert sum(one[0] == 103 for one in first["orders"].values()) == 100 == len(sidecar.cluster.reads)
    assert sidecar.cluster.stats.refused_offsets == {"unread": 50}


def test_a_long_response_is_decoded_in_a_thread() -> None:
    many: Stored = {"orders": dict.fromkeys(range(1001), (3, "5,mine", 4))}
    sidecar = Sidecar()
    for partition in range(1001):
        sidecar.cluster.stats.intervals.see_slice(ORDERS, partition, b"m", 3)
    step = sidecar.fetch(9, response(9, many))
    assert {type(one) for one in sidecar.cluster.needs} == {Work}
    assert stored_in(9, step) == [{"orders": dict.fromkeys(range(1001), (5, "mine", 4))}]


@pytest.mark.parametrize("version", [1, 7, 9, 10])
def test_a_response_that_is_cut_off_raises_codec_error(version: int) -> None:
    frame = response(version, STORED)
    for end in range(12, len(frame)):
        if b"," in frame[:end]:
            with pytest.raises(CodecError):
                begin(version).response(frame[:end])
