"""The features of a sidecar without its server: what looks into which request."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.telemetry.metrics import Metrics
from support import oracle
from support.client import FakeClient, exchange_of
from support.driven import Driven
from support.in_process import config
from support.produce_requests import (
    VERSIONS,
    topic_id,
)

NAMES = ("orders", "payments", "free", "other")
ON_ORDERS = [{"type": f"support.interception:{kind}", "topics": ["orders"]} for kind in ("Adds", "Reads")]
FEWER = settings(max_examples=settings().max_examples // 4)
each_produce = pytest.mark.parametrize("version", VERSIONS)
each_fetch = pytest.mark.parametrize("version", range(4, 19))
with_sessions = pytest.mark.parametrize("version", range(7, 19))


def started(*interceptors: Mapping[str, Any], **settings: Any) -> Features:
    """The features of a sidecar that knows the ids of some topics and cannot ask its cluster."""
    cluster: Any = SimpleNamespace(topic_ids=None)
    names = TopicNameCache(cluster)
    names.remember((topic_id(name), name) for name in NAMES)
    at_start = configured(*(interceptors or ON_ORDERS), **settings)
    features = Features(at_start, Metrics(), names, cluster, Performer(LoopBudget(), Threads(1)), BrokerAccess())
    features.apply(at_start)
    return features


def load(features: Features, *interceptors: Mapping[str, Any], **settings: Any) -> None:
    features.apply(configured(*interceptors, **settings))


def configured(*interceptors: Mapping[str, Any], **settings: Any) -> Config:
    given: dict[str, Any] = {**settings, "interceptors": list(interceptors)}
    return config("a:1", **given)


def begun(
    features: Features, key: int, version: int, frame: bytes, client: FakeClient | None = None, end: int | None = None
) -> Driven | None:
    """What looks into a request of which frame[:end] has arrived, after other bytes."""
    begin = features.exchange(key, version)
    if begin is None:
        return None
    exchange = exchange_of(begin(b"before" + frame[:end], 6, len(frame), client or FakeClient()))
    return Driven(exchange) if exchange is not None else None


def kind(exchange: Driven | None) -> type | None:
    return type(exchange.exchange) if exchange is not None else None


def fetching(
    version: int, *topics: str, epoch: int = -1, session: int = 9, client_id: str = "app", **fields: Any
) -> bytes:
    data = [{"topic": name, "topic_id": topic_id(name), "partitions": [{"partition": 0}]} for name in topics]
    sessions = {"session_id": session, "session_epoch": epoch}
    entity = oracle.request(ApiKey.FETCH, version, replica_id=-1, topics=data, **sessions, **fields)
    return oracle.request_frame(entity, 7, client_id)
