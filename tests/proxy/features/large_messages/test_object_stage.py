"""Values that are stored as objects on their way to a broker, and read again on their way to a consumer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from crc32c import crc32c
from support.client import FakeClient
from support.driven import Driven, Step
from support.fetches import FIRST_WITH_IDS, fetch_request, partitions_in, values_by_partition
from support.fetches import VERSIONS as FETCH_VERSIONS
from support.interception import fetch_response
from support.large_messages import LogBroker
from support.produce_requests import VERSIONS, produce_request, results, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_response, open_request
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafka_sidecar.codec.records import Codec, Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages import object_reference
from kafka_sidecar.large_messages.cache import SegmentCache, Unfinished
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.object_reference import ObjectReference
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage
from kafka_sidecar.proxy.features.large_messages.object_needs import STORAGE_ERROR, GetObject, PutObjects
from kafka_sidecar.proxy.features.large_messages.object_stage import ObjectStage
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices, Services
from kafka_sidecar.proxy.features.large_messages.slices import WriteRights
from kafka_sidecar.proxy.features.large_messages.split_stage import SplitStage
from kafka_sidecar.proxy.features.large_messages.stats import AssemblyStats, LargeMessageStats
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.relay.exchange import Respond, Send, TopicNames

INVALID_RECORD = 87
SMALL, LARGE = b"small", os.urandom(3000)
PLACE = "objects", 0
NAMES: Mapping[bytes, str] = {topic_id(name): name for name in ("objects", "free")}
UNAVAILABLE = OSError("the object store has failed: ConnectError")
each_version = pytest.mark.parametrize("version", VERSIONS)
each_fetch = pytest.mark.parametrize("version", FETCH_VERSIONS)


class Sidecar:
    """The stages of a sidecar whose topic "objects" has an object store."""

    def __init__(self, **of_topic: Any) -> None:
        settings = TopicSettings(**{"store": "object", "object_above": 1000, **of_topic})
        self.objects: dict[str, bytes] = {}
        self.error: OSError | None = None
        self.now = 0.0
        self.asked = 0  # brokers, whether the client may write
        self.answer = INVALID_RECORD  # of a broker to no records
        self.client = FakeClient()
        self.stats = LargeMessageStats(lambda: 0.0)
        self.assembled = AssemblyStats(lambda: 0.0, Intervals())

        def find(topic: str) -> TopicSettings | None:
            return settings if topic == "objects" else None

        self.services = Services(
            find, self.stats, TopicLimits(lambda: 0.0), os.urandom, topic_id, rights=WriteRights(lambda: self.now)
        )
        self.stage = ObjectStage(self.services)
        self.assemble = AssembleStage(find, AssemblyServices(
            NAMES.get, topic_id, self.assembled.report, lambda: 0.0, SegmentCache(0), Unfinished(0), 100 << 20, 1 << 20,
        ))  # fmt: skip

    def produce(self, frame: bytes, version: int = 12) -> Step:
        """What goes to the broker, or is answered."""
        stages = self.stage, SplitStage(self.services)
        runs = [stage.start(self.client, version) for stage in stages]
        exchange = Driven(ProduceExchange(runs, NAMES.get, version))
        return self._meet(exchange, exchange.request(frame))

    def fetch(self, records: bytes, version: int = FETCH_VERSIONS[-1]) -> Step:
        """What the client gets."""
        exchange = Driven(FetchExchange([self.assemble.start(FakeClient(), version)], NAMES.get, version))
        self._meet(exchange, exchange.request(fetch_request(version, {"objects": {0: 0}})))
        topics = {"objects": {0: {"records": records, "high_watermark": 9, "last_stable_offset": 9}}}
        return self._meet(exchange, exchange.response(fetch_response(version, topics)))

    def _meet(self, exchange: Driven, step: Step) -> Step:
        while isinstance(step, Need):
            match step:
                case PutObjects() | GetObject() if self.error is not None:
                    step = exchange.fail(self.error)
                case PutObjects(objects=objects):
                    self.objects |= dict(objects)
                    step = exchange.answer()
                case GetObject(key=key):
                    step = exchange.answer(self.objects.get(key))
                case Work():
                    step = exchange.answer(step.run())
                case Send(frames=(frame,)):
                    step = exchange.answer((self._serve(frame),))
                case TopicNames():
                    step = exchange.answer()
                case _:
                    raise AssertionError(step)
        return step

    def _serve(self, frame: bytes) -> bytes:
        """What a broker answers to requests of the sidecar's own."""
        request = open_request(frame)
        if request.api_key == ApiKey.DESCRIBE_CONFIGS:
            return LogBroker(max_batch=1 << 20).serve(frame)
        message, _ = decode(ProduceRequest, frame, request.api_version, request.body_at)
        ((topic, (partition,)),) = ((topic, topic.partition_data) for topic in message.topic_data)
        assert (partition.records, message.acks != 0) == (b"", True)
        assert not self.objects or self.asked
        self.asked += 1
        found = PartitionProduceResponse(index=partition.index, error_code=self.answer, base_offset=-1)
        one = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=(found,))
        return encode_response(ProduceResponse(responses=(one,)), request.api_version, request.correlation_id)


