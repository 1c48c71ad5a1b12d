"""The stage of a ShareFetch: `on_consume` for each batch of records that a member of a share group gets (KIP-932).

Records that are acquired and not in the response are gaps to a share consumer: it acknowledges them as such, and the
group goes on (docs/decisions/0015). What is withheld must not look like a gap: it is not among the acquired records, so
no member acknowledges it, and the broker delivers it again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.visibility import acquired_only
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_CONSUMED_BYTES
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredPartition, Stage, StageRun
from kafka_sidecar.proxy.features.interception.consume_stage import MAX_INLINE_COMPRESSED_BYTES, consume_in_thread
from kafka_sidecar.proxy.features.interception.fetched_partition import PartitionReading, Remaining
from kafka_sidecar.proxy.features.interception.services import Services
from kafka_sidecar.proxy.relay.exchange import Client, Steps

API = "ShareFetch"


class ShareStage(Stage):
    """The interceptors of consumers that are current."""

    def __init__(self, chains: Callable[[str], Consumers | None], services: Services) -> None:
        self._chains = chains
        self._services = services

    def start(self, client: Client, version: int) -> ShareRun:
        return ShareRun(self._chains, self._services, self._services.context(client, version))


class ShareRun(StageRun):
    """The interceptors of one response."""

    restores = False

    __slots__ = ("_chains", "_context", "_services", "_time_left")

    def __init__(self, chains: Callable[[str], Consumers | None], services: Services, context: Context) -> None:
        self._chains = chains
        self._services = services
        self._context = context
        self._time_left = services.time_limit.start()

    def wants(self, topic: str) -> bool:
        return self._chains(topic) is not None

    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        services, records, chain = self._services, partition.records, self._chains(partition.topic)
        assert chain is not None
        reading = PartitionReading(
            chain, self._context, partition.topic, partition.index, services.stats, records,
            acquired_only(partition.acquired), api=API, hides_unreadable=services.hides_unreadable,
            max_records=services.max_records,
        )  # fmt: skip
        consume = partial(reading.consume, services.limit)
        if len(records) <= MAX_INLINE_COMPRESSED_BYTES and reading.inflate(
            min(services.limit, MAX_INLINE_CONSUMED_BYTES)
        ):
            _settle(partition, consume())
        else:
            _settle(partition, (yield from consume_in_thread(reading, consume, self._time_left)))


def _settle(partition: AcquiredPartition, remaining: Remaining) -> None:
    if remaining.records is not None:
        partition.replace(remaining.records)
    if remaining.withheld_from is None:
        return
    partition.release_from(remaining.withheld_from)
    if not partition.records:  # the log says why; clients try again
        partition.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
