"""Batches of 1 MB that cost the most of schemas: many patterns for each name, elements compared with each other, and
values of Avro that take no bytes."""

from __future__ import annotations

import json
from pathlib import Path

from integration.validation.batches import batch, record

from hostile.attacks import MB, Attack, sends
from hostile.wire import produce

PATTERNS = {f"^x{number}[0-9]*(a|b)?$": {"type": "integer"} for number in range(100)}
COSTLY = {
    "type": "object",
    "properties": {"unique": {"type": "array", "uniqueItems": True}},
    "patternProperties": PATTERNS,
}
NULLS = {
    "type": "record", "name": "Nulls", "fields": [
        {"name": "nulls", "type": {"type": "array", "items": "null"}},
        {"name": "next", "type": ["null", "Nulls"]}],
}  # fmt: skip
TOPICS = ("costly", "nulls")


def configured(folder: Path) -> tuple[str, str]:
    """What is added to the policies, and to the topics, of the sidecar's configuration."""
    (folder / "costly.json").write_text(json.dumps(COSTLY))
    (folder / "nulls.avsc").write_text(json.dumps(NULLS))
    policies = f"""  costly: {{type: json_schema, file: {folder}/costly.json}}
  nulls: {{type: avro, file: {folder}/nulls.avsc}}
"""
    return policies, "".join(f"  - {{name: {topic}, policy: {topic}}}\n" for topic in TOPICS)


def names() -> bytes:
    """80,000 names, each compared with a hundred patterns."""
    return json.dumps({f"x{number}": 1 for number in range(80_000)}, separators=(",", ":")).encode()[: MB - 100]


def unique() -> bytes:
    return json.dumps({"unique": [{"a": number} for number in range(80_000)]}, separators=(",", ":")).encode()


def many_nulls() -> bytes:
    """As many arrays of nulls inside each other as are allowed, and in the last of them two thousand million nulls."""
    return b"\0\2" * 100 + b"\xfe\xff\xff\xff\x0f"


def values(topic: bytes, value: bytes) -> bytes:
    return produce([(topic, [(0, batch(record(0, value, (), key=None), 1))])])


SCHEMAS = (
    Attack("70: JSON Schema, 80,000 names and 100 patterns, on 8 connections",
           sends(lambda: values(b"costly", names()), 8, 20)),
    Attack("71: JSON Schema, 80,000 objects that must differ, on 8 connections",
           sends(lambda: values(b"costly", unique()), 8, 20)),
    Attack("72: Avro, 2,000,000,000 nulls in five bytes, on 8 connections",
           sends(lambda: values(b"nulls", many_nulls()) * 20, 8, 20)),
)  # fmt: skip
