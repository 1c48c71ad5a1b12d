"""Large messages that clients send and read: what the sidecar has split, stored or assembled, and its segments."""

from __future__ import annotations

import asyncio
import datetime
import os
import time
from collections import Counter
from collections.abc import Mapping

import pytest
from support import oracle
from support.auditing import NOW_MS, Audited
from support.fetches import fetch_request
from support.interception import Intercepting, fetch_response
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log
from support.large_messages import LogBroker
from support.produce_requests import produce_request, topic_id
from support.share_fetches import acknowledging, partition, share_response

from kafka_sidecar.audit.contract import NO_OFFSET, Result
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import open_request
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.large_messages import lm_header
from kafka_sidecar.large_messages.lm_header import LmHeader
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.exchanges.fetch import FetchExchanges
from kafka_sidecar.proxy.exchanges.messages import MessageExchanges
from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords
from kafka_sidecar.proxy.features.authorization.checked_apis import Need as Needed
from kafka_sidecar.proxy.features.authorization.checks import Rules
from kafka_sidecar.proxy.features.authorization.sessions import CheckFetch
from kafka_sidecar.proxy.features.authorization.topic_apis import TOPIC_APIS
from kafka_sidecar.proxy.features.denials import Denials
from kafka_sidecar.proxy.features.interception.consume_stage import ConsumeStage
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage, ShareAssembleStage
from kafka_sidecar.proxy.features.large_messages.object_stage import ObjectStage
from kafka_sidecar.proxy.features.large_messages.services import Services
from kafka_sidecar.proxy.features.large_messages.split_stage import SplitStage
from kafka_sidecar.proxy.features.large_messages.stats import LargeMessageStats
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.relay.exchange import Begin, TopicIds

NAMES: Mapping[bytes, str] = {topic_id(name): name for name in ("orders", "objects", "free", "kept")}
VALUE = os.urandom(9000)
SEGMENTS = 4  # of it: three slices of a batch of 4096 bytes, and the piece that the client's record carries
ACKED, FAILED, REJECTED, UNKNOWN, UNCONFIRMED = (
    Result.ACKED, Result.FAILED, Result.REJECTED, Result.UNKNOWN, Result.UNCONFIRMED,
)  # fmt: skip
each_version = pytest.mark.parametrize("version", [9, 12, 13])


class Splits:
    """A sidecar that splits, and stores as objects, what is sent to a broker that allows 4096 bytes."""

    def __init__(self) -> None:
        settings = {"orders": TopicSettings(), "objects": TopicSettings(store="object", object_above=5000)}
        services = Services(
            settings.get, LargeMessageStats(lambda: 0.0), TopicLimits(lambda: 0.0), os.urandom, topic_id
        )  # fmt: skip
        self._exchanges = ProduceExchanges([ObjectStage(services), SplitStage(services)], NAMES.get)
        self.broker = LogBroker()
        self.found = Audited(exchange=self._begin)
        self.found.dialogue.topics.remember(NAMES.items())
        self._served = 0

    def _begin(self, key: int, version: int) -> Begin | None:
        return self._exchanges.exchange(version) if key == ApiKey.PRODUCE else None

    def send(self, version: int, topics: Mapping[str, Mapping[int, bytes]], acks: int = -1) -> Splits:
        self.found.dialogue.client(produce_request(version, topics, acks))
        return self

    def serve(self, most: int = 100) -> Splits:
        """The broker responds to so many requests at most."""
        dialogue = self.found.dialogue
        for _ in range(most):
            while dialogue.needs:
                need = dialogue.needs[0]
                dialogue.meet(need.run() if isinstance(need, Work) else {} if isinstance(need, TopicIds) else None)
            frames = oracle.frames_of(dialogue.to_broker)[self._served :]
            if not frames:
                break
            self._served += 1
            answer = self.broker.serve(frames[0])
            if open_request(frames[0]).api_key != ApiKey.PRODUCE or self.broker.requests[-1].acks:
                dialogue.broker(answer)
        return self

    def stored_segments(self, topic: str, index: int) -> list[int]:
        """What the log says of itself: how many segments each message has whose last one is there."""
        counts = []
        for data in self.broker.log.get((topic, index), ()):
            for record in batches(data)[0].records():
                if (header := record.header(lm_header.KEY)) is not None:
                    lm = LmHeader.decode(header.value)
                    counts += [lm.count] if lm.number == lm.count - 1 else []
        return counts


def produced(*values: bytes, time: int = NOW_MS) -> bytes:
    return build_batch([NewRecord(value, b"key") for value in values], base_timestamp=time)


