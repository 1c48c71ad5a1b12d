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
from kafka_sidecar.proxy.exchanges.messages import MessageStage
from kafka_sidecar.proxy.features.feature import Feature, Site, Stages
from kafka_sidecar.proxy.features.large_messages.assemble_stage import AssembleStage, FindSettings, ShareAssembleStage
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

    def stage(self, find: FindSettings) -> AssembleStage:
        """The part in Fetch requests."""
        return AssembleStage(find, self._services)

    def deletions(self, find: FindSettings) -> Deletions:
        """The part in DeleteRecords requests."""
        return Deletions(find, self._services, self.stats.intervals, self.stats.deleted)

    def stored_offsets(self, find: FindSettings) -> StoredOffsets:
        """The part in OffsetFetch requests."""
        services = self._services
        refused, resumed = self.stats.refused_offset, services.resume_points.note
        return StoredOffsets(find, services, self.stats.intervals, refused, resumed)

    def share_stage(self, find: FindSettings) -> ShareAssembleStage:
        """The part in ShareFetch requests."""
        return ShareAssembleStage(find, self._services)


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
        self.intervals = Intervals(clock=time.monotonic)
        self.assembling = Assembling(name_of, id_of, self.intervals)
        self._name_of = name_of
        self._id_of = id_of
        self._progress = ProgressStore(time.monotonic, self.stats.orphaned)
        self._services = Services(
            self.topics.find, self.stats, TopicLimits(time.monotonic), os.urandom, id_of,
            rights=WriteRights(time.monotonic), progress=self._progress,
        )  # fmt: skip
        self._max_commit_metadata = MAX_METADATA
        self._objects: ObjectStore | None = None

    def families(self) -> Iterator[Family]:
        """All metrics of large messages."""
        cache = self.assembling.cache
        self._progress.expire()
        yield from self.stats.families()
        yield from self.assembling.stats.families()
        yield counter("large_messages_cache_hits", "Segments that were in the cache when needed", cache.hits)
        yield gauge("large_messages_cache_bytes", "Bytes of the segments in the cache", cache.bytes)

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
        messages: dict[int, MessageStage | None]
        messages = {ApiKey.OFFSET_FETCH: self.offset_fetch(), ApiKey.DELETE_RECORDS: self.deletions()}
        return Stages(
            produce_checks=tuple(filter(None, (self.segment_stage(),))),
            produce=tuple(filter(None, (self.object_stage(), self.split_stage()))),
            fetch=tuple(filter(None, (self.assemble_stage(), self.safe_offset_stage()))),
            acquired=tuple(filter(None, (self.share_stage(),))),
            commits=tuple(filter(None, (self.offset_stage(),))),
            messages={key: stage for key, stage in messages.items() if stage is not None},
        )

    def register(self, performer: Performer) -> None:
        """Say how the needs of this feature are met."""
        performer.add(PutObjects, self._put)
        performer.add(GetObject, self._get)

    def segment_stage(self) -> SegmentStage | None:
        """Their part in Produce before anything is changed."""
        return SegmentStage(self._services) if self.topics.are_enabled else None

    def object_stage(self) -> ObjectStage | None:
        """Their part in Produce before batches are split, if values of a topic are stored as objects."""
        return ObjectStage(self._services) if self.topics.store_objects else None

    def split_stage(self) -> SplitStage | None:
        """Their part in Produce."""
        return SplitStage(self._services) if self.topics.are_enabled else None

    def assemble_stage(self) -> AssembleStage | None:
        """Their part in Fetch requests."""
        return self.assembling.stage(self.topics.find) if self.topics.are_enabled else None

    def safe_offset_stage(self) -> SafeOffsetStage | None:
        """Their part in Fetch requests of topics whose consumers get li's headers."""
        if not self.topics.deliver_headers:
            return None
        services = self._services
        return SafeOffsetStage(
            self.topics.find,
            self.intervals,
            self._id_of,
            services.li_clients,
            services.max_inflated,
            services.time_limit,
        )

    def share_stage(self) -> ShareAssembleStage | None:
        """Their part in ShareFetch requests."""
        return self.assembling.share_stage(self.topics.find) if self.topics.are_enabled else None

    def deletions(self) -> Deletions | None:
        """Their part in DeleteRecords."""
        return self.assembling.deletions(self.topics.find) if self.topics.are_enabled else None

    def offset_stage(self) -> OffsetStage | None:
        """Their part in OffsetCommit and TxnOffsetCommit, if offsets of a topic may be stored as li does."""
        if not self.topics.store_offsets:
            return None
        return OffsetStage(
            self.topics.find,
            self.intervals,
            self._id_of,
            self.stats.stored_offsets,
            self._services.li_clients,
            self._max_commit_metadata,
        )

    def offset_fetch(self) -> StoredOffsets | None:
        """What looks into OffsetFetch, if offsets of a topic may be stored as li does."""
        if not self.topics.store_offsets:
            return None
        return self.assembling.stored_offsets(self.topics.find)

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
        self.assembling.apply(config)
        self._max_commit_metadata = config.interception.max_commit_metadata
        self._services = replace(
            self._services,
            settings_of=new.find,
            max_inflated=config.validation.max_batch,
            max_records=config.limits.max_records,
            li_clients=tuple(config.large_messages.li_clients),
            time_limit=TimeLimit("large_messages", config.large_messages.timeout, config.threads.max_wait),
            max_record_errors=config.limits.max_record_errors,
        )


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
