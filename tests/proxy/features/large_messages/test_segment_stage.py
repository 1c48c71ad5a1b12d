"""What clients write themselves in topics with large messages, through all features together."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from support.client import FakeClient
from support.driven import Driven, Step
from support.features import begun, started
from support.large_messages import LogBroker, answered
from support.produce_requests import VERSIONS, produce_request, read, results

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import Codec, Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages import back_pointers, lm_header, object_reference, payload_format
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.large_messages.lm_header import V3, LmHeader
from kafka_sidecar.large_messages.segment import Segment
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.relay.exchange import Last, Respond, Send

ID = bytes(range(16))
VALID = b'{"a":1}'  # by itself, as every policy wants it
PLAIN = NewRecord(VALID, b"k")
HEADER = Header(lm_header.KEY, LmHeader(V3, ID, 0, 2, 14).encode())
DELIVERED = Header(lm_header.KEY, LmHeader(V3, ID, 0, 2, 9).as_delivered().encode())
V3_SEGMENT = NewRecord(VALID, b"k", (HEADER,))
# Version 0 and checksum make it invalid JSON, so a policy that looks at sizes alone.
PAYLOAD_SEGMENT = NewRecord(payload_format.serialize(Segment(ID, 0, 2, 14, VALID)), b"k")
POINTERS = Header(back_pointers.KEY, BackPointers(bytes(16), 0, (0,)).encode())
REFERENCE = Header(object_reference.KEY, b"\1" + bytes(12) + b"orders/" + b"0" * 32)
JSON = [{"name": "orders", "policy": "json"}]
SIZES = [{"name": "orders", "policy": "limits"}]
LIMITS = {"limits": {"type": "limits", "max_value_bytes": 1000}}


def sidecar(*interceptors: Mapping[str, Any], **settings: Any) -> Features:
    topic = {"name": "orders", **settings.pop("topic", {})}
    large = {"topics": [topic], "object_store": "memory://", "li_clients": settings.pop("li_clients", [])}
    nothing = {"type": "support.interception:Reads", "topics": ["other"]}
    return started(*(interceptors or (nothing,)), large_messages=large, **settings)


def send(
    features: Features, *records: NewRecord, version: int = 12, acks: int = -1, codec: int = 0, **header: Any
) -> tuple[Step, LogBroker]:
    """What the client gets for a batch, and the broker."""
    broker = LogBroker(max_batch=1 << 20)
    frame = produce_request(version, {"orders": {0: build_batch(records, codec=codec, **header)}}, acks)
    exchange = begun(features, ApiKey.PRODUCE, version, frame, FakeClient(client_id="li-app"))
    assert exchange is not None
    step = met(exchange, exchange.request(frame), broker)
    return (broker.serve(step) if isinstance(step, bytes) and step else step), broker


def met(exchange: Driven, step: Step, broker: LogBroker) -> Step:
    while isinstance(step, Need):
        match step:
            case Work():
                step = exchange.answer(step.run())
            case Send(frames=frames, take=take):
                step = exchange.answer(answered(tuple(broker.serve(one) for one in frames), take))
            case _:
                raise AssertionError(step)
    return step


def code(step: Step, version: int = 12) -> int:
    frame = step.frame if isinstance(step, Respond) else step
    assert isinstance(frame, bytes)
    ((_, _, found, _),) = results(version, frame)
    return found


ENFORCED: list[dict[str, Any]] = [
    {"topics": JSON}, {"topics": [{"name": "orders", "policy": "json", "percent": 50}]},
    {"topics": SIZES, "policies": LIMITS}, {"topics": JSON, "li_clients": ["li-*"]},
]  # fmt: skip
NOT_ENFORCED: list[dict[str, Any]] = [
    {}, {"topics": [{"name": "orders", "policy": "json", "mode": "shadow"}]},
    {"topics": [{"name": "orders", "policy": "json", "mode": "off"}]},
    {"topics": [{"name": "orders", "policy": "json", "percent": 0}]}, {"li_clients": ["li-*"]},
    {"topics": JSON, "topic": {"accept_segments": True}}, {"topics": [{"name": "other", "policy": "json"}]},
]  # fmt: skip


@pytest.mark.parametrize("settings", ENFORCED, ids=str)
def test_segments_are_refused_where_a_policy_that_is_enforced_validates_records(settings: dict[str, Any]) -> None:
    step, broker = send(sidecar(**settings), PLAIN, V3_SEGMENT, PLAIN, V3_SEGMENT)
    assert (code(step), broker.log) == (87, {})
    assert isinstance(step, Respond)
    ((partition,),) = (topic.partition_responses for topic in read(12, step.frame).responses)
    assert [one.batch_index for one in partition.record_errors] == [1, 3]
    assert "accept_segments" in partition.record_errors[0].batch_index_error_message
    step, broker = send(sidecar(**settings), PLAIN)
    assert (code(step), len(broker.log)) == (0, 1)


@pytest.mark.parametrize("settings", NOT_ENFORCED, ids=str)
def test_elsewhere_they_pass_unchanged(settings: dict[str, Any]) -> None:
    step, broker = send(sidecar(**settings), PLAIN, V3_SEGMENT)
    assert code(step) == 0
    assert broker.log["orders", 0] == [build_batch([PLAIN, V3_SEGMENT])]


def test_segments_in_the_value_are_refused_in_the_same_way() -> None:
    by_size = {"topics": SIZES, "policies": LIMITS}
    assert code(send(sidecar(**by_size), PAYLOAD_SEGMENT)[0]) == 87
    assert code(send(sidecar(**by_size, topic={"accept_segments": True}), PAYLOAD_SEGMENT)[0]) == 0
    assert code(send(sidecar(), PAYLOAD_SEGMENT)[0]) == 0


@pytest.mark.parametrize("store", ["log", "object"])
@pytest.mark.parametrize("header", [POINTERS, REFERENCE], ids=["_lmr", "_lmo"])
@pytest.mark.parametrize("settings", [{}, {"topics": JSON}, {"li_clients": ["*"]}], ids=str)
def test_what_only_sidecars_write_is_refused_from_any_client(
    settings: dict[str, Any], header: Header, store: str
) -> None:
    forged = NewRecord(VALID, b"k", (HEADER, header))
    step, broker = send(sidecar(topic={"store": store}, **settings), PLAIN, forged)
    assert (code(step), broker.log) == (87, {})
    accepting = sidecar(topic={"store": store, "accept_segments": True}, **settings)
    step, broker = send(accepting, PLAIN, forged)
    assert code(step) == 0
    assert broker.log["orders", 0] == [build_batch([PLAIN, forged])]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", Codec)
def test_they_are_found_in_every_version_and_codec(version: int, codec: Codec) -> None:
    step, broker = send(sidecar(topics=JSON), PLAIN, V3_SEGMENT, version=version, codec=codec)
    assert (code(step, version), broker.log) == (87, {})


def test_so_are_those_of_a_transaction() -> None:
    step, broker = send(
        sidecar(topics=JSON), V3_SEGMENT, producer_id=5, producer_epoch=0, base_sequence=0, attributes=16
    )
    assert (code(step), broker.log) == (87, {})


def test_with_acks_0_they_end_the_connection() -> None:
    step, broker = send(sidecar(topics=JSON), V3_SEGMENT, acks=0)
    assert isinstance(step, Last)
    assert (step.frame, step.cause, broker.log) == (b"", "rejected_without_acks", {})


def test_the_header_of_a_delivered_message_is_removed_and_not_refused() -> None:
    step, broker = send(sidecar(topics=JSON), NewRecord(VALID, b"k", (DELIVERED, Header("h", b"v"))))
    assert code(step) == 0
    (record,) = batches(broker.log["orders", 0][0])[0].records()
    assert [header.key for header in record.headers] == ["h"]


def test_an_interceptor_may_add_segments_where_clients_must_not() -> None:
    adding = {"type": "support.segment_plugins:AddsSegments", "topics": ["orders"]}
    step, broker = send(sidecar(adding, topics=JSON), PLAIN)
    assert code(step) == 0
    (record,) = batches(broker.log["orders", 0][0])[0].records()
    assert [header.key for header in record.headers] == ["_lm"]
    assert code(send(sidecar(adding, topics=JSON), V3_SEGMENT)[0]) == 87


def test_a_refused_batch_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    features = sidecar(topics=JSON)
    with caplog.at_level(logging.WARNING):
        for record in (V3_SEGMENT, V3_SEGMENT, NewRecord(VALID, b"k", (POINTERS,))):
            send(features, record)
    assert features.large_messages is not None
    assert features.large_messages.stats.split == {"segments": 2, "forged": 1}
    lines = [line.__dict__ for line in caplog.records if line.message == "large message rejected"]
    assert [(line["topic"], line["reason"]) for line in lines] == [("orders", "segments"), ("orders", "forged")]


def test_a_response_names_no_more_records_than_its_limit() -> None:
    features = sidecar(topics=JSON, limits={"max_record_errors": 3})
    step, _ = send(features, *[V3_SEGMENT] * 4)
    assert isinstance(step, Respond)
    ((partition,),) = (topic.partition_responses for topic in read(12, step.frame).responses)
    assert len(partition.record_errors) == 1
    assert "4 record errors" in partition.error_message


def test_a_batch_that_inflates_far_is_looked_into_in_a_thread_and_validated_there() -> None:
    """A few kilobytes that are megabytes: neither the search nor the policy holds up the loop."""
    large = b'{"a":"' + b"x" * (4 << 20) + b'"}'
    features = sidecar(topics=JSON)
    frame = produce_request(12, {"orders": {0: build_batch([NewRecord(large, b"k")], codec=Codec.ZSTD)}})
    exchange = begun(features, ApiKey.PRODUCE, 12, frame)
    assert exchange is not None
    step, works = exchange.request(frame), 0
    while isinstance(step, Need):
        if isinstance(step, Work):
            works += 1
        step = exchange.answer(step.run()) if isinstance(step, Work) else met(exchange, step, LogBroker(1 << 20))
    assert works >= 2


@pytest.mark.parametrize("topic", ["a/b", "/abs", "..", "caf\udce9", "x" * 250])
def test_a_name_that_no_topic_may_have_is_left_to_the_broker(topic: str) -> None:
    features = sidecar(topic={"name": "*", "store": "object", "object_above": 1024})
    assert features.large_messages is not None
    assert features.large_messages.topics.find(topic) is None
