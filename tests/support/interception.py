"""Interceptors scripted by the values of records, which record their calls, and the services that they need."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Hints,
    Interceptor,
    OffsetAndMetadata,
    Offsets,
    ProducerInterceptor,
    RecordMetadata,
    TopicPartition,
    Unresolved,
)
from kafka_sidecar.interceptors.headers import Headers
from kafka_sidecar.interceptors.metrics import Metric
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange, StageRun
from kafka_sidecar.proxy.features.interception.consume_stage import InterceptorFetch
from kafka_sidecar.proxy.features.interception.interception import InterceptionStats
from kafka_sidecar.proxy.features.interception.send_stage import SendStage, Services
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import TopicIds, TopicNames
from kafka_sidecar.proxy.runtime.performer import PlugInFetches
from support import oracle
from support.client import FakeClient
from support.driven import Driven, Step
from support.produce_requests import Validating, topic_id

NAMES = ("orders", "payments", "free")
LIMIT = 1 << 20
NOW = 1_700_000_000_000  # ms
Topics = Mapping[str, Mapping[int, Any]]  # name -> partition -> records, or fields of the partition
Acknowledgement = tuple[RecordMetadata, Exception | None]


class Opened(Interceptor):
    """Remembers all of its kind that there have been."""

    opened: list[Any] = []  # noqa: RUF012 - of the whole process: a test finds its own at the end

    def __init__(self) -> None:
        self.closed = 0
        self.settings: dict[str, Any] = {}
        Opened.opened.append(self)

    def configure(self, configs: Mapping[str, Any]) -> None:
        if "wrong" in configs:
            raise ValueError("wrong: is not a setting")
        self.settings = dict(configs)

    def close(self) -> None:
        self.closed += 1


class Adds(Opened, ProducerInterceptor):
    """Adds a header to each record, but for values that begin with "keep"; fails on "fails"."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[bytes | None] = []
        self.acknowledged: list[Acknowledgement] = []
        self.headers: list[list[tuple[str, bytes | None]]] = []
        self.threads: set[int] = set()
        self.header = b"yes"

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.values.append(record.value)
        self.threads.add(threading.get_ident())
        word = (record.value or b"").split(b" ")[0]
        if word == b"fails":
            raise RuntimeError("a bug")
        if word == b"larger":
            return record.replace(value=(record.value or b"") * 1000)
        if word == b"smaller":
            return record.replace(value=b"")
        if word != b"keep":
            record.headers.add("added", self.header)
        return record

    def on_acknowledgement_with_headers(
        self, metadata: RecordMetadata, exception: Exception | None, headers: Headers
    ) -> None:
        self.threads.add(threading.get_ident())
        self.acknowledged.append((metadata, exception))
        self.headers.append([(header.key, header.value) for header in headers])

    def metrics(self) -> Iterable[Metric]:
        yield Metric("acknowledgements", "Acknowledgements.", (), {(): len(self.acknowledged)})


class Listens(Opened, ProducerInterceptor):
    """Hears of acknowledgements and never looks into a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: list[Acknowledgement] = []

    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.acknowledged.append((metadata, exception))


class Slow(Opened, ProducerInterceptor):
    """Its acknowledgements wait until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.go_on = threading.Event(), threading.Event()
        self.offsets: list[tuple[int, bool]] = []  # and whether there was no error
        self.overlapped = False
        self._calls = threading.Lock()

    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        if not self._calls.acquire(blocking=False):
            self.overlapped = True
            return
        self.began.set()
        self.go_on.wait(10.0)
        self.offsets.append((metadata.offset, exception is None))
        self._calls.release()


class Reads(Opened, ConsumerInterceptor):
    """Leaves out records that begin with "drop", answers "edit" with other words, fails on "fails"."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int, int]] = []  # topic, partition, offset
        self.threads: set[int] = set()

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        self.threads.add(threading.get_ident())
        left = []
        for record in records:
            self.seen.append((record.topic, record.partition, record.offset))
            word = (record.value or b"").split(b" ")[0]
            if word == b"fails":
                raise RuntimeError("a bug")
            if word == b"edit":
                left.append(record.replace(value=b"edited"))
            elif word != b"drop":
                left.append(record)
        return left


class Hides(Opened, ConsumerInterceptor):
    """Shows of each record that there is one."""

    def hints(self) -> Hints:
        return Hints(fail_closed=True)

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        return [record.replace(value=b"***") for record in records]


class Waits(Reads):
    """Hides all records; it has to fetch the rest of "ask ..." first."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[object] = set()
        self.fetched: list[object] = []

    def hints(self) -> Hints:
        return Hints(fail_closed=True)

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            word, _, rest = (record.value or b"").partition(b" ")
            if word == b"ask" and rest not in self.known:
                raise Unresolved(rest)
        return [record.replace(value=b"***") for record in super().on_consume(records)]

    async def resolve(self, key: object) -> None:
        self.fetched.append(key)
        if key == b"unavailable":
            raise OSError("no answer")
        if key != b"in vain":
            self.known.add(key)


Given = Mapping[TopicPartition, OffsetAndMetadata]


