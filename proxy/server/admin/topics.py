"""What applies to topics, as JSON."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

from kafka_sidecar.codec.topic_names import is_topic_name
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.config.reload import RELOADED
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.readable import hide_secrets

MAX_TOPICS_LISTED = 500  # topics; each takes some 20 us of the event loop


def list_topics(server: Server) -> dict[str, Any]:
    """The topics that clients have named, and those that the file names, in short."""
    configured = {topic.name for topic in server.features.applied.topics if is_topic_name(topic.name)}
    names = sorted({*server.topics.names, *configured})
    return {
        "configuration": configuration_hash(server),
        "known": len(names),
        "topics": [_in_short(describe_topic(server, name)) for name in names[:MAX_TOPICS_LISTED]],
    }


def describe_topic(server: Server, name: str) -> dict[str, Any]:
    """All that applies to one topic, known or not."""
    topic_id, habits = server.topics.id_of(name), server.features.producer_habits
    interception = server.features.interception
    return {
        "topic": name,
        "topic_id": urlsafe_b64encode(topic_id).rstrip(b"=").decode() if topic_id != NO_ID else None,
        "validation": _validation(server, name, topic_id),
        "interceptors": interception.describe_topic(name) if interception is not None else [],
        "producers": habits.describe_topic(name) if habits is not None else [],
    }


def configuration_hash(server: Server) -> str:
    """A hash of the sections that a reload applies: equal in sidecars that do the same."""
    from kafka_sidecar.proxy.features.validation.rules import hash_of

    sections = server.features.applied.model_dump(mode="json", include=set(RELOADED), fallback=str)
    return hash_of(hide_secrets(sections))


def _validation(server: Server, name: str, topic_id: bytes) -> dict[str, Any]:
    validator = server.features.validator
    if validator is None:
        return {"policies": [], "why": "no policies are configured"}
    from kafka_sidecar.proxy.features.validation.rules import describe_applied

    try:
        applied = validator.rules.of(name, topic_id)
    except ValueError as error:  # a string that no policy understands
        return {"policies": [], "why": f"its record.validation.policy is invalid on this sidecar: {error}"}
    return describe_applied(applied) if applied else {"policies": [], "why": validator.rules.why_none(name)}


def _in_short(topic: dict[str, Any]) -> dict[str, Any]:
    shown = ("record.validation.policy", "mode", "source", "hash", "why")
    validation = {name: topic["validation"][name] for name in shown if name in topic["validation"]}
    return {**topic, "validation": validation, "interceptors": [one["name"] for one in topic["interceptors"]]}
