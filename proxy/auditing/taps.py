"""Which APIs are watched for the audit."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.auditing.counting import Counting
from kafka_sidecar.proxy.auditing.produce import produce_tap
from kafka_sidecar.proxy.relay.tap import Tap

TAPS: dict[int, Callable[[Counting, int], Tap]] = {
    ApiKey.PRODUCE: produce_tap,
}


def tap(counting: Counting, key: int, version: int) -> Tap | None:
    """What watches requests of this API and version, if anything."""
    make = TAPS.get(key)
    return make(counting, version) if make is not None else None