def request(
    *values: bytes, version: int = 12, topic: str = "objects", acks: int = -1, partition: int = 0, **header: Any
) -> bytes:
    data = build_batch([NewRecord(value, b"k") for value in values], **header)
    return produce_request(version, {topic: {partition: data}}, acks)


def stored(frame: Step, version: int = 12) -> bytes:
    """What a broker has in its log."""
    assert isinstance(frame, bytes)
    broker = LogBroker(max_batch=1 << 20)
    ((_, _, code, _),) = results(version, broker.serve(frame))
    assert code == 0
    (log,) = broker.log.values()
    return b"".join(log)


@each_version
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_large_value_is_stored_as_an_object_and_the_log_has_its_key(version: int, codec: Codec) -> None:
    sidecar = Sidecar()
    sent = request(SMALL, LARGE, SMALL, version=version, codec=codec, producer_id=7, producer_epoch=1, base_sequence=5)
    (batch,) = batches(stored(sidecar.produce(sent, version), version))
    ((key, value),) = sidecar.objects.items()
    assert value == LARGE
    assert [record.value for record in batch.records()] == [SMALL, key.encode(), SMALL]
    assert (batch.header.producer_id, batch.header.base_sequence, batch.header.codec) == (7, 5, codec)
    assert (sidecar.stats.objects, sidecar.stats.object_bytes) == (1, 3000)


@each_fetch
def test_a_consumer_gets_the_value_and_no_header_of_ours(version: int) -> None:
    sidecar = Sidecar()
    step = sidecar.fetch(stored(sidecar.produce(request(SMALL, LARGE, SMALL))), version)
    ((_, found),) = values_by_partition(version, step).items()
    assert found == [(0, SMALL), (1, LARGE), (2, SMALL)]
    ((_, partition),) = partitions_in(version, step).items()
    assert all(not record.headers for batch in batches(partition.records) for record in batch.records())


def test_a_request_of_small_values_or_of_other_topics_is_the_clients_frame() -> None:
    sidecar = Sidecar()
    for frame in (request(SMALL, SMALL), request(LARGE, topic="free")):
        assert sidecar.produce(frame) is frame
    assert not sidecar.objects


def test_while_the_store_fails_the_batch_is_rejected_so_that_the_client_sends_it_again() -> None:
    sidecar = Sidecar()
    sidecar.error = UNAVAILABLE
    step = sidecar.produce(request(LARGE))
    assert isinstance(step, Respond)
    assert results(12, step.frame) == [("objects", 0, STORAGE_ERROR, -1)]
    assert sidecar.stats.split == {"object_store": 1}


def test_while_the_store_fails_a_consumer_gets_what_is_before_and_then_an_error() -> None:
    sidecar = Sidecar()
    records = stored(sidecar.produce(request(SMALL, LARGE)))
    only_large = stored(sidecar.produce(request(LARGE)))
    sidecar.error = UNAVAILABLE
    version = FIRST_WITH_IDS
    assert values_by_partition(version, sidecar.fetch(records, version)) == {PLACE: [(0, SMALL)]}
    assert partitions_in(version, sidecar.fetch(only_large, version))[PLACE].error_code == STORAGE_ERROR


@pytest.mark.parametrize("damage", ["missing", "shorter", "other bytes"])
def test_an_object_that_is_not_the_one_that_was_stored_is_dropped(damage: str) -> None:
    sidecar = Sidecar()
    records = stored(sidecar.produce(request(SMALL, LARGE, SMALL)))
    (key,) = sidecar.objects
    sidecar.objects = {"missing": {}, "shorter": {key: LARGE[1:]}, "other bytes": {key: bytes(3000)}}[damage]
    version = FIRST_WITH_IDS
    assert values_by_partition(version, sidecar.fetch(records, version)) == {PLACE: [(0, SMALL), (2, SMALL)]}
    assert sum(sidecar.assembled.dropped.values()) == 1


def test_or_the_partition_stands_still_there() -> None:
    sidecar = Sidecar(on_missing="fail")
    records = stored(sidecar.produce(request(LARGE)))
    sidecar.objects.clear()
    corrupt = 2
    assert partitions_in(FIRST_WITH_IDS, sidecar.fetch(records, FIRST_WITH_IDS))[PLACE].error_code == corrupt


