"""The sidecar's own clients of aiokafka: with settings that aiokafka does not have, and how they create a topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from aiokafka.admin import NewTopic

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.proxy.runtime.aiokafka_settings import connect_with, create_no_topics
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

T = TypeVar("T")

# Clients that may not create the topic may still use it, if it exists.
GO_ON = {
    ErrorCode.NONE,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}

# Who uses these clients reports what happens to them, once.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def create_client(kind: Callable[..., T], access: BrokerAccess, **settings: Any) -> T:
    """One of aiokafka's three kinds of clients, which hold the client that connects under two names.

    Args:
        kind: its class.
        access: how brokers are connected to.
        settings: aiokafka's own.
    """
    created = kind(**access.aiokafka_settings, **settings)
    client = getattr(created, "client", None) or created._client  # type: ignore[attr-defined]
    create_no_topics(client)
    if access != BrokerAccess():
        connect_with(access, client)
    return created


async def create_topic(
    admin: Any, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str], timeout_ms: int
) -> None:
    """Create a topic unless it exists; -1 is the cluster's default. Raises OSError if no broker can create it."""
    wanted = NewTopic(topic, num_partitions=1, replication_factor=1, topic_configs=dict(configs))
    wanted.num_partitions, wanted.replication_factor = partitions, replication_factor  # its constructor takes no -1
    created = await admin.create_topics([wanted], timeout_ms=timeout_ms)
    for _, code, *message in created.topic_errors:
        if code not in GO_ON:
            raise OSError(f"the topic {topic} cannot be created: {message or code}")
