"""A broker with a sidecar in front that lets only some records pass."""

from __future__ import annotations

from dataclasses import dataclass

from integration.front import Front

# Topics are named after what holds for them.
RULES = """
policies:
  few-records: {type: limits, max_records: 1000}
topics:
  - {name: "header-*", policy: "require_header:h"}
  - {name: "count-*", policy: few-records}
validation:
  max_batch: 16MiB
"""
MAX_BATCH = 16 << 20


def required(topic: str, header: str = "h") -> str:
    """The error message for a record without the header."""
    return f"Topic {topic} requires records to contain a header with key: {header}"


@dataclass(frozen=True, slots=True)
class Guarded(Front):
    """What stands in front lets only such records pass."""