def test_a_reference_to_an_object_of_another_topic_is_not_followed() -> None:
    sidecar = Sidecar()
    key = "secrets/" + "0" * 32
    sidecar.objects[key] = b"secret"
    header = Header(object_reference.KEY, ObjectReference(key, 6, crc32c(b"secret")).encode())
    records = build_batch([NewRecord(SMALL), NewRecord(b"x", headers=(header,)), NewRecord(SMALL)])
    version = FIRST_WITH_IDS
    assert values_by_partition(version, sidecar.fetch(records, version)) == {PLACE: [(0, SMALL), (2, SMALL)]}


def test_references_are_values_like_others_in_topics_without_an_object_store() -> None:
    records = stored(Sidecar().produce(request(LARGE)))
    sidecar = Sidecar(store="log")
    ((_, found),) = values_by_partition(FIRST_WITH_IDS, sidecar.fetch(records, FIRST_WITH_IDS)).items()
    assert [len(value or b"") for _, value in found] == [len("objects/") + 32]


def test_each_request_has_a_time_limit_of_its_own() -> None:
    """One that all requests have used up together has rejected every large message until a restart."""
    sidecar = Sidecar()
    limits = []
    for _ in range(2):
        exchange = Driven(ProduceExchange([sidecar.stage.start(FakeClient(), 12)], NAMES.get, 12))
        data = build_batch([NewRecord(LARGE * 700)])  # looked into in a thread
        step = exchange.request(produce_request(12, {"objects": {0: data, 1: data}}))
        assert isinstance(step, Work)
        assert step.limit is not None
        limits.append(step.limit)
        step.limit.work_s = 0.0  # used up
        step = exchange.fail(TimeoutError())
        assert isinstance(step, Work)
        assert step.limit is limits[-1]
    assert limits[0] is not limits[1]


@pytest.mark.parametrize("acks", [-1, 0, 1])
@each_version
def test_a_broker_is_asked_whether_the_client_may_write_before_anything_is_stored(version: int, acks: int) -> None:
    sidecar = Sidecar()
    assert isinstance(sidecar.produce(request(LARGE, SMALL, version=version, acks=acks), version), bytes)
    assert (sidecar.asked, len(sidecar.objects)) == (1, 1)


@each_version
@pytest.mark.parametrize("code", [3, 17, 29, 31, 100])
def test_what_the_broker_says_against_it_is_the_clients_and_nothing_is_stored(version: int, code: int) -> None:
    sidecar = Sidecar()
    sidecar.answer = code
    for asked in (1, 2):
        step = sidecar.produce(request(SMALL, LARGE, version=version), version)
        assert isinstance(step, Respond)
        assert results(version, step.frame) == [("objects", 0, code, -1)]
        assert (sidecar.asked, sidecar.objects) == (asked, {})


@pytest.mark.parametrize("code", [0, 2, 87])
def test_a_broker_that_finds_no_records_has_nothing_against_the_client(code: int) -> None:
    """As Kafka does in old versions of the request, before Kafka 2.4, and since."""
    sidecar = Sidecar()
    sidecar.answer = code
    assert isinstance(sidecar.produce(request(LARGE)), bytes)
    assert len(sidecar.objects) == 1


def test_it_is_asked_once_in_a_while_for_each_connection_and_partition() -> None:
    sidecar = Sidecar()
    for _ in range(3):
        sidecar.produce(request(LARGE))
    assert sidecar.asked == 1
    sidecar.produce(request(LARGE, partition=1))
    assert sidecar.asked == 2
    sidecar.client = FakeClient(number=8)
    sidecar.produce(request(LARGE))
    assert sidecar.asked == 3
    sidecar.now = 30.1
    sidecar.produce(request(LARGE))
    assert sidecar.asked == 4


def test_what_brokers_have_said_is_forgotten_where_it_becomes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_sidecar.proxy.features.large_messages.slices.MAX_KNOWN", 3)
    sidecar = Sidecar()
    for partition in (0, 1, 2, 3, 3, 0):
        sidecar.produce(request(LARGE, partition=partition))
    assert sidecar.asked == 5


def test_a_connection_that_ends_with_the_question_has_stored_nothing() -> None:
    """As that of a client that has not logged in to its broker."""
    sidecar = Sidecar()
    exchange = Driven(ProduceExchange([sidecar.stage.start(sidecar.client, 12)], NAMES.get, 12))
    step = exchange.request(request(LARGE))
    assert isinstance(step, Send)
    exchange.lost("the broker closed its connection")
    assert sidecar.objects == {}


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("values", [[3000], [10, 3000, 10], [1500, 3000, 1500], [3000, 3000]])
def test_a_value_over_max_message_is_refused_and_not_stored(values: list[int], codec: Codec) -> None:
    """Also where the broker would take it: no consumer would get the object."""
    sidecar = Sidecar(max_message=2999)
    step = sidecar.produce(request(*[bytes(size) for size in values], codec=codec))
    assert isinstance(step, Respond)
    assert results(12, step.frame) == [("objects", 0, 10, -1)]
    assert (sidecar.asked, sidecar.objects, sidecar.stats.split) == (0, {}, {"too_large": 1})
