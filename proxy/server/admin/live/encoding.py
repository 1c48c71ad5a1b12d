"""A snapshot as JSON: parts are encoded once, and composed for all readers who want the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

DELETE = b"\x7f"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A snapshot as it is sent."""

    line: bytes  # of JSON
    event: bytes  # the same as a Server-Sent Event
    has_rates: bool


def encoded(members: Iterable[bytes], has_rates: bool) -> Encoded:
    """A snapshot of these members.

    >>> encoded([members_of({"open": 1}), members_of({"rows": []})], True).event
    b'event: snapshot\\ndata: {"open":1,"rows":[]}\\n\\n'
    """
    line = b"{%b}" % b",".join(members)
    return Encoded(line, b"event: snapshot\ndata: %b\n\n" % line, has_rates)


def members_of(value: Mapping[str, Any]) -> bytes:
    """An object as JSON, without its braces, in ASCII: names that clients choose do nothing to a terminal."""
    return encode(value)[1:-1]


def encode(value: Mapping[str, Any]) -> bytes:
    """JSON in ASCII. orjson takes a tenth of the time, and nearly always can: most names are no other text."""
    try:
        found = orjson.dumps(value)
    except TypeError:
        return json.dumps(value).encode()
    return found if found.isascii() and DELETE not in found else json.dumps(value).encode()


def decode(data: bytes) -> Any:
    """What was encoded."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # escapes of what is not UTF-8
        return json.loads(data)
