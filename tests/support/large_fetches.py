"""A broker's log with large messages, and the stage of a sidecar in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kafka_sidecar.large_messages.cache import SegmentCache, Unfinished
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage
from kafka_sidecar.proxy.features.large_messages.reads import ReadsAhead
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices
from kafka_sidecar.proxy.features.large_messages.stats import AssemblyStats
from kafka_sidecar.proxy.relay.exchange import Client, Send, TopicIds
from support.client import FakeClient
from support.driven import Driven, Step
from support.fetches import fetch_request, offsets_in, request_in
from support.interception import fetch_response
from support.large_logs import OUT_OF_RANGE, Log
from support.produce_requests import topic_id

ORDERS = topic_id("orders")
THROTTLE_TIME = timedelta(milliseconds=900)


@dataclass
class Cluster:
    """A broker's logs of the topic "orders", and a sidecar's stage in front."""

    logs: Mapping[int, Log]
    settings: TopicSettings = field(default_factory=TopicSettings)
    now_s: float = 0.0
    read_s: float = 0.0  # that each read takes
    reads: list[tuple[int, int, int]] = field(default_factory=list)  # partition, offset, bytes
    needs: list[Need] = field(default_factory=list)
    error_code: int = 0  # of all reads
    throttled: int = 0  # reads that the broker does not respond to yet, because of a quota

    def __post_init__(self) -> None:
        self.stats = AssemblyStats(lambda: self.now_s, Intervals())
        self.services = AssemblyServices(
            lambda id_: id_.lstrip(b"\1").decode(), lambda name: ORDERS, self.stats.report,
            lambda: self.now_s, SegmentCache(32_000_000), Unfinished(1 << 30), 100 << 20, 16 << 20,
            ahead=ReadsAhead(32 << 20, lambda: self.now_s),
        )  # fmt: skip

    def begin(self, version: int, client: Client | None = None) -> Driven:
        stage = AssembleStage(lambda topic: self.settings if topic == "orders" else None, self.services)
        run = stage.start(client or FakeClient(), version)
        return Driven(FetchExchange([run], self.services.name_of, version))

    def fetch(
        self,
        version: int,
        offsets: Mapping[int, int],
        *,
        isolation_level: int = 0,
        max_bytes: int = 1 << 20,
        client: Client | None = None,
    ) -> Step:
        """The response that the client gets."""
        exchange = self.begin(version, client)
        step = self.settle(version, exchange, exchange.request(self.request(version, offsets, isolation_level)))
        offsets = offsets_in(version, step)["orders"]
        topics = {at: self.partition(at, offset, max_bytes, isolation_level == 1) for at, offset in offsets.items()}
        return self.settle(version, exchange, exchange.response(fetch_response(version, {"orders": topics})))

    def request(self, version: int, offsets: Mapping[int, int], isolation_level: int = 0) -> bytes:
        return fetch_request(version, {"orders": offsets}, isolation_level)

    def partition(self, at: int, offset: int, max_bytes: int, is_committed_only: bool = False) -> dict[str, Any]:
        log = self.logs[at]
        aborted = [{"producer_id": one.producer_id, "first_offset": one.first_offset} for one in log.aborted]
        return {
            "records": log.fetch(offset, max_bytes),
            "high_watermark": log.end,
            "last_stable_offset": log.end,
            "log_start_offset": log.start,
            "aborted_transactions": aborted if is_committed_only else None,
        }

    def settle(self, version: int, exchange: Driven, step: Step) -> Step:
        while isinstance(step, Need):
            self.needs.append(step)
            if isinstance(step, Work):
                step = self.work(exchange, step)
            elif isinstance(step, TopicIds):
                step = exchange.answer({"orders": ORDERS})
            else:
                assert isinstance(step, Send)
                answers = tuple(self.answer(version, frame) for frame in step.frames)
                if step.take is not None:
                    step.take(*answers)
                    answers = ()
                step = exchange.answer(answers)
        return step

    def work(self, exchange: Driven, work: Work) -> Step:
        try:
            result = work.run()
        except Exception as failure:  # noqa: BLE001 - as a thread hands it over
            return exchange.fail(failure)
        return exchange.answer(result)

    def answer(self, version: int, frame: bytes) -> bytes:
        self.now_s += self.read_s
        if self.throttled:
            self.throttled -= 1
            return fetch_response(version, {}, correlation_id=0x5EAD, throttle_time=THROTTLE_TIME)
        ((at, offset),) = offsets_in(version, frame)["orders"].items()
        request = request_in(version, frame)
        self.reads.append((at, offset, request.max_bytes))
        max_bytes = min(request.max_bytes, self.logs[at].max_read or request.max_bytes)
        partition = self.partition(at, offset, max_bytes, int(request.isolation_level) == 1)
        if self.error_code:
            partition = {"error_code": self.error_code}
        elif not self.logs[at].start <= offset <= self.logs[at].end:
            partition = {"error_code": OUT_OF_RANGE}
        return fetch_response(version, {"orders": {at: partition}}, correlation_id=0x5EAD)
