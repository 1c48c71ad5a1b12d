"""Metrics of interceptors, as plain values; the proxy exposes them on /metrics.

Clients choose names of topics and clients: there are series for a limited number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kafka_sidecar.plugins.values import Histogram as Histogram

Labels = tuple[str, ...]
T = TypeVar("T")
OTHER = "(other)"
MAX_LABEL_CHARS = 100


def escape_surrogates(text: str) -> str:
    """Text that can be encoded as UTF-8: client ids may contain any bytes.

    >>> escape_surrogates("app \\udcff")
    'app \\\\udcff'
    """
    return text.encode(errors="backslashreplace").decode()


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: a value for each combination of labels. A `Histogram` is exposed in seconds."""

    name: str  # without the prefix of all metrics, and without _total
    about: str
    labels: Labels
    counters: Mapping[Labels, float] = field(default_factory=dict)
    gauges: Mapping[Labels, float] = field(default_factory=dict)
    histograms: Mapping[Labels, Histogram] = field(default_factory=dict)


class Series(Generic[T]):
    """Values by labels. Beyond ``max_series``, new labels are replaced by `OTHER`, beginning with the last one.

    >>> series = Series(list, max_series=1)
    >>> for labels in ("orders", "app"), ("orders", "app 2"), ("customers", "app"):
    ...     series.of(labels).append(1)
    >>> list(series.values)
    [('orders', 'app'), ('orders', '(other)'), ('(other)', '(other)')]
    """

    def __init__(self, kind: Callable[[], T], max_series: int) -> None:
        self.values: dict[Labels, T] = {}
        self._kind = kind
        self._max_series = max_series

    def of(self, labels: Labels) -> T:
        """The value of these labels, or of those that replace them."""
        if (found := self.values.get(labels)) is not None:
            return found
        for hidden in range(len(labels) + 1):  # as many series again may have OTHER as the last label
            shown = tuple(label[:MAX_LABEL_CHARS] for label in labels[: len(labels) - hidden])
            own = shown + (OTHER,) * hidden
            if (found := self.values.get(own)) is not None:
                return found
            if not shown or len(self.values) < self._max_series * (1 + hidden):
                break
        self.values[own] = value = self._kind()
        return value
