"""Letters counted by what they have in common. Bounded: who fills a topic with client ids does not fill the memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kafka_sidecar.dead_letters.letters import Letter

MAX_GROUPS = 10_000
OTHERS = "(others)"
K = TypeVar("K")


class Group(NamedTuple):
    """What letters are counted by."""

    topic: str
    policy: str
    reason: str
    mode: str
    client_id: str


class Seen(NamedTuple):
    """The letters of one group."""

    letters: int
    first: int  # ms since 1970, of the rejection
    last: int
    example: str  # where one of them is: topic:partition:offset


@dataclass(slots=True)
class Overview:
    """Counts letters; those of groups for which there is no room are counted together, by topic."""

    groups: dict[Group, Seen] = field(default_factory=dict)
    others: dict[str, Seen] = field(default_factory=dict)  # records that are no letters, by what is missing
    letters: int = 0

    def add(self, letter: Letter, example: str) -> None:
        self.letters += 1
        why = letter.reasons
        group = Group(why.topic, why.policy, why.reason, why.mode, why.client_id or "")
        if group not in self.groups and len(self.groups) >= MAX_GROUPS:
            group = Group(OTHERS, OTHERS, OTHERS, OTHERS, OTHERS)
        _count(self.groups, group, why.rejected_at, example)

    def add_other(self, why: str, timestamp: int, example: str) -> None:
        _count(self.others, why if why in self.others or len(self.others) < MAX_GROUPS else OTHERS, timestamp, example)

    def rows(self) -> Iterable[tuple[Group, Seen]]:
        """The groups, the largest first."""
        return sorted(self.groups.items(), key=lambda one: (-one[1].letters, one[0]))


def _count(into: dict[K, Seen], key: K, at: int, example: str) -> None:
    known = into.get(key)
    if known is None:
        into[key] = Seen(1, at, at, example)
    else:
        into[key] = Seen(known.letters + 1, min(known.first, at), max(known.last, at), known.example)
