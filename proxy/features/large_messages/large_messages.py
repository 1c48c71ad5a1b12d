"""Large messages in a running sidecar: the current settings, what assembly keeps, and the stages that take part.

Assembly keeps caches, what was seen, and counters, for all connections.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.large_messages.cache import SegmentCache, Unfinished
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.offsets import MAX_METADATA
from kafka_sidecar.plugins.effects import TimeLimit
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.exchanges.commits import Stage as CommitStage
from kafka_sidecar.proxy.exchanges.fetch import Stage as FetchStage
from kafka_sidecar.proxy.exchanges.messages import MessageStage
from kafka_sidecar.proxy.exchanges.produce import Stage as ProduceStage
from kafka_sidecar.proxy.features.feature import NO_STAGES, Feature, Site, Stages
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage, ShareAssembleStage
from kafka_sidecar.proxy.features.large_messages.delete_stage import Deletions
from kafka_sidecar.proxy.features.large_messages.from_config import Topics, topics
from kafka_sidecar.proxy.features.large_messages.object_needs import GetObject, PutObjects
from kafka_sidecar.proxy.features.large_messages.object_stage import ObjectStage
from kafka_sidecar.proxy.features.large_messages.object_store import ObjectStore
from kafka_sidecar.proxy.features.large_messages.offset_fetch import StoredOffsets
from kafka_sidecar.proxy.features.large_messages.offset_stage import OffsetStage, SafeOffsetStage
from kafka_sidecar.proxy.features.large_messages.progress import ProgressStore
from kafka_sidecar.proxy.features.large_messages.reads import ReadsAhead
from kafka_sidecar.proxy.features.large_messages.segment_stage import SegmentStage
from kafka_sidecar.proxy.features.large_messages.services import AssemblyServices, Services
from kafka_sidecar.proxy.features.large_messages.slices import WriteRights
from kafka_sidecar.proxy.features.large_messages.split_stage import SplitStage
from kafka_sidecar.proxy.features.large_messages.stats import AssemblyStats, LargeMessageStats
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

MAX_UNFINISHED_BYTES = 128 << 20  # of messages that clients with a deadline will ask for again


class LargeMessages(Feature):
    """The current settings. A request that has begun is handled by those that were current then."""

    def __init__(self, name_of: Callable[[bytes], str | None], id_of: Callable[[str], bytes]) -> None:
        """
        Args:
            name_of: a topic's name by its id, as far as it is known here.
            id_of: its id by its name, zeros if it is not known.
        """
        self.stats = LargeMessageStats(time.monotonic)
        self.topics = Topics()
        self.intervals = Intervals(clock=time.monotonic)  # where messages begin and end, for commits
        self._id_of = id_of
        self._progress = ProgressStore(time.monotonic, self.stats.orphaned)
        self._services = Services(
            self.topics.find, self.stats, TopicLimits(time.monotonic), os.urandom, id_of,
            rights=WriteRights(time.monotonic), progress=self._progress,
        )  # fmt: skip
        # What assembly keeps, it keeps across reloads: what is in the log does not depend on the configuration.
        self.assembly_stats = AssemblyStats(time.monotonic, self.intervals)
        self.cache = SegmentCache(0)
        self._ahead = ReadsAhead(0, time.perf_counter)
        self._assembly = AssemblyServices(
            name_of, id_of, self.assembly_stats.report, time.perf_counter, self.cache,
            Unfinished(MAX_UNFINISHED_BYTES), 0, 0, ahead=self._ahead,
        )  # fmt: skip
        self._max_commit_metadata = MAX_METADATA
        self._objects: ObjectStore | None = None

    def families(self) -> Iterator[Family]:
        """All metrics of large messages."""
        self._progress.expire()
        yield from self.stats.families()
        yield from self.assembly_stats.families()
        yield counter("large_messages_cache_hits", "Segments that were in the cache when needed", self.cache.hits)
        yield gauge("large_messages_cache_bytes", "Bytes of the segments in the cache", self.cache.bytes)

    def topic_state(self, name: str) -> Mapping[str, Any]:
        found = self.topics.find(name)
        return {"large messages": "as objects" if found.store == "object" else "in slices"} if found is not None else {}

    def load(self, config: Config) -> Callable[[], None]:
        """Load the plug-ins of a configuration; what is returned applies it.

        Raises ConfigError where one is wrong.
        """
        try:
            new, store = topics(config), _object_store(config)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return partial(self._apply, new, store, config)

    def stages(self) -> Stages:
        topics, services, assembly = self.topics, self._services, self._assembly
        if not topics.are_enabled:
            return NO_STAGES
        find, intervals, id_of = topics.find, self.intervals, self._id_of
        stats, assembly_stats = self.stats, self.assembly_stats
        produce: list[ProduceStage] = [ObjectStage(services)] if topics.store_objects else []
        fetch: list[FetchStage] = [AssembleStage(find, assembly)]
        if topics.deliver_headers:
            fetch.append(
                SafeOffsetStage(find, intervals, id_of, services.li_clients, services.max_inflated, services.time_limit)
            )
        messages: dict[int, MessageStage] = {
            ApiKey.DELETE_RECORDS: Deletions(find, assembly, intervals, assembly_stats.deleted)
        }
        commits: list[CommitStage] = []
        if topics.store_offsets:
            messages[ApiKey.OFFSET_FETCH] = StoredOffsets(
                find, assembly, intervals, assembly_stats.refused_offset, assembly.resume_points.note
            )
            commits.append(
                OffsetStage(
                    find, intervals, id_of, stats.stored_offsets, services.li_clients, self._max_commit_metadata
                )
            )
        return Stages(
            produce_checks=(SegmentStage(services),),
            produce=(*produce, SplitStage(services)),
            fetch=fetch,
            acquired=(ShareAssembleStage(find, assembly),),
            commits=commits,
            messages=messages,
        )

    def register(self, performer: Performer) -> None:
        """Say how the needs of this feature are met."""
        performer.add(PutObjects, self._put)
        performer.add(GetObject, self._get)

    async def _put(self, need: PutObjects) -> None:
        if self._objects is None:
            raise OSError("large_messages.object_store is no longer configured")
        await self._objects.put(need)

    async def _get(self, need: GetObject) -> bytes | None:
        if self._objects is None:
            raise OSError("large_messages.object_store is no longer configured")
        return await self._objects.get(need)

    def _apply(self, new: Topics, store: ObjectStore | None, config: Config) -> None:
        self.topics = new
        self._objects = store
        section, max_records = config.large_messages, config.limits.max_records
        time_limit = TimeLimit("large_messages", section.timeout, config.threads.max_wait)
        li_clients, max_inflated = tuple(section.li_clients), config.validation.max_batch
        self._max_commit_metadata = config.interception.max_commit_metadata
        self.cache.resize(section.cache)
        self._ahead.limit = section.cache
        self._services = replace(
            self._services, settings_of=new.find, max_inflated=max_inflated, max_records=max_records,
            li_clients=li_clients, time_limit=time_limit, max_record_errors=config.limits.max_record_errors,
        )  # fmt: skip
        self._assembly = replace(
            self._assembly, inflate_limit=max_inflated, max_records=max_records, li_clients=li_clients,
            time_limit=time_limit, read_ahead=section.read_ahead, hold_for=tuple(section.hold_for),
        )  # fmt: skip


def _object_store(config: Config) -> ObjectStore | None:
    """Raises ValueError if it cannot be opened."""
    section = config.large_messages
    if section.object_store is None:
        return None
    return ObjectStore(section.object_store, section.object_store_options, section.object_store_timeout)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says."""
    large_messages = LargeMessages(site.topics.name_of, site.topics.id_of)
    large_messages.register(site.performer)
    site.large_messages = lambda topic: large_messages.topics.find(topic)
    return large_messages
