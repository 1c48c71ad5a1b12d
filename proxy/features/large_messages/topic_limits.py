"""What topics allow: their `max.message.bytes` and `cleanup.policy`, as their brokers report them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

MAX_AGE_S = 30.0  # a limit that is lowered is known after this time at the latest
MAX_TOPICS = 10_000
VERSION = 1  # which every supported broker has
TOPIC = 2  # a type of resource
MAX_BATCH, CLEANUP = "max.message.bytes", "cleanup.policy"
DEFAULT_MAX_BATCH = 1_048_588  # Kafka's; used where the client may not describe the topic


@dataclass(frozen=True, slots=True)
class TopicLimit:
    max_batch: int = DEFAULT_MAX_BATCH  # bytes
    is_compacted: bool = False
    known_at: float = 0.0


class TopicLimits:
    """The limits of topics, remembered for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._limits: dict[str, TopicLimit] = {}

    def find(self, topic: str, size: int) -> TopicLimit | None:
        """The limit for a batch of this size; None: ask the broker. Batches far below an old limit need no request."""
        found = self._limits.get(topic)
        if found is None or (2 * size > found.max_batch and self._clock() - found.known_at > MAX_AGE_S):
            return None
        return found

    def request(self, topic: str, correlation_id: int, client_id: str | None) -> bytes:
        """The frame that asks the broker."""
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=(MAX_BATCH, CLEANUP)
        )
        return encode_request(DescribeConfigsRequest(resources=(resource,)), VERSION, correlation_id, client_id)

    def learn(self, topic: str, frame: bytes) -> TopicLimit:
        """Remember what the broker has answered. Kafka's default where it says nothing, as without permission."""
        found = TopicLimit(known_at=self._clock())
        try:
            (result,) = decode_response(DescribeConfigsResponse, frame, VERSION).message.results
            if result.error_code == ErrorCode.NONE:
                values = {config.name: config.value or "" for config in result.configs}
                found = replace(
                    found, max_batch=int(values[MAX_BATCH]), is_compacted="compact" in values.get(CLEANUP, "")
                )
        except (CodecError, KeyError, ValueError):
            pass
        return self._remember(topic, found)

    def lower(self, topic: str, max_batch: int, is_compacted: bool) -> TopicLimit:
        """Remember that the broker has rejected what was larger than ``max_batch`` bytes."""
        return self._remember(topic, TopicLimit(max_batch, is_compacted, self._clock()))

    def forget(self, topic: str) -> None:
        """The next batch asks the broker again."""
        self._limits.pop(topic, None)

    def _remember(self, topic: str, limit: TopicLimit) -> TopicLimit:
        if len(self._limits) >= MAX_TOPICS:  # clients choose the names
            self._limits.clear()
        self._limits[topic] = limit
        return limit
