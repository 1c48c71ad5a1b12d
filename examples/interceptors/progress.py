"""on_commit: the last offset of each group, on /metrics."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Offsets
from kafka_sidecar.interceptors.metrics import Metric


class Progress(ConsumerInterceptor):
    """Shows the last committed offset of each group and partition."""

    def __init__(self) -> None:
        self.reached: dict[tuple[str, ...], float] = {}

    def on_commit(self, offsets: Offsets) -> None:
        for (topic, partition), offset in offsets.items():
            self.reached[offsets.context.group_id or "", topic, str(partition)] = offset.offset

    def metrics(self) -> Iterable[Metric]:
        labels = ("group", "topic", "partition")
        yield Metric("committed_offset", "The offset that a group has committed", labels, gauges=self.reached)
