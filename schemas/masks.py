"""Masks: what takes the place of fields that are hidden, in any encoding."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES, join
from kafka_sidecar.codec.wire import Buffer
from kafka_sidecar.schemas.json_paths import JsonPaths

MASK = "***"
NULL = b"null"


@dataclass(frozen=True, slots=True)
class Mask:
    """What takes the place of a field. Where types are fixed, each has a replacement of its own type."""

    text: str | None = MASK  # None: null
    number: int | float = 0
    keep_last: int = 0  # characters of a text that stay readable after the mask

    def of_text(self, text: str) -> str:
        """Of a short text, most would stay readable: nothing of it does."""
        shown = text[-self.keep_last :] if self.keep_last and len(text) >= 2 * self.keep_last else ""
        return (MASK if self.text is None else self.text) + shown


def replace_json_fields(text: bytes, paths: JsonPaths, mask: Mask) -> bytes:
    """A JSON text with a mask in place of the fields that are not null.

    Raises:
        NotReadableError: it is not one well-formed JSON object or array.
    """
    return splice(
        text, 0, len(text), [(*span, json_mask(_read(text, *span, mask), mask)) for span in paths.spans(text)]
    )


def _read(text: bytes, start: int, end: int, mask: Mask) -> bytes:
    """As much of a field as its mask depends on: it may be large."""
    return text[start : end if mask.keep_last else min(end, start + len(NULL) + 1)]


def splice(data: bytes, start: int, end: int, parts: list[tuple[int, int, bytes]]) -> bytes:
    """``data[start:end]`` with other bytes between some positions, which are in order."""
    whole: Buffer = data if end - start < MIN_LARGE_BYTES else memoryview(data)
    done: list[Buffer] = []
    for begin, after, new in parts:
        done += (whole[start:begin], new)
        start = after
    return join((*done, whole[start:end]))


def json_mask(field: bytes, mask: Mask) -> bytes:
    """The replacement of a field. A null stays null, as with Kafka Connect's MaskField."""
    if field == NULL:
        return field
    if not mask.keep_last or field[:1] in b"{[tf":
        return _json(mask.text)
    return _json(mask.of_text(json.loads(field) if field[:1] == b'"' else field.decode()))


def _json(text: str | None) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()
