"""The policies of a topic as they apply, for a person: where they are from, and how they are configured."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from kafka_sidecar.plugins.settings import Settings
from kafka_sidecar.policies.contract import ALL, Hints
from kafka_sidecar.policies.plans import Rule
from kafka_sidecar.proxy.features.validation.rules import Applied
from kafka_sidecar.proxy.telemetry.hidden_settings import hide_secrets

HASH_DIGITS = 12


def describe_applied(applied: Applied) -> dict[str, Any]:
    """What holds for a topic. The hash is equal where all else but the source is equal, in any sidecar."""
    effective = {
        "record.validation.policy": applied.text,
        "mode": applied.mode,
        "percent": applied.percent,
        "policies": [describe_rule(rule) for rule in applied.plan.rules],
    }
    return {"source": applied.source, "hash": hash_of(effective), **effective}


def hash_of(value: object) -> str:
    """The first digits of a hash of a JSON value.

    >>> hash_of({"b": 1, "a": None}) == hash_of({"a": None, "b": 1})
    True
    """
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:HASH_DIGITS]


def describe_rule(rule: Rule) -> dict[str, Any]:
    """One policy of a topic. Built-in policies have all their settings, others those that they were given."""
    own = getattr(rule.policy, "settings", None)
    settings = own.model_dump(mode="json", fallback=str) if isinstance(own, Settings) else dict(rule.settings)
    return {
        "name": rule.name,
        "class": f"{type(rule.policy).__module__}:{type(rule.policy).__qualname__}",
        "argument": rule.text,
        "on_error": "open" if rule.fail_open else "closed",
        "reads": parts_read(rule.hints),
        "settings": hide_secrets(settings),
    }


def parts_read(hints: Hints) -> str:
    """The parts of a record that a policy looks at."""
    sizes = {"key": hints.access_key_bytes, "value": hints.access_value_bytes}
    parts = [f"the {part}" if size == ALL else f"{size} bytes of the {part}" for part, size in sizes.items() if size]
    parts += ["headers"] if hints.access_headers else []
    parts += ["sizes and timestamps"] if hints.access_metadata else []
    return ", ".join(parts) or "the batch header only, without decompression"
