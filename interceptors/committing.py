"""The interceptors of a group's commits, in their order: `pre_commit` (KIP-547) and `on_commit` (KIP-42)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.interceptors.guard import Guard, has_override
from kafka_sidecar.interceptors.values import MAX_COMMIT_METADATA, java_length

PRE_COMMIT, ON_COMMIT = "pre_commit", "on_commit"
MAX_TOPIC_CHARS = 249  # characters, as in Kafka
Given = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True, eq=False)
class Committers:
    """Those that have a part in commits; each sees the topics that it is for."""

    guards: tuple[Guard, ...]
    max_metadata: int = MAX_COMMIT_METADATA
    pre_commit_guards: tuple[Guard, ...] = field(init=False)  # those that override pre_commit
    on_commit_guards: tuple[Guard, ...] = field(init=False)  # those that override on_commit

    def __post_init__(self) -> None:
        committing = [guard for guard in self.guards if isinstance(guard.interceptor, ConsumerInterceptor)]
        for name, hook in (("pre_commit_guards", PRE_COMMIT), ("on_commit_guards", ON_COMMIT)):
            having = tuple(one for one in committing if has_override(one.interceptor, ConsumerInterceptor, hook))
            object.__setattr__(self, name, having)

    def pre_commit(self, offsets: Offsets) -> Offsets:
        """What is to be committed."""
        for guard in self.pre_commit_guards:
            own = _of(guard, offsets)
            if offsets and not own:
                continue
            answer = guard.call(PRE_COMMIT, partial(self._call_pre_commit, guard.interceptor.pre_commit), own)  # type: ignore[attr-defined]
            if answer is not None and answer != own:
                others = {place: offset for place, offset in offsets.items() if place not in own}
                offsets = Offsets({**others, **answer}, offsets.context)
        return offsets

    def on_commit(self, offsets: Offsets) -> None:
        """These have been committed."""
        for guard in self.on_commit_guards:
            if own := _of(guard, offsets):
                own = Offsets(own, offsets.context)  # a copy: it may change it
                guard.call(ON_COMMIT, guard.interceptor.on_commit, own)  # type: ignore[attr-defined]

    def _call_pre_commit(self, pre_commit: Callable[[Offsets], Given], offsets: Offsets) -> Given:
        own = Offsets(offsets, offsets.context, self.max_metadata)  # a copy: one that fails may have changed it
        answer = pre_commit(own)
        if not isinstance(answer, Mapping):
            raise TypeError(f"pre_commit() gave {type(answer).__name__} back: give the offsets to commit")
        left = dict(answer)
        for place, offset in left.items():
            if place not in offsets or offsets[place] != offset:
                self._check(place, offset)
        return {TopicPartition(*place): offset for place, offset in left.items()}

    def _check(self, place: object, offset: object) -> None:
        match place, offset:
            case (str(topic), int(partition)), OffsetAndMetadata(int(number), str(metadata), int(epoch)):
                # What cannot be written must not get as far as the request.
                if len(topic.encode()) > MAX_TOPIC_CHARS:
                    raise ValueError(f"pre_commit() gave a topic of more than {MAX_TOPIC_CHARS} characters")
                if not (0 <= partition < 1 << 31 and 0 <= number < 1 << 63 and -1 <= epoch < 1 << 31):
                    raise ValueError("pre_commit() gave a partition, offset or leader epoch that cannot be")
                if java_length(metadata) > self.max_metadata:
                    raise ValueError(f"pre_commit() gave metadata of more than {self.max_metadata} characters")
            case _:
                raise TypeError("pre_commit() gave what is no TopicPartition with an OffsetAndMetadata")


def _of(guard: Guard, offsets: Offsets) -> Offsets:
    """Those of the topics that an interceptor is for."""
    own = {place: one for place, one in offsets.items() if guard.applies_to(place.topic)}
    return offsets if len(own) == len(offsets) else Offsets(own, offsets.context)