@each_version
def test_what_is_split_is_large_and_consists_of_the_segments_in_the_log(version: int) -> None:
    site = Splits().send(version, {
        "orders": {0: produced(b"small", VALUE), 1: produced(b"small"), 2: produced(VALUE, VALUE * 2)},
        "objects": {0: produced(VALUE, b"small", VALUE)}, "free": {0: produced(b"small")},
    }).serve()  # fmt: skip
    calls = site.found.calls
    assert site.stored_segments("orders", 0) == [SEGMENTS]
    ends = site.stored_segments("orders", 2)
    assert calls.large == [
        ("orders", 0, 3, 4, ((NO_OFFSET, SEGMENTS),), ACKED, 0),
        ("orders", 2, sum(ends) - 2, sum(ends) - 1, tuple((NO_OFFSET, one) for one in ends), ACKED, 0),
        ("objects", 0, 0, 2, ((NO_OFFSET, 0), (NO_OFFSET, 0)), ACKED, 0),
    ]
    assert {one.timestamp for one in calls.large_} == {NOW_MS}
    assert [result[:4] for result in calls.results] == [
        ("orders", 0, 2, ACKED), ("orders", 1, 1, ACKED), ("orders", 2, 2, ACKED), ("objects", 0, 3, ACKED),
        ("free", 0, 1, ACKED),
    ]  # fmt: skip


def test_a_large_message_whose_carrier_is_rejected_is_large_and_one_that_is_not_split_is_not() -> None:
    site = Splits()
    site.broker.errors = {3: 6, 4: 6}  # the carrier, and the first slice of the other
    site.send(12, {"orders": {0: produced(VALUE)}}).serve().send(12, {"orders": {1: produced(VALUE)}}).serve()
    assert site.found.calls.large == [("orders", 0, -1, -1, ((NO_OFFSET, SEGMENTS),), FAILED, 0)]
    assert [result[:4] for result in site.found.calls.results] == [
        ("orders", 0, 1, FAILED), ("orders", 1, 1, REJECTED)
    ]  # fmt: skip


def test_a_large_message_without_a_response_is_large() -> None:
    site = Splits().send(12, {"orders": {0: produced(VALUE)}}).serve(most=4)  # the topic's limit, and the slices
    assert site.found.calls.large == []
    site.found.dialogue.session.lost("the broker closed its connection")
    assert site.found.calls.large == [("orders", 0, -1, -1, ((NO_OFFSET, SEGMENTS),), UNKNOWN, 0)]


def test_a_large_message_whose_response_cannot_be_read_is_large() -> None:
    site = Splits().send(12, {"objects": {0: produced(VALUE)}}).serve(most=2)  # the right and the limit
    answer = b"\0\0\0\x09\0\0\0\x07\0\0\0\0\xff"
    dialogue = site.found.dialogue
    while dialogue.needs:
        dialogue.meet(None)
    dialogue.broker(answer)
    assert site.found.calls.large == [("objects", 0, -1, -1, ((NO_OFFSET, 0),), UNKNOWN, 0)]


def test_a_large_message_without_acks_is_unconfirmed() -> None:
    site = Splits().send(12, {"orders": {0: produced(VALUE)}}, acks=0).serve()
    assert site.found.calls.large == [("orders", 0, -1, -1, ((NO_OFFSET, SEGMENTS),), UNCONFIRMED, 0)]


def test_a_large_message_has_the_time_that_the_broker_has_set() -> None:
    site = Splits().send(12, {"objects": {0: produced(VALUE)}}).serve(most=2)  # the right and the limit
    dialogue = site.found.dialogue
    while dialogue.needs:
        dialogue.meet(None)
    at = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)
    data = [{"name": "objects", "partition_responses": [{"index": 0, "base_offset": 5, "log_append_time": at}]}]
    dialogue.broker(oracle.response_frame(oracle.response(ApiKey.PRODUCE, 12, responses=data), 7))
    assert [one.timestamp for one in site.found.calls.large_] == [int(at.timestamp() * 1000)]


def deny(key: int, need: Needed, principal: str | None) -> str | None:
    return "not for clients" if need.name == "kept" else None


DENYING = CheckFetch(Rules(deny, NAMES.get, Denials(Counter(), time.time)), ApiKey.FETCH, TOPIC_APIS[ApiKey.FETCH])


def reads(log: Log, is_intercepted: bool, is_authorized: bool) -> tuple[Audited, Intercepting]:
    """A consumer's connection to a sidecar that assembles the messages of this log."""
    intercepting, cluster = Intercepting("Reads"), Cluster({0: log})
    assemble = AssembleStage(lambda topic: cluster.settings if topic == "orders" else None, cluster.services)
    intercept = ConsumeStage(intercepting.catalog.consumers, False, intercepting.services)
    stages = [assemble, intercept] if is_intercepted else [assemble]

    def exchange(key: int, version: int) -> Begin | None:
        if key != ApiKey.FETCH:
            return None
        return FetchExchanges(stages, NAMES.get, guard=DENYING if is_authorized else None).exchange(version)

    found = Audited(exchange=exchange, bucket_ms=1000)
    found.dialogue.topics.remember(NAMES.items())
    return found, intercepting


