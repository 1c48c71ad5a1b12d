"""The interceptors of commits, in order: `pre_commit` (KIP-547) and `on_commit` (KIP-42)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.interceptors.guard import Guard, Place, has_override
from kafka_sidecar.plugins.pace import Pace, are_ours
from kafka_sidecar.plugins.values import MAX_COMMIT_METADATA, java_length
from kafka_sidecar.plugins.violations import ContractTypeError, ContractValueError

PRE_COMMIT, ON_COMMIT = "pre_commit", "on_commit"
OffsetsByPartition = Mapping[TopicPartition, OffsetAndMetadata]


class Committers:
    """The interceptors of commits, each for its topics, and how long they take. All else is immutable."""

    __slots__ = ("max_metadata", "on_commit_guards", "pace", "pre_commit_guards")

    def __init__(self, guards: tuple[Guard, ...], max_metadata: int = MAX_COMMIT_METADATA) -> None:
        self.max_metadata = max_metadata  # characters
        self.pre_commit_guards = _overriding(guards, PRE_COMMIT)
        self.on_commit_guards = _overriding(guards, ON_COMMIT)
        self.pace = Pace(are_ours(guard.interceptor for guard in self.pre_commit_guards + self.on_commit_guards))

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """The offsets to commit, after `pre_commit` of all interceptors."""
        count, began = len(offsets), time.perf_counter()
        for guard in self.pre_commit_guards:
            own = _of(guard, offsets)
            if offsets and not own:
                continue
            result = guard.call(
                PRE_COMMIT,
                partial(self._call_pre_commit, guard.interceptor.pre_commit),  # type: ignore[attr-defined]
                own,
                place=_only_one(own),
            )
            if result is not None and result != own:
                others = {partition: offset for partition, offset in offsets.items() if partition not in own}
                offsets = Offsets({**others, **result}, offsets.context)
        self.pace.add(count, time.perf_counter() - began)
        return offsets

    def on_commit(self, offsets: Offsets) -> None:
        """Call `on_commit` of all interceptors for offsets that have been committed."""
        began = time.perf_counter()
        for guard in self.on_commit_guards:
            if own := _of(guard, offsets):
                own = Offsets(own, offsets.context)  # a copy: the interceptor may change it
                guard.call(ON_COMMIT, guard.interceptor.on_commit, own, place=_only_one(own))  # type: ignore[attr-defined]
        self.pace.add(len(offsets), time.perf_counter() - began)

    def _call_pre_commit(
        self, pre_commit: Callable[[Offsets], OffsetsByPartition], offsets: Offsets
    ) -> OffsetsByPartition:
        own = Offsets(offsets, offsets.context, self.max_metadata)  # a copy: the interceptor may change it and fail
        result = pre_commit(own)
        if not isinstance(result, Mapping):
            raise ContractTypeError(f"pre_commit() returned {type(result).__name__}: return the offsets to commit")
        left = dict(result)
        for partition, offset in left.items():
            if partition not in offsets or offsets[partition] != offset:
                self._check(partition, offset, offsets.get(partition))
        return {TopicPartition(*partition): offset for partition, offset in left.items()}

    def _check(self, partition: object, offset: object, before: OffsetAndMetadata | None) -> None:
        """Raise for what cannot be written to the request. What the client has sent so is its own, and the broker's to
        refuse: ``before`` is what it has for this partition."""
        match partition, offset:
            case (str(topic), int(index)), OffsetAndMetadata(int(number), str(metadata), int(epoch)):
                if before is None and not is_topic_name(topic):
                    raise ContractValueError("pre_commit() returned a name that no topic can have")
                fits_index = before is not None or 0 <= index < 1 << 31
                fits_offset = (before is not None and number == before.offset) or 0 <= number < 1 << 63
                fits_epoch = (before is not None and epoch == before.leader_epoch) or -1 <= epoch < 1 << 31
                if not (fits_index and fits_offset and fits_epoch):
                    raise ContractValueError("pre_commit() returned a partition, offset or epoch that is out of range")
                metadata.encode("utf-8", "surrogateescape")  # raises for what has no bytes
                if java_length(metadata) > self.max_metadata:
                    raise ContractValueError(f"pre_commit() returned over {self.max_metadata} characters of metadata")
            case _:
                raise ContractTypeError("pre_commit() must return OffsetAndMetadata objects by TopicPartition")


def _overriding(guards: tuple[Guard, ...], hook: str) -> tuple[Guard, ...]:
    """The guards of consumer interceptors that override a hook."""
    return tuple(
        guard
        for guard in guards
        if isinstance(guard.interceptor, ConsumerInterceptor)
        and has_override(guard.interceptor, ConsumerInterceptor, hook)
    )


def _only_one(offsets: Offsets) -> Place | None:
    """The partition of a commit; None if it is for several."""
    return next(iter(offsets)) if len(offsets) == 1 else None


def _of(guard: Guard, offsets: Offsets) -> Offsets:
    """The offsets of the topics that an interceptor is for."""
    own = {partition: offset for partition, offset in offsets.items() if guard.applies_to(partition.topic)}
    return offsets if len(own) == len(offsets) else Offsets(own, offsets.context)