class Commits(Opened, ConsumerInterceptor):
    """Commits what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Offsets] = []
        self.committed: list[Offsets] = []
        self.change: Callable[[Offsets], Given] = lambda offsets: offsets

    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def pre_commit(self, offsets: Offsets) -> Given:
        self.asked.append(offsets)
        return self.change(offsets)

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(offsets)


class Intercepting:
    """Some of these interceptors for topic "orders", and what is around them."""

    def __init__(
        self,
        *types: str,
        topics: tuple[str, ...] = ("orders",),
        names: Collection[str] = NAMES,
        limit: int = LIMIT,
        message_max_bytes: int = LIMIT,
        hold_for: tuple[str, ...] = (),
        hides_unreadable: bool = True,
    ) -> None:
        self.now_s, self.now_ms = 1000.0, NOW
        self.stats = InterceptionStats(lambda: self.now_s)
        settings = [
            InterceptorSettings(f"support.interception:{type_}", f"{type_}{at}", topics)
            for at, type_ in enumerate(types)
        ]
        self.catalog = InterceptorCatalog(settings, self.stats)
        self.interceptors: list[Any] = [guard.interceptor for guard in self.catalog.guards]
        self.topics = TopicNameCache(self._ask)
        self.topics.remember((topic_id(name), name) for name in names)
        self.hidden: set[str] = set()  # names that the cluster knows and the sidecar does not yet
        self.cluster_answers = True
        self.asked_for: list[bytes | str] = []
        self.services = Services(
            name_of=self.topics.name_of, report=self.stats, clock=lambda: self.now_ms, stopwatch=time.perf_counter,
            limit=limit, message_max_bytes=message_max_bytes, hold_for=hold_for, hides_unreadable=hides_unreadable,
        )  # fmt: skip
        self.client = FakeClient()
        self.needs: list[Need] = []
        self.fetches = PlugInFetches("interceptor")

    async def _ask(self, wanted: Collection[bytes]) -> Mapping[bytes, str]:
        self.asked_for += sorted(wanted)
        if not self.cluster_answers:
            raise OSError("no broker")
        return {topic_id(name): name for name in self.hidden if topic_id(name) in wanted}

    def _topic_ids(self, names: Collection[str]) -> Mapping[str, bytes] | None:
        self.asked_for += sorted(names)
        return {name: topic_id(name) for name in names if name in self.hidden} if self.cluster_answers else None

    def produce(self, version: int = 9, validating: Validating | None = None) -> Driven:
        """An exchange with these interceptors, after the policies if there are any."""
        intercept = SendStage(self.catalog.producers, self.services).start(self.client, version)
        runs: list[StageRun] = [intercept] if validating is None else [validating.run(), intercept]
        return Driven(ProduceExchange(runs, self.topics.name_of, version))

    async def finish(self, exchange: Driven, frame: bytes) -> Step:
        """What becomes of a request in the end."""
        return await exchange.finish(exchange.request(frame), self.perform)

    async def perform(self, need: Need) -> object:
        """What a running sidecar does."""
        self.needs.append(need)
        assert len(self.needs) < 50, "asks for ever"
        async with asyncio.timeout(10):
            if isinstance(need, Work):
                return await asyncio.to_thread(need.run)
            if isinstance(need, InterceptorFetch):
                await self.fetches.resolve(need.name, need.interceptor, need.key)
                return None
            if isinstance(need, TopicNames):
                with suppress(OSError):
                    await self.topics.resolve(need.topic_ids)
                return None
            if isinstance(need, TopicIds):
                return self._topic_ids(need.names)
        raise AssertionError(f"{need} is not expected")


def fetch_response(version: int, topics: Topics, correlation_id: int = 7, **more: Any) -> bytes:
    """A broker's response to a Fetch."""
    data = [
        {
            "topic": name,
            "topic_id": topic_id(name),
            "partitions": [
                {
                    "partition_index": at, "high_watermark": 1000, "last_stable_offset": 900, "log_start_offset": 3,
                    "preferred_read_replica": -1, **(one if isinstance(one, Mapping) else {"records": one}),
                }
                for at, one in partitions.items()
            ],
        }
        for name, partitions in topics.items()
    ]  # fmt: skip
    return oracle.response_frame(oracle.response(ApiKey.FETCH, version, responses=data, **more), correlation_id)


def headers_in(data: bytes | memoryview | None) -> list[list[tuple[str, bytes | None]]]:
    """The headers of each record of the one batch."""
    (batch,) = batches(data or b"")
    assert batch.crc_is_right()
    return [[(header.key, header.value) for header in record.headers] for record in batch.records()]


def values_in(data: bytes | memoryview | None) -> list[tuple[int, bytes | None]]:
    """(offset, value) of all records of all batches that are not control batches."""
    return [
        (batch.header.base_offset + record.offset_delta, record.value)
        for batch in batches(data or b"", may_end_early=True)
        if not batch.header.is_control
        for record in batch.records()
    ]


def only(data: bytes | memoryview | None) -> Batch:
    (batch,) = batches(data or b"")
    return batch
