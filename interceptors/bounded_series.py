"""One figure for each topic or client, but not for more than an operator wants: clients choose both names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from kafka_sidecar.interceptors.metrics import Labels

T = TypeVar("T")
OTHER = "(other)"
MAX_LABEL_CHARS = 100  # characters of a label


class Series(Generic[T]):
    """Values by their labels; once there are ``max_series``, labels that are new become `OTHER`, from the last one on.

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
        """The value of these labels, or of those that stand for them."""
        if (found := self.values.get(labels)) is not None:
            return found
        for hidden in range(len(labels) + 1):  # room for as many again whose last label is OTHER
            shown = tuple(label[:MAX_LABEL_CHARS] for label in labels[: len(labels) - hidden])
            own = shown + (OTHER,) * hidden
            if (found := self.values.get(own)) is not None:
                return found
            if not shown or len(self.values) < self._max_series * (1 + hidden):
                break
        self.values[own] = made = self._kind()
        return made
