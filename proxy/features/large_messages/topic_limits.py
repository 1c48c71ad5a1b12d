"""What topics allow: `max.message.bytes`, `cleanup.policy` and `compression.type`, as their brokers report them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_sidecar.codec.records import Codec
from kafka_sidecar.plugins.bounded import Bounded

MAX_AGE_S = 30.0  # a change is known after this time at the latest
MAX_TOPICS = 10_000
VERSION = 1  # which every supported broker has
TOPIC = 2  # a type of resource
MAX_BATCH, CLEANUP, COMPRESSION = "max.message.bytes", "cleanup.policy", "compression.type"
DEFAULT_MAX_BATCH = 1_048_588  # Kafka's; used where the client may not describe the topic
# In which a broker stores batches, by `compression.type`; `producer` is not among them.
CODECS: Mapping[str, int] = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicLimit:
    max_batch: int = DEFAULT_MAX_BATCH  # bytes
    is_compacted: bool = False
    codec: int | None = None  # in which the broker stores every batch; None: in the producer's
    known_at: float = -inf


class TopicLimits:
    """The limits of topics, remembered for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._limits = Bounded[str, TopicLimit](MAX_TOPICS)  # clients choose the names

    def find(self, topic: str) -> TopicLimit | None:
        """What is known; None: ask the broker."""
        found = self._limits.get(topic)
        return found if found is not None and self._clock() - found.known_at <= MAX_AGE_S else None

    def was_needed(self, topic: str) -> bool:
        """Whether a broker was asked for this topic, or has rejected what was assumed to be allowed."""
        return topic in self._limits

    def request(self, topic: str, correlation_id: int, client_id: str | None) -> bytes:
        """The frame that asks the broker."""
        resource = DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=(MAX_BATCH, CLEANUP, COMPRESSION)
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
                    found,
                    max_batch=int(values[MAX_BATCH]),
                    is_compacted="compact" in values.get(CLEANUP, ""),
                    codec=CODECS.get(values.get(COMPRESSION, "")),
                )
        except (CodecError, KeyError, ValueError):
            pass
        return self._remember(topic, found)

    def lower(self, topic: str, limit: TopicLimit, max_batch: int) -> TopicLimit:
        """Remember that the broker has rejected what was larger than ``max_batch`` bytes."""
        return self._remember(topic, replace(limit, max_batch=max_batch, known_at=self._clock()))

    def forget(self, topic: str) -> None:
        """The next batch asks the broker, whatever was known or assumed."""
        self._remember(topic, TopicLimit())

    def _remember(self, topic: str, limit: TopicLimit) -> TopicLimit:
        self._limits[topic] = limit
        return limit
