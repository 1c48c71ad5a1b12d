"""Suppresses commits that change nothing: the example of KIP-547."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pydantic import Field

from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Hints,
    OffsetAndMetadata,
    Offsets,
    TopicPartition,
)
from kafka_sidecar.interceptors.metrics import Metric
from kafka_sidecar.plugins.settings import Settings, read_settings
from kafka_sidecar.plugins.units import Milliseconds

CommitKey = tuple[str | None, TopicPartition]  # group, partition
Who = tuple[int, str | None, str | None]  # connection, member, group instance


# Of texts that are remembered with commits: of one, more than a broker takes as metadata and names; and of all.
MAX_CHARACTERS_OF_ONE, MAX_CHARACTERS = 8192, 32 << 20


class SkipIdenticalCommitsSettings(Settings):
    remember: int = Field(default=100_000, ge=1)
    """For how many pairs of group and partition the last commit is kept."""
    at_least_every: Milliseconds = Field(default="1m", validate_default=True)
    """After this time an identical commit is sent all the same, so that the group's offsets do not expire."""


@dataclass(slots=True)
class _Commit:
    """The last commit of a partition."""

    asked: OffsetAndMetadata  # as the client sent it: later interceptors may change it
    who: Who
    at: int  # ms since 1970
    pending: Context | None  # of the request whose response has not arrived; None: it has been committed
    characters: int  # of all texts in it that a client has chosen


class SkipIdenticalCommits(ConsumerInterceptor):
    """Offsets are committed only if they, their metadata or leader epoch differ from those that the client committed
    last, or after some time."""

    settings = SkipIdenticalCommitsSettings()

    def __init__(self) -> None:
        self._commits: OrderedDict[CommitKey, _Commit] = OrderedDict()  # least recently used first
        self._characters = 0  # of these: clients choose them, before a broker has said that the group is theirs
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._lock = Lock()  # hooks run in several threads

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(SkipIdenticalCommitsSettings, configs)

    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def metrics(self) -> Iterable[Metric]:
        about = "Partitions removed from commits because their offsets were committed already."
        with self._lock:
            counts = dict(self._counts)
        yield Metric("skipped_commits", about, (), counts)

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        with self._lock:
            return {
                partition: asked
                for partition, asked in offsets.items()
                if not self._is_committed(partition, asked, offsets)
            }

    def on_commit(self, offsets: Offsets) -> None:
        context = offsets.context
        with self._lock:
            for partition in offsets:
                known = self._commits.get((context.group_id, partition))
                if known is not None and known.pending is context:
                    known.at, known.pending = context.clock(), None

    def _is_committed(self, partition: TopicPartition, asked: OffsetAndMetadata, offsets: Offsets) -> bool:
        """Whether exactly this is committed already. If not, it is unknown until the response arrives."""
        context = offsets.context
        key = context.group_id, partition
        if context.transactional_id is not None:  # it counts only if the transaction is committed
            self._forget(key)
            return False
        who, now = (context.session, context.member_id, context.group_instance_id), context.clock()
        known = self._commits.get(key)
        if known is not None and known.pending is None and (known.asked, known.who) == (asked, who):
            self._commits.move_to_end(key)
            if 0 <= now - known.at < self.settings.at_least_every:
                self._counts[()] += 1
                return True
        self._forget(key)
        texts = key[0], partition.topic, asked.metadata, *who[1:], context.client_id
        size = sum(len(text or "") for text in texts)
        if size <= MAX_CHARACTERS_OF_ONE:
            self._commits[key] = _Commit(asked, who, now, context, size)
            self._characters += size
        while len(self._commits) > self.settings.remember or self._characters > MAX_CHARACTERS:
            self._forget(next(iter(self._commits)))
        return False

    def _forget(self, key: CommitKey) -> None:
        if (known := self._commits.pop(key, None)) is not None:
            self._characters -= known.characters
