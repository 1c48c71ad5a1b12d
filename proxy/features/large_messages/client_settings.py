"""The settings that limit the size of messages in clients, by the name with which a client introduces itself."""

from __future__ import annotations

from kafka_sidecar.proxy.config.large_messages import MAX_MESSAGE_FOR_ALL_CLIENTS

# Part of the software name (KIP-511): of its producer, and of its consumer where that has a fixed limit.
SETTINGS = (
    ("apache-kafka-java", "max.request.size", None),
    ("rdkafka", "message.max.bytes", "receive.message.max.bytes"),
    ("kgo", "ProducerBatchMaxBytes", "BrokerMaxReadBytes"),
    ("sarama", "Producer.MaxMessageBytes", "MaxResponseSize"),
    ("kafka-python", "max_request_size", "receive_message_max_bytes"),
)


def advice(client_software: str | None, max_message: int) -> str:
    """What to set so that this client's values are accepted, or rejected before they are sent."""
    name = (client_software or "").lower()
    producer, consumer = next(
        ((producer, consumer) for part, producer, consumer in SETTINGS if part in name),
        ("its maximum size of requests", None),
    )
    text = f"raise max_message, or lower {producer} of the producer to {max_message}"
    if max_message > MAX_MESSAGE_FOR_ALL_CLIENTS // 2 and consumer is not None:
        text += f"; consumers of this library need {consumer} above the new max_message"
    return text
