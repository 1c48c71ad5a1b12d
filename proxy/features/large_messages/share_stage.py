"""The stage of a ShareFetch in which large messages are assembled, before interceptors see them (KIP-932).

Slices that a member has acquired are not in what it gets. They stay acquired, and the client acknowledges them as gaps,
as it does for compacted records (docs/decisions/0015): so each slice is done with by whoever got it, and the message by
the member that got its carrier. What cannot be read now must not look like a gap: it is not among the acquired records,
and the broker delivers it again.
"""

from __future__ import annotations

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.large_messages.delivery import Delivery, ResponseRoom
from kafka_sidecar.large_messages.segment_index import SegmentIndex
from kafka_sidecar.proxy.exchanges.fetch_requests import FIRST_WITH_IDS
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredPartition, Stage, StageRun
from kafka_sidecar.proxy.features.large_messages.assemble_stage import FindSettings
from kafka_sidecar.proxy.features.large_messages.assembly_services import AssemblyServices
from kafka_sidecar.proxy.features.large_messages.reads import Reads
from kafka_sidecar.proxy.relay.exchange import Client, Steps

MAX_RESPONSE_BYTES = 64 << 20  # with two messages or more: many clients accept no more than 100 MB


class ShareAssembleStage(Stage):
    """Large messages of the topics that are enabled now."""

    def __init__(self, find: FindSettings, services: AssemblyServices) -> None:
        self._find = find
        self._services = services

    def start(self, client: Client, version: int) -> ShareAssembleRun:
        return ShareAssembleRun(self._find, self._services, client)


class ShareAssembleRun(StageRun):
    """The large messages of one response."""

    restores = True

    __slots__ = ("_find", "_reads", "_room", "_services", "large")

    def __init__(self, find: FindSettings, services: AssemblyServices, client: Client) -> None:
        self._find = find
        self._services = services
        self.large: dict[tuple[str | bytes, int], list[tuple[int, int]]] = {}
        # Brokers that know share groups know this version of Fetch.
        self._reads = Reads(client, FIRST_WITH_IDS, services.time_limit, services.stopwatch, None)
        self._room = ResponseRoom(MAX_RESPONSE_BYTES, self._reads.reserve)

    def wants(self, topic: str) -> bool:
        return self._find(topic) is not None

    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        settings, services = self._find(partition.topic), self._services
        assert settings is not None
        # Members see some batches each: what one has seen says nothing of what is in the log between them.
        log = services.log(
            partition.topic,
            partition.topic_id,
            partition.index,
            settings,
            is_committed_only=False,
            index=SegmentIndex(),
        )
        delivery = Delivery(
            log,
            services.unfinished,
            self._room,
            0,
            MAX_RESPONSE_BYTES,
            services.inflate_limit,
            acquired=partition.acquired,
        )
        try:
            reading = delivery.feed(partition.records, ())
            yield from self._reads.perform(reading, partition.topic_id, partition.index)
        finally:
            self._reads.close()
        self.large[partition.topic_id, partition.index] = delivery.large
        records = delivery.records(with_marker=True)
        if records is not None:
            partition.replace(records)
        if delivery.cut_at is not None:
            partition.release_from(delivery.cut_at)
            if not len(partition.records):  # clients try again
                partition.error_code = delivery.error_code or ErrorCode.UNKNOWN_SERVER_ERROR