def fetch(found: Audited, intercepting: Intercepting, version: int, log: Log, *more: str) -> None:
    """From the first record on."""
    dialogue = found.dialogue.client(fetch_request(version, {"orders": {0: 0}, **{topic: {0: 0} for topic in more}}))
    dialogue.broker(fetch_response(version, {"orders": {0: log.fetch(0, 1 << 20)}}))
    while dialogue.needs:
        dialogue.meet(asyncio.run(intercepting.perform(dialogue.needs[0])))


@pytest.mark.parametrize("more", [(), ("kept",)])
@pytest.mark.parametrize("is_authorized", [False, True])
@pytest.mark.parametrize("is_intercepted", [False, True])
@each_version
def test_what_is_assembled_is_large_unless_an_interceptor_hides_it(
    version: int, is_intercepted: bool, is_authorized: bool, more: tuple[str, ...]
) -> None:
    log = Log()
    log.add(b"drop", b"keep")
    log.add_large(b"keep " + VALUE, 4, 1, topic_id=ORDERS)  # at the offset 5
    log.add_large(b"drop " + VALUE, 3, 2, topic_id=ORDERS)  # at 8
    log.add_segments(b"keep " + VALUE, 5, 3, (1, 0, 2, 4, 3))  # at 13
    found, intercepting = reads(log, is_intercepted, is_authorized)
    fetch(found, intercepting, version, log, *more)
    messages = {5: 4, 8: 3, 13: 5}
    if is_intercepted:
        del messages[8]
    named = [one for call in found.calls.large for one in call[4]]  # type: ignore[attr-defined]
    assert dict(named) == messages
    assert len(named) == len(messages)
    counts = [(call[4], *call[6:8], call[9]) for call in found.calls.delivered_]
    assert sum(count for count, *_ in counts) == (3 if is_intercepted else 5)
    assert sum(hidden for *_, hidden in counts) == (2 if is_intercepted else 0)
    for large, (_, before) in zip(found.calls.large_, found.calls.large_of, strict=True):
        _, topic, index, timestamp, _, _, first, last, *_ = found.calls.delivered_[before]
        assert (large.topic, large.partition, large.timestamp) == (topic, index, timestamp)
        assert (large.first_offset, large.last_offset) == (first, last)


def test_a_response_without_large_messages_names_none() -> None:
    log = Log()
    log.add(b"keep")
    log.add(b"keep")
    found, intercepting = reads(log, is_intercepted=False, is_authorized=False)
    fetch(found, intercepting, 12, log)
    assert found.calls.large == []
    assert len(found.calls.delivered_) == 1  # batches of one bucket are still one call


def test_what_a_member_of_a_share_group_acquires_is_large() -> None:
    log = Log()
    log.add(b"small")
    log.add_large(VALUE, 4, 1, topic_id=ORDERS)  # at the offset 4
    log.add_large(VALUE, 3, 2, topic_id=ORDERS)  # at 7
    log.add_large(VALUE, 6, 3, topic_id=ORDERS)  # at 13, acquired by another member
    cluster = Cluster({0: log})
    stage = ShareAssembleStage(lambda topic: cluster.settings, cluster.services)

    def exchange(key: int, version: int) -> Begin | None:
        return (
            MessageExchanges([AcquiredRecords([stage], NAMES.get)]).exchange(version)
            if key == ApiKey.SHARE_FETCH
            else None
        )

    found = Audited(exchange=exchange)
    found.dialogue.topics.remember(NAMES.items())
    dialogue = found.dialogue.client(acknowledging(ApiKey.SHARE_FETCH, 1, "workers", {}))
    records = log.fetch(0, 1 << 20)
    dialogue.broker(share_response(1, {"orders": [partition(records, (0, 4), (5, 9), deliveries=2)]}))
    assert not dialogue.needs
    assert found.calls.large == [
        ("orders", 0, 4, 4, ((4, 4),), 2, 1), ("orders", 0, 7, 7, ((7, 3),), 2, 2),
    ]  # fmt: skip
    assert [call[6:8] for call in found.calls.acquired_] == [(0, 0), (4, 4), (7, 7)]


def test_an_auditor_that_fails_costs_no_connection() -> None:
    site = Splits().send(12, {"orders": {0: produced(VALUE)}})

    def fail(*_: object) -> None:
        raise RuntimeError("the auditor is broken")

    site.found.calls.produced_large = fail  # type: ignore[method-assign, assignment]
    site.serve()
    assert site.found.dialogue.cause is None
    assert site.found.calls.results == [("orders", 0, 1, ACKED, 3)]
    assert site.found.counting.stats.uncounted == {("Produce", "auditor_failed"): 1}
