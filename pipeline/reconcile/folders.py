"""Which folders of a table count: a batch of an hour has one, until folders that are merged replace those before it.

A merged folder counts once Spark has marked it as complete, and from then on hides what it was made of. So nothing is
lost or counted twice, wherever a run is killed between writing it and deleting the others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

# In the order in which they replace each other.
COMPACTED, EXPIRED = "compacted", "expired"
_NAMES = re.compile(r"/hour=([\d-]+)/batch=(\d+)(?:-(\w+))?(?:/_SUCCESS)?(?=[,}])")


@dataclass(frozen=True, slots=True, order=True)
class Folder:
    """The rows of one hour and batch, or with ``kind`` those of this hour up to that batch."""

    hour: str
    batch: int
    kind: str = ""

    @property
    def batch_name(self) -> str:
        return f"{self.batch:012}-{self.kind}" if self.kind else f"{self.batch:012}"

    @property
    def name(self) -> str:
        return f"hour={self.hour}/batch={self.batch_name}"


def named_in(listing: str) -> Iterator[Folder]:
    """The folders that a list of paths names, such as `{/a/hour=2026-01-01-18/batch=000000000042}`."""
    for hour, batch, kind in _NAMES.findall(listing):
        yield Folder(hour, int(batch), kind)


def newest(merged: Collection[Folder]) -> dict[str, Folder]:
    """Of each hour the merged folder that replaces all others."""
    return {one.hour: one for one in sorted(merged)}


def visible(folders: Collection[Folder], complete: Collection[Folder]) -> list[Folder]:
    """Those that count. ``complete`` are the merged ones among them that are written to the end."""
    merged = newest(complete)
    return sorted(one for one in folders if one == merged.get(one.hour) or _is_later(one, merged))


def _is_later(one: Folder, merged: Mapping[str, Folder]) -> bool:
    return not one.kind and (one.hour not in merged or one.batch > merged[one.hour].batch)
