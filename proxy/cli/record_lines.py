"""Records in the input of `policy test` and `interceptor test`: one JSON object per line."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from kafka_sidecar.codec.records import Header
from kafka_sidecar.policies.testing import Example
from kafka_sidecar.proxy.cli.output import exit_with_error

FIELDS = {"key", "key_base64", "value", "value_base64", "headers", "timestamp"}
BASE64 = "base64"


class BadExampleError(ValueError):
    """A line is not a record; the text has the reason."""


def read_examples(file: str) -> Iterator[tuple[int, Example]]:
    """The line number and record of each line of a file, or of standard input (-); exits with code 2 at a bad one."""
    number, found = 0, False
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    found = True
                    yield number, parse_example(line)
    except OSError as error:
        exit_with_error(f"{file}: cannot be read: {error.strerror}")
    except BadExampleError as error:
        exit_with_error(f"{file}:{number}: {error}")
    if not found:
        exit_with_error(f"{file}: has no records: write one JSON object a line")


def format_record(key: bytes | None, value: bytes | None, headers: Iterable[Header]) -> str:
    """A record as `parse_example` reads it, without its timestamp.

    >>> format_record(b"k", b"\\xff", [Header("h", b"v"), Header("h", None)])
    '{"key": "k", "value_base64": "/w==", "headers": [["h", "v"], ["h", null]]}'
    """
    pairs = [[header.key, _text_or_base64(header.value)] for header in headers]
    parts = _part_of("key", key) | _part_of("value", value) | {"headers": pairs}
    return json.dumps(parts, ensure_ascii=False).encode(errors="backslashreplace").decode()


def _part_of(name: str, data: bytes | None) -> dict[str, object]:
    shown = _text_or_base64(data)
    return {f"{name}_{BASE64}": shown[BASE64]} if isinstance(shown, dict) else {name: shown}


def _text_or_base64(data: bytes | None) -> str | dict[str, str] | None:
    try:
        return data.decode() if data is not None else None
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(data or b"").decode()}


def parse_example(line: str | bytes) -> Example:
    """The record of a line.

    A string is encoded as UTF-8, null is null, anything else is encoded as its JSON text.

    >>> parse_example('{"key": "k", "value": {"a": 1}, "headers": {"h": "v"}, "timestamp": 5}')
    Example(value=b'{"a":1}', key=b'k', headers=[('h', b'v')], timestamp=5)

    Raises:
        BadExampleError: the line is not a record.
    """
    try:
        given = json.loads(line if isinstance(line, str) else line.decode())
    except (ValueError, RecursionError) as error:
        raise BadExampleError(f"is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise BadExampleError('is not an object: write {"key": "k", "value": "v", "headers": {"h": "v"}}')
    if unknown := sorted(given.keys() - FIELDS):
        raise BadExampleError(
            f"{', '.join(unknown)}: not a field of a record; the fields are {', '.join(sorted(FIELDS))}"
        )
    timestamp = given.get("timestamp", 0)
    if not isinstance(timestamp, int) or isinstance(timestamp, bool) or not -(1 << 63) <= timestamp < 1 << 63:
        raise BadExampleError("timestamp: write milliseconds since 1970")
    return Example(_part(given, "value"), _part(given, "key"), _headers(given.get("headers", {})), timestamp)


def _part(given: dict[str, Any], name: str) -> bytes | None:
    encoded = f"{name}_{BASE64}"
    if encoded not in given:
        return _bytes(given.get(name))
    if name in given:
        raise BadExampleError(f"{name} is given twice: write {name} or {encoded}")
    return _decode(given[encoded], encoded)


def _headers(given: object) -> list[tuple[str | bytes, bytes | None]]:
    """Headers of an object, or of a list of pairs, in which a key may occur several times."""
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list):
        raise BadExampleError('headers: write {"key": "value"} or [["key", "value"]]')
    headers: list[tuple[str | bytes, bytes | None]] = []
    for pair in pairs:
        match pair:
            case (str(key), {"base64": encoded, **rest}) | [str(key), {"base64": encoded, **rest}] if not rest:
                headers.append((key, _decode(encoded, f"headers: {key}")))
            case (str(key), value) | [str(key), value]:
                headers.append((key, _bytes(value)))
            case _:
                raise BadExampleError('headers: write {"key": "value"} or [["key", "value"]]')
    return headers


def _bytes(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode("utf-8", "surrogatepass")
        case _:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _decode(value: object, name: str) -> bytes:
    try:
        return base64.b64decode(value if isinstance(value, str) else "?", validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadExampleError(f"{name}: is not base64") from error
