"""Filters of clients and topics, which are asked once for all requests of a connection that begin alike."""

from __future__ import annotations

from typing import Protocol

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.glance import glance_produce
from kafka_sidecar.proxy.relay.acks import CLIENT_ID_AT
from kafka_sidecar.proxy.relay.exchange import Client, Pass
from kafka_sidecar.proxy.relay.routes import UNWATCHED, WATCHED, GlancingTap, Seen
from kafka_sidecar.proxy.server.admin.tap.open_tap import OpenTap

MAX_GLANCED = 1_000  # partitions of a request that are looked at to see which topics it names


class NameOf(Protocol):
    def name_of(self, key: str | bytes) -> str | None:
        """A topic's name, where it is known."""


def filters_clients_or_topics(open_tap: OpenTap) -> bool:
    """Whether some requests need not be watched for what their beginning says."""
    return open_tap.filter.topics is not None or not open_tap.filter.allows_any_client


class Glancing(GlancingTap):
    """Requests of other clients, and Produce requests for other topics, cost what they cost without the tap."""

    __slots__ = ()

    open: OpenTap
    reader: NameOf
    key: int
    version: int

    def glance(self, client: Client, data: bytes, at: int, size: int) -> Seen:
        wanted = self.open.filter
        if not wanted.allows_client(client.client_id, client.principal):
            return UNWATCHED
        if wanted.topics is None or self.key != ApiKey.PRODUCE:
            return WATCHED
        named, end = glance_produce(data, at, size, self.version, MAX_GLANCED)
        names = [name for key in named if (name := self.reader.name_of(key)) is not None]
        if not names or len(names) < len(named):
            return Seen(True)
        # Of several topics the records of the first would be part of the beginning.
        alike = Pass(data[at + CLIENT_ID_AT : end]) if len(named) == 1 else None
        return Seen(any(map(wanted.topics, names)), alike)
