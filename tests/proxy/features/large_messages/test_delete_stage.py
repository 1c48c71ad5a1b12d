"""DeleteRecords of topics with large messages, as a dialogue with a client and a broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.client import FakeClient
from support.driven import Step, driven
from support.large_fetches import ORDERS, Cluster
from support.large_logs import OUT_OF_RANGE, Log, carrier_record, cut, lm, message_id, sliced
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_request, encode_response, open_request
from kafka_sidecar.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from kafka_sidecar.codec.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.proxy.features.large_messages.delete_stage import FETCH, Deletions
from kafka_sidecar.proxy.relay.exchange import Respond

VERSIONS = (0, 1, 2)
VALUE = bytes(range(256)) * 40
NOT_LEADER, UNAUTHORIZED, TIMED_OUT, THROTTLED = 6, 29, 7, 89
Offsets = Mapping[str, Mapping[int, int]]  # by topic and partition


class Broker(Cluster):
    """It also says where its logs begin and end."""

    asked = 0

    def answer(self, version: int, frame: bytes) -> bytes:
        if open_request(frame).api_key != ApiKey.LIST_OFFSETS:
            return super().answer(version, frame)
        self.asked += 1
        header, opened = decode_request(ListOffsetsRequest, frame)
        (topic,) = opened.message.topics
        found = tuple(
            ListOffsetsPartitionResponse(
                partition_index=one.partition_index,
                offset=self.edge(one.partition_index, one.timestamp) if not self.error_code else -1,
                error_code=self.error_code,
            )
            for one in topic.partitions
        )
        response = ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name=topic.name, partitions=found),))
        return encode_response(response, header.api_version, header.correlation_id)

    def edge(self, partition: int, timestamp: int) -> int:
        return self.logs[partition].start if timestamp == -2 else self.logs[partition].end


class Deleting:
    """A sidecar that knows nothing of the log: slices at 1 to 10, their carrier at 11, and a plain record at 12."""

    def __init__(self, *logs: Log, **changes: object) -> None:
        self.broker = Broker(dict(enumerate(logs or (large_log(),))))
        self.services = replace(self.broker.services, li_clients=("li-*",), **changes)  # type: ignore[arg-type]

    @property
    def results(self) -> Mapping[str, int]:
        return dict(self.broker.stats.deletions)

    def delete(self, offsets: Offsets, version: int = 2, client_id: str = "app") -> tuple[Offsets | None, Offsets]:
        """What the broker is to delete, None: it gets no request; and the error codes that the client gets."""
        settings, stats = self.broker.settings, self.broker.stats
        stage = Deletions(
            lambda topic: settings if topic == "orders" else None, self.services, stats.intervals, stats.deleted
        )
        exchange = driven(stage, version=version, client=FakeClient(client_id=client_id))
        frame = deletion(offsets, version)
        if exchange is None:
            return offsets, {}
        step = self.broker.settle(FETCH, exchange, exchange.request(frame))
        if isinstance(step, Respond):
            return None, codes(step.frame, version)
        assert isinstance(step, bytes)
        asked = asked_in(step)
        if asked == offsets:
            assert step is frame
        answer = deleted(asked, version)
        if not exchange.wants_response:
            return asked, {}
        return asked, codes(self.broker.settle(FETCH, exchange, exchange.response(answer)), version)


def large_log() -> Log:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 11, 1, topic_id=ORDERS)
    log.add(b"last")
    return log


def deletion(offsets: Offsets, version: int) -> bytes:
    topics = tuple(
        DeleteRecordsTopic(
            name=name,
            partitions=tuple(DeleteRecordsPartition(partition_index=at, offset=one) for at, one in of.items()),
        )
        for name, of in offsets.items()
    )
    return encode_request(DeleteRecordsRequest(topics=topics, timeout_ms=1000), version, 7, "app")


def asked_in(frame: bytes) -> Offsets:
    message = decode_request(DeleteRecordsRequest, frame)[1].message
    assert message.timeout_ms == 1000
    return {topic.name: {one.partition_index: one.offset for one in topic.partitions} for topic in message.topics}


def deleted(offsets: Offsets, version: int) -> bytes:
    topics = tuple(
        DeleteRecordsTopicResult(
            name=name,
            partitions=tuple(
                DeleteRecordsPartitionResult(partition_index=at, low_watermark=one) for at, one in of.items()
            ),
        )
        for name, of in offsets.items()
    )
    return encode_response(DeleteRecordsResponse(topics=topics), version, 7)


def codes(step: Step, version: int) -> Offsets:
    assert isinstance(step, bytes)
    topics = decode_response(DeleteRecordsResponse, step, version).message.topics
    found = {topic.name: {one.partition_index: one.error_code for one in topic.partitions} for topic in topics}
    assert len(found) == len(topics)  # each is there once, as in a broker's response
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("offset", "want"), [(0, 0), (1, 1), (2, 1), (5, 1), (11, 1), (12, 12), (13, 13), (14, 14)])
def test_slices_stay_whose_message_ends_at_the_offset_or_later(version: int, offset: int, want: int) -> None:
    deleting = Deleting()
    assert deleting.delete({"orders": {0: offset}, "free": {0: 5}}, version) == (
        {"orders": {0: want}, "free": {0: 5}}, {},
    )  # fmt: skip
    assert deleting.results == {"kept" if want < offset else "unchanged": 1}


def test_the_high_watermark_is_an_offset_like_any_other() -> None:
    assert Deleting().delete({"orders": {0: -1}}) == ({"orders": {0: 13}}, {})
    slices = Log()
    slices.add(b"first")
    for data in sliced(VALUE, 11, message_id(2)):
        slices.append(data)
    assert Deleting(slices).delete({"orders": {0: -1}}) == ({"orders": {0: 1}}, {})


def test_only_slices_in_the_gap_before_the_offset_are_looked_for() -> None:
    deleting = Deleting()
    deleting.broker.settings = replace(deleting.broker.settings, look_back=4)
    deleting.broker.logs[0].max_read = 1
    assert deleting.delete({"orders": {0: 9}}) == ({"orders": {0: 4}}, {})
    assert [offset for _, offset, _ in deleting.broker.reads] == [4, 5, 6, 7, 8]


def test_but_what_is_known_to_begin_before_it_stays_as_well() -> None:
    deleting = Deleting()
    deleting.broker.settings = replace(deleting.broker.settings, look_back=4)
    assert deleting.delete({"orders": {0: 9}}) == ({"orders": {0: 1}}, {})  # the carrier was read, too


def test_what_has_been_read_once_is_not_read_again() -> None:
    deleting = Deleting()
    assert deleting.delete({"orders": {0: 5}}) == ({"orders": {0: 1}}, {})
    reads = [*deleting.broker.reads]
    assert deleting.delete({"orders": {0: 4}}) == ({"orders": {0: 1}}, {})
    assert (deleting.broker.reads, deleting.broker.asked) == (reads, 2)


def test_what_consumers_have_read_is_not_read_again() -> None:
    deleting = Deleting()
    for offset in (0, 5):  # the response ends in the middle
        deleting.broker.fetch(12, {0: offset}, max_bytes=5000)
    reads = [*deleting.broker.reads]
    assert deleting.delete({"orders": {0: 9}}) == ({"orders": {0: 1}}, {})
    assert deleting.delete({"orders": {0: 12}}) == ({"orders": {0: 12}}, {})
    assert (deleting.broker.reads, deleting.broker.asked) == (reads, 0)


def test_a_log_is_read_in_parts() -> None:
    deleting = Deleting()
    deleting.broker.logs[0].max_read = 1
    assert deleting.delete({"orders": {0: 11}}) == ({"orders": {0: 1}}, {})
    assert [offset for _, offset, _ in deleting.broker.reads] == [*range(11)]


def test_segments_of_li_are_complete_with_the_last_that_is_missing() -> None:
    log = Log()
    log.add_segments(VALUE, 4, 1, (0, 2, 1, 3))
    log.add_segments(VALUE, 4, 2, (1, 0))
    assert Deleting(log).delete({"orders": {0: 3}}) == ({"orders": {0: 0}}, {})
    assert Deleting(log).delete({"orders": {0: 4}}) == ({"orders": {0: 4}}, {})
    assert Deleting(log).delete({"orders": {0: 6}}) == ({"orders": {0: 4}}, {})


def test_a_last_slice_without_a_key_completes_no_message() -> None:
    log, parts = Log(), cut(VALUE, 3)
    for number, value in enumerate(parts):
        log.append(build_batch([NewRecord(value, None, (lm(message_id(1), number, 3, len(VALUE)),))]))
    assert Deleting(log).delete({"orders": {0: 3}}) == ({"orders": {0: 0}}, {})


def test_a_log_that_begins_later_is_read_from_there_on() -> None:
    log = large_log()
    log.start, log.max_read = 4, 1
    deleting = Deleting(log)
    assert deleting.delete({"orders": {0: 9}}) == ({"orders": {0: 4}}, {})
    assert [offset for _, offset, _ in deleting.broker.reads] == [4, 5, 6, 7, 8]
    assert Deleting(log).delete({"orders": {0: 3}}) == ({"orders": {0: 3}}, {})


def test_a_damaged_batch_which_no_consumer_gets_holds_nothing_up() -> None:
    log = large_log()
    log.batches[3] = log.batches[3][:-1] + bytes([log.batches[3][-1] ^ 1])
    assert Deleting(log).delete({"orders": {0: 9}}) == ({"orders": {0: 1}}, {})


@pytest.mark.parametrize(
    ("error_code", "reported"), [(NOT_LEADER, NOT_LEADER), (UNAUTHORIZED, UNAUTHORIZED), (THROTTLED, TIMED_OUT)]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_while_the_log_cannot_be_read_nothing_of_the_partition_is_deleted(
    version: int, error_code: int, reported: int, caplog: pytest.LogCaptureFixture
) -> None:
    deleting = Deleting()
    deleting.broker.error_code = error_code
    assert deleting.delete({"orders": {0: 5}}, version) == (None, {"orders": {0: reported}})
    want = {"free": {0: 5}}, {"orders": {0: reported}, "free": {0: 0}}
    assert deleting.delete({"orders": {0: 5}, "free": {0: 5}}, version) == want
    assert deleting.results == {"failed": 2}
    (line,) = caplog.records
    assert line.message == "records not deleted, they may be segments of large messages"


def test_nor_where_the_broker_says_nothing_of_its_log() -> None:
    """As where a read of a remote segment has timed out."""
    deleting = Deleting()
    deleting.broker.logs[0].batches.clear()
    assert deleting.delete({"orders": {0: 5}}) == (None, {"orders": {0: TIMED_OUT}})


def test_nor_where_the_log_begins_elsewhere_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    deleting = Deleting()
    monkeypatch.setattr(deleting.broker, "partition", lambda *of: {"error_code": OUT_OF_RANGE})
    assert deleting.delete({"orders": {0: 5}}) == (None, {"orders": {0: TIMED_OUT}})


def test_nor_once_the_time_is_over() -> None:
    deleting = Deleting(large_log(), large_log(), time_limit=TimeLimit("large_messages", 3.0, 1.0))
    deleting.broker.read_s = 1.0
    deleting.broker.logs[1].max_read = 1
    assert deleting.delete({"orders": {0: 5, 1: 12}}) == ({"orders": {0: 1}}, {"orders": {0: 0, 1: TIMED_OUT}})
    assert deleting.delete({"orders": {0: 5, 1: 4}})[0] == {"orders": {0: 1, 1: 1}}  # it goes on where it has stopped


def test_a_client_of_li_deletes_what_it_says() -> None:
    assert Deleting().delete({"orders": {0: 5}}, client_id="li-1") == ({"orders": {0: 5}}, {})


def test_a_topic_of_which_nothing_is_deleted_is_no_reason_to_respond_for_the_broker() -> None:
    assert Deleting().delete({"orders": {}}) == ({}, {})


def test_requests_for_other_topics_are_relayed() -> None:
    deleting = Deleting()
    assert deleting.delete({"free": {0: 5, 1: -1}}) == ({"free": {0: 5, 1: -1}}, {})
    assert deleting.broker.needs == []


def test_the_topics_id_is_asked_for() -> None:
    deleting = Deleting(id_of=lambda name: NO_ID)
    assert deleting.delete({"orders": {0: 5}}) == ({"orders": {0: 1}}, {})
    assert deleting.broker.stats.intervals.deletable(topic_id("orders"), 0, 5) == 1


def forged(kind: str) -> NewRecord:
    """A carrier that another client has written, with the id of a message whose slices are at 1 to 10."""
    pointed = range(1, 11) if kind == "other bytes" else range(20, 30)
    return carrier_record(VALUE, 11, message_id(1), pointed, topic_id=ORDERS, crc=0)


def log_with(record: NewRecord) -> Log:
    """first, the slices of a message at 1 to 10, this record at 11, a plain one; the carrier of the message at 13."""
    log = Log()
    log.add(b"first")
    slices = [log.append(one) for one in sliced(VALUE, 11, message_id(1))]
    log.append(build_batch([record]))
    log.add(b"plain")
    log.append(build_batch([carrier_record(VALUE, 11, message_id(1), slices, topic_id=ORDERS)]))
    return log


@pytest.mark.parametrize("has_consumer", [False, True])
@pytest.mark.parametrize("kind", ["other bytes", "no slices"])
def test_a_forged_carrier_does_not_let_the_slices_of_a_message_be_deleted(kind: str, has_consumer: bool) -> None:
    log = log_with(forged(kind))
    log.max_read = 1
    deleting = Deleting(log)
    if has_consumer:
        end, log.batches = log.batches[-1:], log.batches[:-1]
        deleting.broker.fetch(12, {0: 0})
        log.batches += end
    assert deleting.delete({"orders": {0: 13}}) == ({"orders": {0: 1}}, {})
    deleting.broker.fetch(12, {0: 13})
    assert deleting.broker.stats.assembled == 1
    assert deleting.delete({"orders": {0: 14}}) == ({"orders": {0: 14}}, {})


def test_nor_does_one_that_points_to_what_is_before_the_gap() -> None:
    log = Log()
    log.add(*[b"plain"] * 20)
    slices = [log.append(one) for one in sliced(VALUE, 11, message_id(1))]
    log.append(build_batch([carrier_record(VALUE, 11, message_id(1), range(10), topic_id=ORDERS, crc=0)]))
    log.append(build_batch([carrier_record(VALUE, 11, message_id(1), slices, topic_id=ORDERS)]))
    log.max_read = 1
    deleting = Deleting(log)
    deleting.broker.settings = replace(deleting.broker.settings, look_back=11)
    assert deleting.delete({"orders": {0: 31}}) == ({"orders": {0: 20}}, {})


def test_a_carrier_ends_its_message_with_pointers_that_lead_elsewhere_too() -> None:
    log = Log()
    log.add(b"first")
    for one in sliced(VALUE, 11, message_id(1)):
        log.append(one)
    log.append(build_batch([carrier_record(VALUE, 11, message_id(1), range(50, 60), topic_id=ORDERS)]))
    log.add(b"last")
    assert Deleting(log).delete({"orders": {0: 9}}) == ({"orders": {0: 1}}, {})
    assert Deleting(log).delete({"orders": {0: 13}}) == ({"orders": {0: 13}}, {})
