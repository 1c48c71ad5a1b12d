"""Values and keys that are JSON, as `kafka_sidecar.codec.json.syntax` defines it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isinf
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from kafka_sidecar.codec.json.syntax import MAX_NESTING, find_not_json
from kafka_sidecar.plugins.settings import Settings, read_settings, reject_argument
from kafka_sidecar.policies.contract import ALL, MAX_REJECTIONS, Fault, Hints, RecordValidationPolicy, TopicMetadata
from kafka_sidecar.schemas.own_process import SHARED, TookTooLongError

_EXACT = 2**53 - 1  # the largest integer that every parser keeps (RFC 8259 section 6)


class _DuplicateKeyError(Exception):
    pass


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _DuplicateKeyError


_KEYS = json.JSONDecoder(object_pairs_hook=_once, parse_int=str, parse_float=str)


def has_duplicate_key(text: bytes) -> bool:
    """Whether an object has a duplicate key, however it is escaped. Parsers keep the last, the first, or fail."""
    try:
        _KEYS.decode(text.decode())
    except _DuplicateKeyError:
        return True
    return False


def has_big_number(text: bytes) -> bool:
    """Whether there is a number that a double cannot hold.

    An integer, written without fraction and exponent, beyond 2**53 - 1; or any number that is infinite as a double.
    """
    integers: list[str] = []
    reals: list[str] = []
    json.JSONDecoder(parse_int=integers.append, parse_float=reals.append).decode(text.decode())
    return any(map(_is_inexact, integers)) or any(isinf(float(real)) for real in reals)


def _is_inexact(digits: str) -> bool:
    return len(digits) > len(str(-_EXACT)) or abs(int(digits)) > _EXACT


if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records

NULL = "Topic %s requires record %ss not to be null"
SYNTAX = "Topic %s requires record %ss to be JSON: %s"
DUPLICATE = "Topic %s requires record %ss to be JSON: a key is twice in an object"
NUMBER = "Topic %s requires record %ss to be JSON: a number that a double cannot hold"
UNKNOWN = "Topic %s requires record %ss to be JSON: not evaluated, it takes %s"

Part = Literal["value", "key"]
PARTS: dict[str, tuple[Part, ...]] = {"value": ("value",), "key": ("key",), "both": ("key", "value")}

MAX_PARSED_BYTES = 128 << 10  # of a batch, at once: JSON that becomes objects takes up to 160 ns for a byte
MAX_HERE = 16 << 10  # bytes of one text: the parser holds the interpreter until it has read all of it


class WellFormedJsonSettings(Settings):
    part: Literal["value", "key", "both"] = "value"
    """What must be JSON."""
    allow_null: bool = True
    """Whether null is accepted: a tombstone, or a record without a key. The JSON text `null` is always accepted."""
    unique_keys: bool = False
    """Whether an object with a duplicate key is rejected: parsers keep the first, the last, or fail."""
    exact_numbers: bool = False
    """Whether integers beyond 2^53 - 1 and numbers beyond a double are rejected: parsers change them."""
    max_depth: int = Field(default=128, ge=0, le=MAX_NESTING)
    """How deep arrays and objects may be nested."""


class WellFormedJson(RecordValidationPolicy):
    """The value, the key or both are one well-formed JSON text in UTF-8."""

    settings = WellFormedJsonSettings()
    records_at_once = 10_000  # the loop is compiled

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(WellFormedJsonSettings, configs)
        if self.settings.unique_keys or self.settings.exact_numbers:
            self.bytes_at_once = MAX_PARSED_BYTES

    def hints(self) -> Hints:
        parts = PARTS[self.settings.part]
        return Hints(access_key_bytes=ALL * ("key" in parts), access_value_bytes=ALL * ("value" in parts))

    def check(self, text: str) -> None:
        reject_argument(text)

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterable[Fault]:
        own, parts = self.settings, PARTS[self.settings.part]
        if own.unique_keys or own.exact_numbers or len(parts) > 1:
            return self._find_all(topic.topic, records)
        invalid = self._find_invalid(records, parts[0])
        return [self._fault(topic.topic, parts[0], index, error) for index, error in invalid] if invalid else ()

    def _find_invalid(self, records: Records, part: Part) -> list[tuple[int, str | None]]:
        own = self.settings
        return find_not_json(records, part == "key", own.max_depth, not own.allow_null, MAX_REJECTIONS)

    def _find_all(self, topic: str, records: Records) -> Iterator[Fault]:
        own = self.settings
        for part in PARTS[own.part]:
            invalid = self._find_invalid(records, part)
            for index, error in invalid:
                yield self._fault(topic, part, index, error)
            if own.unique_keys or own.exact_numbers:
                yield from self._ambiguous(topic, records, part, {index for index, _ in invalid})

    def _fault(self, topic: str, part: Part, index: int, error: str | None) -> Fault:
        if error is None:
            return Fault(index, NULL % (topic, part), f"null_{part}")
        return Fault(index, SYNTAX % (topic, part, error), "not_json")

    def _ambiguous(self, topic: str, records: Records, part: Part, invalid: set[int]) -> Iterator[Fault]:
        """Faults of well-formed JSON that parsers treat differently."""
        unique, exact = self.settings.unique_keys, self.settings.exact_numbers
        for record in records:
            text = None if record.index in invalid else record.key if part == "key" else record.value
            if text is None:
                continue
            try:
                if unique and _ask(has_duplicate_key, text):
                    yield Fault(record.index, DUPLICATE % (topic, part), "duplicate_key")
                elif exact and _ask(has_big_number, text):
                    yield Fault(record.index, NUMBER % (topic, part), "big_number")
            except TookTooLongError as error:
                yield Fault(record.index, UNKNOWN % (topic, part, error), "not_evaluated")


def _ask(question: Callable[[bytes], bool], text: bytes) -> bool:
    return question(text) if len(text) <= MAX_HERE else SHARED.call(question, text)
