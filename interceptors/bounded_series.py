"""A value for each topic or client, up to a limit: clients choose both names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafka_sidecar.interceptors.metrics import Labels

T = TypeVar("T")
OTHER = "(other)"
MAX_LABEL_CHARS = 100


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
