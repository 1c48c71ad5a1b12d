"""Conditions on records, in the Common Expression Language (docs/decisions/0008-cel.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from kafka_sidecar.plugins.settings import Settings, quote, read_settings
from kafka_sidecar.policies.contract import ALL, Hints, InvalidRecordError, RecordValidationPolicy, TopicMetadata

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Record

try:
    from cel_expr_python import cel
except ImportError:  # an extra: it is as large as all other dependencies together
    cel = None

NOT_INSTALLED = "CEL is not installed; in a clone, pip install '.[cel]'"
UNSATISFIED = "Topic %s requires records to satisfy: %s"
NOT_JSON = "Topic %s requires record values to be JSON"
NO_TIME = "Topic %s requires record timestamps within the years 1970 to 9999"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME = 253_402_300_799_999  # the last millisecond of 9999


def _text(data: bytes | None) -> str | bytes | None:
    """Text if the data is UTF-8, else bytes: CEL compares text with text and bytes with bytes."""
    try:
        return data if data is None else data.decode()
    except UnicodeDecodeError:
        return data


def _headers(topic: TopicMetadata, record: Record) -> dict[str, list[str | bytes | None]]:
    headers: dict[str, list[str | bytes | None]] = {}
    for header in record.headers:
        headers.setdefault(header.key_bytes.decode(errors="replace"), []).append(_text(header.value))
    return headers


def _value(topic: TopicMetadata, record: Record) -> Any:
    value = record.value
    try:
        return None if value is None else orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise InvalidRecordError(NOT_JSON % topic.topic, "not_json") from error


def _timestamp(topic: TopicMetadata, record: Record) -> datetime:
    if not 0 <= record.timestamp <= LAST_TIME:
        raise InvalidRecordError(NO_TIME % topic.topic, "no_timestamp")
    return EPOCH + timedelta(milliseconds=record.timestamp)


@dataclass(frozen=True, slots=True)
class Variable:
    """One name that expressions can use."""

    type: Callable[[], Any]
    hints: Hints
    read: Callable[[TopicMetadata, Record], object]


VARIABLES = {
    "topic": Variable(lambda: cel.Type.STRING, Hints(), lambda topic, record: topic.topic),
    "partition": Variable(lambda: cel.Type.INT, Hints(), lambda topic, record: topic.partition),
    "key": Variable(lambda: cel.Type.DYN, Hints(access_key_bytes=ALL), lambda topic, record: _text(record.key)),
    "value": Variable(lambda: cel.Type.DYN, Hints(access_value_bytes=ALL), _value),
    "headers": Variable(
        lambda: cel.Type.Map(cel.Type.STRING, cel.Type.List(cel.Type.DYN)), Hints(access_headers=True), _headers
    ),
    "timestamp": Variable(lambda: cel.Type.TIMESTAMP, Hints(access_metadata=True), _timestamp),
}


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression and the variables that it uses."""

    expression: Any
    used: Mapping[str, Variable]

    @property
    def hints(self) -> Hints:
        needed = Hints()
        for variable in self.used.values():
            needed |= variable.hints
        return needed


@lru_cache(256)
def compile_program(text: str) -> Program:
    """An expression, compiled and checked against the types of the variables.

    Raises:
        ValueError: the expression is not valid CEL, uses an unknown name, or its result is not a boolean; or CEL is
            not installed.
    """
    if cel is None:
        raise ValueError(NOT_INSTALLED)
    expression = _compile(text, VARIABLES)
    if expression.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise ValueError(f"{quote(text)} returns {expression.return_type().name()}: write a condition, true or false")
    return Program(expression, {name: about for name, about in VARIABLES.items() if _uses(text, name)})


def _compile(text: str, variables: Mapping[str, Variable]) -> Any:
    environment = cel.NewEnv(variables={name: variable.type() for name, variable in variables.items()})
    try:
        return environment.compile(text)
    except RuntimeError as error:
        detail = str(error).partition("ERROR: <input>:")[2] or str(error)
        raise ValueError(f"{quote(text)} is not valid CEL: {detail.splitlines()[0]}") from error


def _uses(text: str, name: str) -> bool:
    """Whether an expression uses a variable: without it, the expression does not compile."""
    try:
        _compile(text, {other: variable for other, variable in VARIABLES.items() if other != name})
    except ValueError:
        return True
    return False


class CelSettings(Settings):
    expression: str | None = None
    """The condition; if not set, the policy's argument is."""
    message: str | None = None
    """The message for the client if the condition is false. Default: the condition."""


class Cel(RecordValidationPolicy):
    """The expression is true for every record; one that it cannot be evaluated for is rejected."""

    settings = CelSettings()
    records_at_once = 20  # a condition with loops can take a millisecond per record
    bytes_at_once = 128 << 10  # JSON becomes objects, at up to 150 ns for a byte

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = read_settings(CelSettings, configs)
        if self.settings.expression is not None:
            compile_program(self.settings.expression)

    def hints(self) -> Hints:
        if self.settings.expression is not None:
            return compile_program(self.settings.expression).hints
        return RecordValidationPolicy.hints(self)

    def check(self, text: str) -> None:
        if bool(text) == bool(self.settings.expression):
            raise ValueError('write one condition, under policies: as expression or in the topic as cel:"..."')
        compile_program(text or self.settings.expression or "")

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        text = self.settings.expression or topic.validation_policy
        condition = compile_program(text)
        values = {name: variable.read(topic, record) for name, variable in condition.used.items()}
        try:
            result = condition.expression.eval(data=values)
        except RuntimeError as error:  # more steps than CEL's budget, or a value that it cannot convert
            raise InvalidRecordError(self._message(topic, text), "not_evaluated") from error
        if result.value() is True:
            return
        if result.type() == cel.Type.ERROR:
            raise InvalidRecordError(self._message(topic, text), "not_evaluated")
        raise InvalidRecordError(self._message(topic, text), "condition")

    def _message(self, topic: TopicMetadata, text: str) -> str:
        return self.settings.message or UNSATISFIED % (topic.topic, text)
