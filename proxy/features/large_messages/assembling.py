"""What the assembly of large messages keeps for all connections: caches, what was seen, counters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from kafka_sidecar.large_messages.cache import SegmentCache
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.resume_points import ResumePoints
from kafka_sidecar.large_messages.unfinished import Unfinished
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage, FindSettings
from kafka_sidecar.proxy.features.large_messages.assembly_services import AssemblyServices
from kafka_sidecar.proxy.features.large_messages.assembly_stats import AssemblyStats
from kafka_sidecar.proxy.features.large_messages.reads_ahead import ReadsAhead
from kafka_sidecar.proxy.features.large_messages.share_stage import ShareAssembleStage
from kafka_sidecar.proxy.relay.exchange import TimeLimit

MAX_UNFINISHED_BYTES = 128 << 20  # of messages that clients with a deadline will ask for again


class Assembling:
    """Kept across reloads: what is in the log does not depend on the configuration."""

    def __init__(
        self, name_of: Callable[[bytes], str | None], id_of: Callable[[str], bytes], intervals: Intervals
    ) -> None:
        """
        Args:
            name_of: a topic's name by its id, as far as it is known here.
            id_of: its id by its name, zeros if it is not known.
            intervals: where messages begin and end, for commits.
        """
        self.stats = AssemblyStats(time.monotonic, intervals)
        self.cache = SegmentCache(0)
        self._ahead = ReadsAhead(0, time.perf_counter)
        self._services = AssemblyServices(
            name_of, id_of, self.stats.report, time.perf_counter, self.cache, Unfinished(MAX_UNFINISHED_BYTES), 0, 0,
            ahead=self._ahead,
        )  # fmt: skip

    def apply(self, config: Config) -> None:
        """Use this configuration for requests that begin from now on."""
        section = config.large_messages
        self.cache.resize(section.cache)
        self._ahead.limit = section.cache
        self._services = replace(
            self._services,
            inflate_limit=config.validation.max_batch,
            read_ahead=section.read_ahead,
            max_records=config.limits.max_records,
            hold_for=tuple(section.hold_for),
            li_clients=tuple(section.li_clients),
            time_limit=TimeLimit("large_messages", section.timeout, config.threads.max_wait),
        )

    @property
    def resume_points(self) -> ResumePoints:
        """Where groups go on, as consumers have asked."""
        return self._services.resume_points

    def stage(self, find: FindSettings) -> AssembleStage:
        """The part in Fetch requests."""
        return AssembleStage(find, self._services)

    def share_stage(self, find: FindSettings) -> ShareAssembleStage:
        """The part in ShareFetch requests."""
        return ShareAssembleStage(find, self._services)
