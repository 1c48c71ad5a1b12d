"""The stage of a Produce that stores large values as objects, in topics with ``store: object``.

It is after policies and interceptors, and before batches are split: what is sent is small then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, reseal
from kafka_sidecar.codec.records.log_validator import InvalidBatch, find_fault
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan
from kafka_sidecar.large_messages.object_reference import claim, new_key
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Steps, TimeLeft, Work
from kafka_sidecar.proxy.exchanges.limits import is_light, takes_long
from kafka_sidecar.proxy.exchanges.produce import PartitionRecords, Stage, StageRun, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection
from kafka_sidecar.proxy.features.large_messages.object_needs import STORAGE_ERROR, PutObjects
from kafka_sidecar.proxy.features.large_messages.services import Services
from kafka_sidecar.proxy.features.large_messages.slices import SliceRequests
from kafka_sidecar.proxy.relay.exchange import NO_OFFSET, Client

MAX_INLINE_RECORDS = 1000  # that a batch may have to be looked into while others wait

Claimed = tuple[bytes, tuple[tuple[str, bytes], ...]]  # the batch that is sent, the objects


class ObjectStage(Stage):
    """Stores the large values of topics with ``store: object``."""

    is_stable = True  # until another configuration is applied, and with it new routes

    def __init__(self, services: Services) -> None:
        self._services = services

    def applies(self, topics: Sequence[tuple[str | None, bytes]]) -> bool:
        return not topics or any(name is None or self._settings(name) is not None for name, _ in topics)

    def start(self, client: Client, version: int) -> ObjectRun:
        return ObjectRun(self._settings, self._services, client, version)

    def _settings(self, topic: str) -> TopicSettings | None:
        settings = self._services.settings_of(topic)
        return settings if settings is not None and settings.store == "object" else None


class ObjectRun(StageRun):
    """The large values of one request."""

    __slots__ = (
        "_client", "_is_li", "_request", "_settings", "_spans", "_time_left", "_version", "large", "services",
    )  # fmt: skip

    wants_response = False
    _request: OpenRequest
    _spans: ProduceSpans

    def __init__(
        self, settings: Callable[[str], TopicSettings | None], services: Services, client: Client, version: int
    ) -> None:
        self._settings = settings
        self.services = services
        self._client = client
        self._version = version
        self._is_li = services.is_li(client)
        self._time_left: TimeLeft | None = None
        self.large: dict[PartitionKey, list[tuple[int, int]]] = {}

    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        self._request, self._spans = request, spans

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicObjects | None:
        settings = self._settings(topic) if topic is not None and not self._is_li else None
        return TopicObjects(self, topic, settings) if settings is not None and topic is not None else None

    def time_left(self) -> TimeLeft:
        """For this request; few need it."""
        if self._time_left is None:
            self._time_left = self.services.time_limit.start()
        return self._time_left

    def may_write(self, key: PartitionKey) -> Steps[PartitionRejection | None]:
        """Why the broker does not let the client write there; None: it does."""
        requests = SliceRequests(self._request, self._spans, self._version, *key)
        return self.services.rights.ask(self._client.number, key, requests)


class TopicObjects(TopicRun):
    """The large values of one topic of a request."""

    __slots__ = ("_run", "_services", "_settings", "_topic")

    needs_records = True

    def __init__(self, run: ObjectRun, topic: str, settings: TopicSettings) -> None:
        self._run = run
        self._services = run.services
        self._topic = topic
        self._settings = settings

    def expect(self, partitions: Sequence[PartitionRecords]) -> None: ...

    def batch(self, partition: PartitionRecords) -> Steps[None] | None:
        if partition.rejection is not None or isinstance(partition.batch, InvalidBatch):
            return None
        return self._store(partition)

    def _store(self, partition: PartitionRecords) -> Steps[None]:
        batch = partition.valid_batch
        claimed = partial(self._claim, partition, batch)
        try:
            found = (
                (yield Work(claimed, is_light=is_light(batch), limit=self._run.time_left()))
                if takes_long(batch, MAX_INLINE_RECORDS)
                else claimed()
            )
            if found is None:
                return
            new, objects = found
            if objects:
                key = partition.key, partition.index
                if (rejection := (yield from self._run.may_write(key))) is not None:
                    partition.rejection = rejection
                    return
                yield PutObjects(objects)
                self._run.large[key] = [(NO_OFFSET, 0)] * len(objects)
                self._services.report.put_objects(len(objects), sum(len(value) for _, value in objects))
            partition.replace(new)
        except (OSError, TimeoutError) as error:
            partition.rejection = PartitionRejection(STORAGE_ERROR, str(error) or "storing the value took too long")
            self._services.report.refused(self._topic, "object_store", partition.rejection.message)

    def _claim(self, partition: PartitionRecords, batch: Batch) -> Claimed | None:
        """What is sent, and what is stored before; None: the batch goes on as it is."""
        limit = max(self._services.max_inflated, self._settings.max_message)
        try:
            if find_fault(batch) is not None:
                return None
            records = partition.records(limit)
        except CodecError:
            return None
        if max(records.sizes()[1], default=0) > self._settings.max_message:
            return None  # the next stage rejects it
        found = claim(records, self._settings.object_above, self._new_key)
        return (reseal(batch, found.records), found.objects) if found is not None else None

    def _new_key(self) -> str:
        return new_key(self._topic, self._services.random(16))
