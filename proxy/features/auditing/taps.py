"""Which APIs are watched for the audit."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.auditing.accepted import share_acknowledge_tap
from kafka_sidecar.proxy.features.auditing.commits import CommitTap
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.features.auditing.fetch import fetch_tap
from kafka_sidecar.proxy.features.auditing.group_watch import GroupTap
from kafka_sidecar.proxy.features.auditing.produce import produce_tap
from kafka_sidecar.proxy.features.auditing.share_fetch import share_fetch_tap
from kafka_sidecar.proxy.relay.watch import Tap

TAPS: dict[int, Callable[[Counting, int, int], Tap]] = {
    ApiKey.PRODUCE: produce_tap,
    ApiKey.FETCH: fetch_tap,
    ApiKey.OFFSET_COMMIT: CommitTap,
    ApiKey.TXN_OFFSET_COMMIT: CommitTap,
    ApiKey.JOIN_GROUP: GroupTap,
    ApiKey.SYNC_GROUP: GroupTap,
    ApiKey.HEARTBEAT: GroupTap,
    ApiKey.OFFSET_FETCH: GroupTap,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: GroupTap,
    ApiKey.SHARE_FETCH: share_fetch_tap,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge_tap,
}


def tap(counting: Counting, key: int, version: int) -> Tap | None:
    """What watches requests of this API and version, if anything."""
    make = TAPS.get(key)
    return make(counting, key, version) if make is not None else None
