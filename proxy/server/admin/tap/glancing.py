"""Filters of clients and topics, which are asked once for all requests of a connection that begin alike."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.glance import glance_produce
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import Client, Pass
from kafka_sidecar.proxy.relay.routes import UNWATCHED, WATCHED, Seen
from kafka_sidecar.proxy.server.admin.tap.wanted import Filter

MAX_GLANCED = 1_000  # partitions of a request that are looked at to see which topics it names


def glance(
    wanted: Filter, name_of: Callable[[str | bytes], str | None], key: int, version: int,
    client: Client, data: bytes, at: int, size: int,
) -> Seen:  # fmt: skip
    """What filters say by the beginning of a request of this API and version, as `GlancingTap.glance`."""
    if not wanted.allows_client(client.client_id, client.principal):
        return UNWATCHED
    if wanted.topics is None or key != ApiKey.PRODUCE:
        return WATCHED
    named, end = glance_produce(data, at, size, version, MAX_GLANCED)
    names = [name for one in named if (name := name_of(one)) is not None]
    if not names or len(names) < len(named):
        return Seen(True)
    # Of several topics the records of the first would be part of the beginning.
    alike = Pass(data[at + CLIENT_ID_AT : end]) if len(named) == 1 else None
    return Seen(any(map(wanted.topics, names)), alike)
