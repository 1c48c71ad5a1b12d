"""The batches of one slice, from brokers or segment files, with large messages whole where the topic has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from kafka_sidecar.codec.records import Batch
from kafka_sidecar.pipeline.records.kafka_log import PartitionReader
from kafka_sidecar.pipeline.records.segments import read_again, read_segments
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.records.whole import Counts, ReadLog, WholeMessages
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.large_messages.from_config import topics
from kafka_sidecar.proxy.security.client_settings import client_settings


@dataclass(slots=True)
class SliceReader:
    """Reads one slice. `batches` may be called once; the other attributes are complete when it has ended."""

    config: Config
    part: Slice
    deleted: list[tuple[int, int]] = field(default_factory=list)  # offsets (first, end), before they were read
    counts: Counts = field(default_factory=Counts)

    def batches(self) -> Iterator[Batch]:
        """The batches of the slice, the first one whole, and maybe more.

        Raises:
            LogError, SegmentError: what is stored cannot be read.
            UnreachableError: no broker responds.
            MissingError: a large message cannot be assembled, in a topic with ``on_missing: fail``.
        """
        if self.part.files:
            return self._whole(read_segments(self.part), partial(read_again, self.part))
        settings = client_settings(self.config.bootstrap_servers, self.config.pipeline.kafka)
        reader = PartitionReader(settings, self.part)
        self.deleted = reader.deleted
        return self._whole(reader.batches(), reader.read)

    def _whole(self, found: Iterator[Batch], read_log: ReadLog) -> Iterator[Batch]:
        config, part = self.config, self.part
        settings = topics(config).find(part.topic)
        if settings is None:
            return found
        # Room for the segments of a message, which are read again otherwise.
        cache_bytes = max(config.large_messages.cache, 2 * settings.max_message)
        limit, max_records = config.validation.max_batch, config.limits.max_records
        whole = WholeMessages(
            part.topic, part.partition, settings, read_log, cache_bytes, limit, max_records, self.counts
        )
        return whole.batches(found)
