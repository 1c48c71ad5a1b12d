"""Large messages on their way to a broker: what is in the log afterwards, and what the client gets."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest
from crc32c import crc32c
from support.client import FakeClient
from support.large_messages import LogBroker, Splitting
from support.produce_requests import VERSIONS, produce_request, read, results, topic_id

from kafka_sidecar.codec.records import Codec, Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages import lm_header
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.lm_header import V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.large_messages.serializers import SegmentSerializer
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.relay.exchange import Last, Respond

VERSION = 12
DEFAULT_LIMIT = 1_048_588  # Kafka's
LARGE, SMALL = os.urandom(10_000), b"small"
PLACE = "large", 0
each_version = pytest.mark.parametrize("version", VERSIONS)


def batch(*values: bytes, codec: int = 0, key: bytes | None = b"key", **header: Any) -> bytes:
    return build_batch([NewRecord(value, key) for value in values], codec=codec, **header)


def request(data: bytes, topic: str = "large", version: int = VERSION, acks: int = -1) -> bytes:
    return produce_request(version, {topic: {0: data}}, acks)


def values(broker: LogBroker, place: tuple[str, int] = PLACE) -> list[bytes | None]:
    """The values of the log, messages assembled by their pointers."""
    log: list[Any] = [record for one in broker.log[place] for record in batches(one)[0].records()]
    found: list[bytes | None] = []
    for record in log:
        headers = {header.key: header.value for header in record.headers}
        if "_lmr" in headers:
            pointers = BackPointers.decode(headers["_lmr"], 1000)
            value = b"".join(log[offset].value for offset in pointers.offsets) + record.value
            assert crc32c(value) == pointers.crc
            assert pointers.topic_id == topic_id(place[0])
            found.append(value)
        elif "_lm" not in headers:
            found.append(record.value)
    return found


def code_of(step: Any, version: int = VERSION) -> int:
    frame = step.frame if isinstance(step, Respond) else step
    ((_, _, code, _),) = results(version, frame)
    return code


def message_of(step: Any) -> str:
    (topic,) = read(VERSION, step.frame if isinstance(step, Respond) else step).responses
    return str(topic.partition_responses[0].error_message)


@each_version
def test_a_large_value_is_in_the_log_as_slices_and_a_carrier_in_every_version(version: int) -> None:
    broker = LogBroker()
    step = Splitting(broker).send(request(batch(LARGE), version=version))
    assert results(version, step) == [("large", 0, 0, 3)]
    assert values(broker) == [LARGE]
    assert [len(one) <= broker.max_batch for one in broker.log[PLACE]] == [True] * 4
    assert all(one.acks == -1 for one in broker.requests)


def test_offsets_are_right_where_small_and_large_values_are_in_one_batch() -> None:
    broker, sent = LogBroker(), [SMALL, LARGE, SMALL, LARGE, SMALL]
    assert results(VERSION, Splitting(broker).send(request(batch(*sent)))) == [("large", 0, 0, 6)]
    assert values(broker) == sent


@pytest.mark.parametrize("codec", Codec)
def test_a_batch_that_is_small_enough_is_not_touched(codec: Codec) -> None:
    broker, data = LogBroker(), batch(SMALL, bytes(3000), codec=codec)
    for _ in range(2):
        assert code_of(Splitting(broker).send(request(data))) == 0
    assert broker.log[PLACE] == [data, data]


def test_a_value_that_is_small_once_it_is_compressed_is_not_touched() -> None:
    broker, data = LogBroker(), batch(bytes(1_000_000), codec=Codec.ZSTD)
    assert code_of(Splitting(broker).send(request(data))) == 0
    assert broker.log[PLACE] == [data]


def test_the_limit_of_a_topic_is_asked_for_once() -> None:
    broker = LogBroker()
    splitting = Splitting(broker)
    for _ in range(3):
        splitting.send(request(batch(SMALL)))
        splitting.send(request(batch(LARGE)))
    assert broker.described == 1
    splitting.now = 31.0
    for _ in range(3):
        splitting.send(request(batch(SMALL)))
        splitting.send(request(batch(LARGE)))
    assert broker.described == 2


@pytest.mark.parametrize("size", [3500, 1500, 800])
def test_a_limit_that_is_lowered_is_known_after_30_seconds_whatever_the_size_of_batches(size: int) -> None:
    broker, value = LogBroker(), os.urandom(size)
    splitting = Splitting(broker)
    assert code_of(splitting.send(request(batch(value)))) == 0
    broker.max_batch = 500
    splitting.now = 30.0
    assert code_of(splitting.send(request(batch(value)))) == 10
    splitting.now = 30.1
    assert code_of(splitting.send(request(batch(value)))) == 0
    assert values(broker) == [value, value]


def test_a_carrier_that_the_broker_finds_too_large_has_it_asked_at_once() -> None:
    broker = LogBroker(errors={3: 10})
    splitting = Splitting(broker)
    assert code_of(splitting.send(request(batch(LARGE)))) == 10
    assert code_of(splitting.send(request(batch(LARGE)))) == 0
    assert broker.described == 2


def test_a_setting_that_allows_more_than_the_topic_is_found_out_by_the_first_batch_that_is_rejected() -> None:
    broker, value = LogBroker(max_batch=1500), os.urandom(2000)
    splitting = Splitting(broker, max_batch=4096)
    assert code_of(splitting.send(request(batch(value)))) == 10
    assert broker.described == 0
    for at in (0.0, 31.0, 62.0):
        splitting.now = at
        assert code_of(splitting.send(request(batch(value)))) == 0
    assert (broker.described, values(broker)) == (3, [value] * 3)


def test_the_first_error_of_several_slices_is_the_clients() -> None:
    step = Splitting(LogBroker(errors={1: 19, 2: 6})).send(request(batch(LARGE)))
    assert code_of(step) == 19


def test_a_limit_that_is_raised_is_used_after_a_while() -> None:
    broker = LogBroker()
    splitting = Splitting(broker)
    splitting.send(request(batch(LARGE)))
    broker.max_batch, splitting.now = 20_000, 31.0
    splitting.send(request(batch(LARGE)))
    assert [len(one) > 10_000 for one in broker.log[PLACE]] == [False] * 4 + [True]


@pytest.mark.parametrize(("compacted", "described"), [("refuse", 0), ("unique", 1)])
def test_a_limit_in_the_configuration_is_not_asked_for_unless_keys_depend_on_the_topic(
    compacted: str, described: int
) -> None:
    broker = LogBroker(max_batch=20_000)
    splitting = Splitting(broker, max_batch=6000, compacted=compacted)
    splitting.send(request(batch(bytes(5000))))
    assert broker.described == 0
    splitting.send(request(batch(LARGE)))
    assert broker.described == described
    assert values(broker) == [bytes(5000), LARGE]
    assert len(broker.log[PLACE]) == 1 + 3


def test_a_topic_that_the_client_may_not_describe_has_kafkas_limit_until_the_broker_says_no() -> None:
    broker = LogBroker(max_batch=530_000, is_describable=False)
    splitting, value = Splitting(broker), os.urandom(1_100_000)
    assert code_of(splitting.send(request(batch(value)))) == 0
    assert values(broker) == [value]
    assert (len(broker.log[PLACE]), broker.batches) == (3 + 1, 2 + 3 + 1)  # two slices were too large
    assert code_of(splitting.send(request(batch(value)))) == 0
    assert broker.batches == 2 * (3 + 1) + 2


def test_a_slice_that_is_too_large_twice_is_an_error() -> None:
    broker = LogBroker(max_batch=1000, is_describable=False)
    splitting = Splitting(broker, max_batch=8000)
    step = splitting.send(request(batch(LARGE)))
    assert code_of(step) == 10
    assert "a slice of the message is not stored" in message_of(step)
    assert splitting.stats.split == {"slice": 1}


@pytest.mark.parametrize("code", [6, 7, 19, 29, -1])
def test_a_slice_that_fails_fails_its_partition_alone(code: int) -> None:
    broker = LogBroker(errors={1: code})
    splitting = Splitting(broker)
    frame = produce_request(
        VERSION, {"large": {0: batch(LARGE), 1: batch(LARGE), 2: batch(SMALL)}, "small": {0: batch(SMALL)}}
    )
    assert results(VERSION, splitting.send(frame)) == [
        ("large", 0, code, -1), ("large", 1, 0, 3), ("large", 2, 0, 0), ("small", 0, 0, 0)
    ]  # fmt: skip
    splitting.services.progress.expire()
    kept = code in (6, 7, 19)  # the client sends the batch again, and its slices are used then
    assert splitting.stats.orphans == (0 if kept else 2)
    splitting.now = 601.0
    splitting.services.progress.expire()
    assert splitting.stats.orphans == 2
    assert (values(broker, ("large", 1)), values(broker, ("large", 2))) == ([LARGE], [SMALL])


def test_slices_of_a_batch_that_the_broker_rejects_are_counted() -> None:
    broker = LogBroker(errors={3: 45})  # OUT_OF_ORDER_SEQUENCE_NUMBER for the carrier
    splitting = Splitting(broker)
    assert code_of(splitting.send(request(batch(LARGE)))) == 45
    assert (splitting.stats.slices, splitting.stats.orphans) == (3, 3)


def test_with_acks_0_slices_are_acknowledged_and_the_carrier_is_not() -> None:
    broker = LogBroker()
    Splitting(broker).send(request(batch(LARGE), acks=0))
    assert [one.acks for one in broker.requests] == [1, 1, 1, 0]
    assert values(broker) == [LARGE]


def test_with_acks_1_slices_have_it_too() -> None:
    broker = LogBroker()
    Splitting(broker).send(request(batch(LARGE), acks=1))
    assert [one.acks for one in broker.requests] == [1] * 4


def test_with_acks_0_a_slice_that_fails_ends_the_connection() -> None:
    step = Splitting(LogBroker(errors={0: 6})).send(request(batch(LARGE), acks=0))
    assert isinstance(step, Last)
    assert step.cause == "rejected_without_acks"


def test_slices_have_the_timeout_of_the_request_and_no_transaction() -> None:
    broker = LogBroker()
    Splitting(broker).send(request(batch(LARGE, producer_id=5, producer_epoch=0, base_sequence=0, attributes=16)))
    assert {one.timeout_ms for one in broker.requests} == {broker.requests[-1].timeout_ms}
    assert [one.transactional_id for one in broker.requests] == [None] * 3 + ["tx"]


def test_many_slices_are_sent_in_windows() -> None:
    broker, value = LogBroker(max_batch=1_000_000), os.urandom(40_000_000)
    assert code_of(Splitting(broker).send(request(batch(value)))) == 0
    assert values(broker) == [value]


@pytest.mark.parametrize(
    ("software", "advice"),
    [
        ("apache-kafka-java 4.3.1", "lower max.request.size of the producer to 9999"),
        ("confluent-kafka-python 2.16.1-rdkafka-2.16.0", "lower message.max.bytes of the producer to 9999"),
        ("kgo 1.22", "lower ProducerBatchMaxBytes"),
        ("sarama 1.61", "lower Producer.MaxMessageBytes"),
        ("kafka-python 3.0.12", "lower max_request_size"),
        (None, "lower its maximum size of requests of the producer"),
    ],
)
def test_a_value_over_the_limit_is_rejected_and_the_setting_of_the_client_named(
    software: str | None, advice: str
) -> None:
    broker = LogBroker()
    splitting = Splitting(broker, FakeClient(client_software=software), max_message=9999)
    step = splitting.send(request(batch(LARGE)))
    assert code_of(step) == 10
    assert "a value has 10000 bytes, more than the 9999 of large_messages.topics: max_message" in message_of(step)
    assert advice in message_of(step)
    assert broker.log == {}


def test_near_the_limits_of_consumers_their_setting_is_named() -> None:
    client = FakeClient(client_software="librdkafka-rdkafka")
    splitting = Splitting(LogBroker(), client, max_message=80_000_000).with_services(max_inflated=1)
    step = splitting.send(request(batch(bytes(80_000_001))))
    assert "consumers of this library need receive.message.max.bytes above" in message_of(step)


def test_a_batch_that_inflates_too_far_is_rejected() -> None:
    splitting = Splitting(LogBroker(), max_message=100_000).with_services(max_inflated=1)
    step = splitting.send(request(batch(os.urandom(9000) * 20, codec=Codec.GZIP)))
    assert code_of(step) == 10
    assert "more than 100000 bytes when decompressed" in message_of(step)


def test_in_a_compacted_topic_large_messages_are_rejected() -> None:
    broker = LogBroker(is_compacted=True)
    step = Splitting(broker).send(request(batch(LARGE)))
    assert code_of(step) == 10
    assert "compacted: unique" in message_of(step)
    assert broker.log == {}


def test_in_a_compacted_topic_slices_have_unique_keys_if_configured() -> None:
    broker = LogBroker(is_compacted=True)
    splitting = Splitting(broker, compacted="unique")
    assert code_of(splitting.send(request(batch(LARGE)))) == 0
    assert values(broker) == [LARGE]
    assert code_of(splitting.send(request(batch(LARGE, key=None)))) == 87


def test_in_a_compacted_topic_that_the_client_may_not_describe_the_error_says_so() -> None:
    broker = LogBroker(is_compacted=True, is_describable=False, max_batch=DEFAULT_LIMIT)
    step = Splitting(broker).send(request(batch(os.urandom(DEFAULT_LIMIT))))
    assert code_of(step) == 10
    assert "if the topic is compacted, slices need unique keys" in message_of(step)


def test_a_damaged_batch_is_left_to_the_broker() -> None:
    broker = LogBroker()
    data = bytearray(batch(LARGE))
    data[-1] ^= 1
    with pytest.raises(AssertionError):  # the broker of the tests finds a wrong checksum
        Splitting(broker).send(request(bytes(data)))
    assert broker.requests[-1].topic_data[0].partition_data[0].records == bytes(data)


def test_a_batch_whose_records_cannot_be_read_is_left_to_the_broker() -> None:
    broker = LogBroker()
    data = build_batch([NewRecord(LARGE)], codec=0, attributes=0)
    with_gzip_bit = bytearray(data)
    with_gzip_bit[22] = Codec.GZIP
    with_gzip_bit[17:21] = crc32c(bytes(with_gzip_bit[21:])).to_bytes(4, "big")
    assert code_of(Splitting(broker).send(request(bytes(with_gzip_bit)))) == 10


def test_work_that_takes_too_long_is_rejected_for_now() -> None:
    def too_long(need: Work) -> Any:
        raise TimeoutError

    splitting = Splitting(LogBroker())
    assert code_of(splitting.send(request(batch(LARGE)), too_long)) == 7
    assert splitting.stats.split == {"timed_out": 1}


class Failing(SegmentSerializer):
    def serialize(self, topic: str, segment: Segment) -> bytes:
        raise KeyError("a secret of the value")


def test_a_serializer_that_fails_rejects_the_batch_and_quotes_nothing() -> None:
    step = Splitting(LogBroker(), serializer=Failing()).send(request(batch(LARGE)))
    assert code_of(step) == -1
    assert message_of(step) == "the segment serializer has failed: KeyError"


def test_headers_of_assembled_messages_are_removed_from_small_values() -> None:
    delivered = Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 9).as_delivered().encode())
    broker = LogBroker()
    for codec in (0, Codec.ZSTD):
        data = build_batch([NewRecord(SMALL, None, (delivered, Header("h", b"v")))], codec=codec)
        assert code_of(Splitting(broker).send(request(data))) == 0
    found = [record for one in broker.log[PLACE] for record in batches(one)[0].records()]
    assert [[header.key for header in record.headers] for record in found] == [["h"], ["h"]]


def test_headers_of_assembled_messages_are_removed_from_large_batches_too() -> None:
    delivered = Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 9).as_delivered().encode())
    broker = LogBroker(max_batch=1 << 22)
    data = build_batch([NewRecord(bytes(1 << 21), None, (delivered,))])
    assert code_of(Splitting(broker).send(request(data))) == 0
    (record,) = batches(broker.log[PLACE][0])[0].records()
    assert (record.headers, record.value_size) == ((), 1 << 21)


def test_segments_of_li_pass_unchanged() -> None:
    header = Header(lm_header.KEY, LmHeader(V3, bytes(range(16)), 0, 2, 9).encode())
    broker, data = LogBroker(), build_batch([NewRecord(SMALL, None, (header,))])
    assert code_of(Splitting(broker).send(request(data))) == 0
    assert broker.log[PLACE] == [data]


def test_what_clients_of_li_send_is_not_looked_into() -> None:
    broker = LogBroker(max_batch=20_000)
    client = FakeClient(client_id="li-producer-1")
    splitting = Splitting(broker, client, max_batch=5000).with_services(li_clients=("li-*",))
    assert code_of(splitting.send(request(batch(LARGE)))) == 0
    assert broker.log[PLACE] == [batch(LARGE)]


def test_a_message_that_is_sent_again_has_the_same_id() -> None:
    broker = LogBroker()
    splitting, data = Splitting(broker), batch(LARGE, producer_id=5, producer_epoch=0, base_sequence=7)
    for _ in range(2):
        splitting.send(request(data))
    records = [record for one in broker.log[PLACE] for record in batches(one)[0].records()]
    ids = {LmHeader.decode(record.headers[0].value).message_id for record in records}
    assert (len(records), len(ids)) == (8, 1)


def test_what_is_split_and_rejected_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    broker = LogBroker()
    splitting = Splitting(broker, max_message=10_000)
    with caplog.at_level(logging.WARNING):
        for value in (LARGE, LARGE + b"1", LARGE + b"2"):
            splitting.send(request(batch(value)))
    assert splitting.stats.split == {"split": 1, "too_large": 2}
    assert splitting.stats.slices == 3
    assert splitting.stats.slice_bytes == sum(map(len, broker.log[PLACE][:3]))
    assert [record.message for record in caplog.records] == ["large message rejected"]


def test_records_get_the_header_t_where_it_is_configured_whether_they_are_split_or_not() -> None:
    broker = LogBroker()
    splitting = Splitting(broker, timestamp_header=True)
    sent = build_batch([NewRecord(SMALL), NewRecord(LARGE, timestamp_delta=7)], base_timestamp=1000)
    assert code_of(splitting.send(request(sent))) == 0
    assert code_of(splitting.send(request(batch(SMALL, base_timestamp=1000)))) == 0
    records = [record for one in broker.log[PLACE] for record in batches(one)[0].records()]
    times = [
        int.from_bytes(header.value or b"", "big")
        for record in records
        for header in record.headers
        if header.key == "_t"
    ]
    assert times == [1000, 1007, 1000]
    assert values(broker) == [SMALL, LARGE, SMALL]


def test_a_batch_that_is_over_the_limit_with_the_header_t_is_split() -> None:
    broker = LogBroker()
    sent = batch(os.urandom(broker.max_batch - 80))
    assert broker.max_batch - 10 < len(sent) <= broker.max_batch
    assert code_of(Splitting(broker, timestamp_header=True).send(request(sent))) == 0
    assert len(broker.log[PLACE]) > 1
    assert all(len(one) <= broker.max_batch for one in broker.log[PLACE])


COMPRESSES = b"".join(b'{"id": %9d, "text": "%s"}' % (at, b"x" * 300) for at in range(400))  # 130 KB, to 2 KB
TYPES = ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("compression_type", TYPES)
def test_what_counts_is_the_size_that_the_broker_stores(compression_type: str, codec: Codec) -> None:
    broker = LogBroker(max_batch=20_000, compression_type=compression_type)
    splitting = Splitting(broker)
    noise = os.urandom(60_000)
    for sent in ([COMPRESSES], [SMALL, COMPRESSES, noise], [noise], [COMPRESSES[:15_000]], [b"1", b"2"]):
        assert code_of(splitting.send(request(batch(*sent, codec=codec)))) == 0
    assert values(broker) == [COMPRESSES, SMALL, COMPRESSES, noise, noise, COMPRESSES[:15_000], b"1", b"2"]
    assert splitting.stats.orphans == 0
    assert broker.described == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip"])
def test_a_batch_that_fits_is_written_where_the_client_may_not_describe_such_a_topic(
    compression_type: str, codec: Codec
) -> None:
    broker = LogBroker(max_batch=DEFAULT_LIMIT, compression_type=compression_type, is_describable=False)
    assert code_of(Splitting(broker).send(request(batch(bytes(900_000), codec=codec)))) == 0
    assert values(broker) == [bytes(900_000)]


def test_a_compacted_topic_that_may_accept_a_batch_gets_it_as_it_came() -> None:
    """Slices are refused there, and the broker may compress it below the limit."""
    broker = LogBroker(max_batch=20_000, compression_type="gzip", is_compacted=True)
    data = batch(COMPRESSES, codec=Codec.ZSTD)
    assert code_of(Splitting(broker).send(request(data))) == 0
    assert broker.log[PLACE] == [data]
    noise = batch(os.urandom(60_000), codec=Codec.ZSTD)
    assert code_of(Splitting(broker).send(request(noise))) == 10


def test_a_topic_whose_compression_type_changes_is_asked_again_when_a_slice_is_too_large() -> None:
    broker = LogBroker(max_batch=20_000)
    splitting = Splitting(broker)
    incompressible = b"".join(os.urandom(50) + bytes(200) for _ in range(2000))
    assert code_of(splitting.send(request(batch(incompressible, codec=Codec.ZSTD)))) == 0
    broker.compression_type = "uncompressed"
    assert code_of(splitting.send(request(batch(incompressible, codec=Codec.ZSTD)))) == 0
    assert values(broker) == [incompressible] * 2
    assert broker.described == 2


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize(("max_message", "max_batch"), [(100_000, 1 << 20), (100_000, 4096)])
def test_a_value_over_max_message_is_refused_whether_the_topic_would_take_it_or_not(
    max_message: int, max_batch: int, codec: Codec
) -> None:
    broker = LogBroker(max_batch=max_batch)
    splitting = Splitting(broker, max_message=max_message)
    for sent in ([bytes(100_001)], [SMALL, bytes(100_001), SMALL], [bytes(90_000), bytes(100_001)]):
        step = splitting.send(request(batch(*sent, codec=codec)))
        assert code_of(step) == 10
        assert "max_message" in message_of(step)
    assert (broker.log, splitting.stats.split) == ({}, {"too_large": 3})
    assert code_of(splitting.send(request(batch(bytes(100_000), bytes(100_000), codec=codec)))) == 0
    assert values(broker) == [bytes(100_000)] * 2


def test_a_small_batch_that_inflates_too_far_for_consumers_is_refused() -> None:
    broker = LogBroker(max_batch=1 << 20)
    splitting = Splitting(broker, max_message=100_000).with_services(max_inflated=200_000)
    step = splitting.send(request(batch(*[bytes(90_000)] * 3, codec=Codec.ZSTD)))
    assert (code_of(step), broker.log) == (10, {})
    assert "200000 bytes when decompressed" in message_of(step)
