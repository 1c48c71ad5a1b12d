"""What consumers that go on at a committed offset must have seen before it, with `offsets: strict-li`.

A consumer of li begins at the safe offset S of its group and shows nothing before the committed offset C. A plain one
begins at C: it is the records from S to C that it lacks.
"""

from __future__ import annotations

from collections import OrderedDict

MAX_PARTITIONS = 10_000
MAX_POINTS = 16  # of a partition: about as many as it has groups


class ResumePoints:
    """Pairs of S and C by partition; those that were noted first are forgotten first."""

    def __init__(self) -> None:
        self._points: OrderedDict[tuple[str, int], dict[int, int]] = OrderedDict()  # S by C

    def note(self, topic: str, partition: int, safe: int, committed: int) -> None:
        """A consumer has asked for what its group has committed."""
        points = self._points.setdefault((topic, partition), {})
        self._points.move_to_end((topic, partition))
        points[committed] = min(safe, points.pop(committed, safe))
        if len(points) > MAX_POINTS:
            del points[next(iter(points))]
        if len(self._points) > MAX_PARTITIONS:
            self._points.popitem(last=False)

    def before(self, topic: str, partition: int, offset: int) -> list[tuple[int, int]]:
        """The ranges from S to C, exclusive, of consumers that may have come to an offset."""
        points = self._points.get((topic, partition), {})
        return [(safe, committed) for committed, safe in points.items() if committed <= offset]
