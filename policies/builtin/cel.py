"""Conditions on records, in the Common Expression Language (docs/decisions/0008-cel.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import orjson
from pydantic import Field

from kafka_sidecar.plugins.settings import Settings, quote, read_settings
from kafka_sidecar.policies.contract import (
    ALL,
    Hints,
    InvalidRecordError,
    RecordValidationPolicy,
    TopicMetadata,
    UnavailableError,
    Unresolved,
)
from kafka_sidecar.schemas.json_schema import JsonSchema
from kafka_sidecar.schemas.language import NotOfSchemaError
from kafka_sidecar.schemas.own_process import SHARED, TookTooLongError
from kafka_sidecar.schemas.registry import NotFetchedError, RegistryError
from kafka_sidecar.schemas.sources import (
    PREFIX_BYTES,
    FindHeader,
    NoSchemaError,
    SchemaSettings,
    SchemaSource,
    UnknownSchemaError,
    begins_with_id,
    open_source,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Record

try:
    from cel_expr_python import cel
except ImportError:  # an extra: it is as large as all other dependencies together
    cel = None

NOT_INSTALLED = "CEL is not installed; in a clone, pip install '.[cel]'"
NO_PROTOBUF = "schema: needs the library protobuf; in a clone, pip install '.[schemas]'"
UNSATISFIED = "Topic %s requires records to satisfy: %s"
NOT_JSON = "Topic %s requires record values to be JSON"
UNLIKE = "Topic %s requires record %ss to be of the schema %s: %s"
NO_SCHEMA = "Topic %s requires record %ss of a known schema, but one %s"
NO_ID = "Topic %s requires record values to begin with the id of a schema"
NO_TIME = "Topic %s requires record timestamps within the years 1970 to 9999"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DEPTH = 128  # levels of a value
MAX_PROGRAMS = 1024  # that are kept compiled, of arguments: as many as there are plans of topics
# The library holds the interpreter while it takes over a record and evaluates: 0.5 ms for 16 KiB, 1.3 ms if it is deep.
MAX_HERE = 16 << 10  # bytes
# With loops, the time grows with the square of the size, up to 10,000 steps: 4 ms for 1 KiB, 1 s for 16 KiB.
MAX_HERE_LOOPS = 1 << 10
_LOOPS = re.compile(r"\b(?:all|exists|exists_one|filter|map)\b")
HEADER_BYTES = 16  # that a header counts beside its bytes
LAST_TIME = 253_402_300_799_999  # the last millisecond of 9999


class Raw(NamedTuple):
    """What a variable is made of, as the record has it. Making it of a large record takes long."""

    make: Callable[[Any], object]  # a function of this module: another process finds it by its name
    data: Any
    size: int = 0  # bytes


def _same(value: object) -> object:
    return value


def _text(data: bytes | None) -> Any:
    """Text if the data is UTF-8, else bytes: CEL compares text with text and bytes with bytes."""
    if data is None:
        return None
    try:
        found: str | bytes = data.decode()
    except UnicodeDecodeError:
        found = data
    return _in_cel().of(found) if b"\0" in data else found


def _json(text: bytes | None) -> Any:
    if text is None:
        return None
    found = orjson.loads(text)
    return _in_cel().of(found) if rb"\u0000" in text else found


def _all_headers(found: list[tuple[bytes, bytes | None]]) -> dict[str, list[Any]]:
    headers: dict[str, list[Any]] = {}
    for key, value in found:
        headers.setdefault(_name(key.decode(errors="replace")), []).append(_text(value))
    return headers


def _name(text: str) -> str:
    """A key of a map. Raises ValueError: the library would read it up to the NUL in it."""
    if "\0" in text:
        raise ValueError("a NUL in the key of a map")
    return text


def _time(milliseconds: int) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def _key(topic: TopicMetadata, record: Record) -> Raw:
    key = record.key
    return Raw(_text, key, len(key or b""))


def _value(topic: TopicMetadata, record: Record) -> Raw:
    return _json_of(record.value)


def _json_of(text: bytes | None) -> Raw:
    return Raw(_json, text, len(text or b""))


def _headers(topic: TopicMetadata, record: Record) -> Raw:
    found = [(header.key_bytes, header.value) for header in record.headers]
    return Raw(_all_headers, found, sum(HEADER_BYTES + len(key) + len(value or b"") for key, value in found))


def _timestamp(topic: TopicMetadata, record: Record) -> Raw:
    if not 0 <= record.timestamp <= LAST_TIME:
        raise InvalidRecordError(NO_TIME % topic.topic, "no_timestamp")
    return Raw(_time, record.timestamp)


ReadRaw = Callable[[TopicMetadata, "Record"], Raw]


@dataclass(frozen=True, slots=True)
class Variable:
    """One name that expressions can use."""

    type: Callable[[], Any]
    hints: Hints
    read: ReadRaw


VARIABLES = {
    "topic": Variable(lambda: cel.Type.STRING, Hints(), lambda topic, record: Raw(_same, topic.topic)),
    "partition": Variable(lambda: cel.Type.INT, Hints(), lambda topic, record: Raw(_same, topic.partition)),
    "key": Variable(lambda: cel.Type.DYN, Hints(access_key_bytes=ALL), _key),
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
    max_here: int  # bytes of a record that it is evaluated for in this process

    @property
    def hints(self) -> Hints:
        needed = Hints()
        for variable in self.used.values():
            needed |= variable.hints
        return needed


@lru_cache(MAX_PROGRAMS)
def compile_program(text: str) -> Program:
    """An expression, compiled and checked against the types of the variables.

    Raises:
        ValueError: the expression is not valid CEL, uses an unknown name, or its result is not a boolean; or CEL is
            not installed.
    """
    if cel is None:
        raise ValueError(NOT_INSTALLED)
    expression = _compile(text)
    if expression.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise ValueError(f"{quote(text)} returns {expression.return_type().name()}: write a condition, true or false")
    used = {name: about for name, about in VARIABLES.items() if _uses(text, name)}
    return Program(expression, used, MAX_HERE_LOOPS if _LOOPS.search(text) else MAX_HERE)


@cache
def _environment(without: str = "") -> Any:
    """The variables, or all but one; making one takes as long as compiling five expressions."""
    return cel.NewEnv(variables={name: about.type() for name, about in VARIABLES.items() if name != without})


def _compile(text: str, without: str = "") -> Any:
    try:
        return _environment(without).compile(text)
    except RuntimeError as error:
        detail = str(error).partition("ERROR: <input>:")[2] or str(error)
        raise ValueError(f"{quote(text)} is not valid CEL: {detail.splitlines()[0]}") from error


def _uses(text: str, name: str) -> bool:
    """Whether an expression uses a variable: without it, the expression does not compile."""
    if name not in text:
        return False
    try:
        _compile(text, name)
    except ValueError:
        return True
    return False


def evaluate(program: Program, raw: Mapping[str, Raw]) -> str | None:
    """Why a record is rejected: one of the policy's reasons; None: the condition is true."""
    try:
        values = {name: make(data) for name, (make, data, _) in raw.items()}
    except orjson.JSONDecodeError:
        return "not_json"
    except ValueError:  # it has a NUL where CEL cannot be given one
        return "not_evaluated"
    try:
        result = program.expression.eval(data=values)
    except RuntimeError:  # more steps than CEL's budget, or a value that it cannot convert
        return "not_evaluated"
    if result.value() is True:
        return None
    return "not_evaluated" if result.type() == cel.Type.ERROR else "condition"


def _evaluate_there(text: str, raw: Mapping[str, Raw]) -> str | None:
    return evaluate(compile_program(text), raw)


class _InCel:
    """Makes values those that CEL takes: it has its own times, which are messages of Protobuf.

    So are texts and bytes with a NUL in them: of Python's, the library reads what is before it.
    """

    def __init__(self) -> None:
        try:
            wrappers = import_module("google.protobuf.wrappers_pb2")
            self._string, self._bytes = wrappers.StringValue, wrappers.BytesValue
            self._timestamp = import_module("google.protobuf.timestamp_pb2").Timestamp
            self._duration = import_module("google.protobuf.duration_pb2").Duration
        except ImportError as error:  # an extra
            raise ValueError(NO_PROTOBUF) from error

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._string(value=value) if "\0" in value else value
        if kind is bytes:
            return self._bytes(value=value) if b"\0" in value else value
        if kind is dict:
            return {_name(name) if type(name) is str else name: self.of(one) for name, one in value.items()}
        if kind is list:
            return [self.of(one) for one in value]
        if kind is datetime:
            made = self._timestamp()
            made.FromDatetime(value)
            return made
        if kind is timedelta:
            made = self._duration()
            made.FromTimedelta(value)
            return made
        return value


@cache
def _in_cel() -> _InCel:
    return _InCel()


def _of_schema(value: Any) -> Any:
    return _in_cel().of(value)


class CelSettings(Settings):
    expression: str | None = None
    """The condition; if not set, the policy's argument is."""
    message: str | None = None
    """The message for the client if the condition is false. Default: the condition."""
    schema_: SchemaSettings | None = Field(default=None, alias="schema")
    """The schema of values, whose types expressions then see: `{language: avro, file: order.avsc}` or `{registry: NAME}`. Without it, values are JSON."""  # noqa: E501
    key_schema: SchemaSettings | None = None
    """The same for keys. Without it, keys are text or bytes."""
    prefix: Literal["none", "confluent"] = "none"
    """What precedes the data of values that are JSON or whose schema is in a file, and of such keys: nothing, or a schema's id as Confluent's serializers write it, which is not looked up."""  # noqa: E501


def _json_after_id(topic: TopicMetadata, record: Record) -> Raw:
    value = record.value
    if value is not None and not begins_with_id(value):
        raise InvalidRecordError(NO_ID % topic.topic, "no_schema_id")
    return _json_of(None if value is None else value[PREFIX_BYTES:])


def _header_of(record: Record) -> FindHeader:
    def value_of(name: str) -> bytes | None:
        header = record.header(name)
        return None if header is None else header.value

    return value_of


class Cel(RecordValidationPolicy):
    """The expression is true for every record; one that it cannot be evaluated for is rejected."""

    settings = CelSettings()
    records_at_once = 20  # a condition with loops can take a millisecond per record
    bytes_at_once = 128 << 10  # JSON becomes objects, at up to 150 ns for a byte

    def __init__(self) -> None:
        self._sources: dict[str, SchemaSource] = {}
        self._reads: dict[str, ReadRaw] = {}
        self._program: Program | None = None  # of the setting; those of arguments are few

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(CelSettings, configs)
        has_prefix = own.prefix == "confluent"
        named = {"value": own.schema_, "key": own.key_schema}
        self._sources = {
            name: open_source(settings, has_prefix, name == "key") for name, settings in named.items() if settings
        }
        self._reads = {name: partial(self._decode, name, source) for name, source in self._sources.items()}
        if self._sources:
            _in_cel()  # a library that is missing is reported at the start
        if has_prefix:
            self._reads.setdefault("value", _json_after_id)
        if self.settings.expression is not None:
            self._program = compile_program(self.settings.expression)

    def hints(self) -> Hints:
        if self._program is not None:
            hints = self._program.hints
            has_ids = any(source.schema is None for source in self._sources.values())
            return hints | Hints(access_headers=True) if has_ids and hints.access_contents else hints
        return RecordValidationPolicy.hints(self)

    def check(self, text: str) -> None:
        if bool(text) == bool(self.settings.expression):
            raise ValueError('write one condition, under policies: as expression or in the topic as cel:"..."')
        compile_program(text or self.settings.expression or "")

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        text = self.settings.expression or topic.validation_policy
        condition = self._program or compile_program(text)
        reads = self._reads
        raw, size = {}, 0
        for name, variable in condition.used.items():
            raw[name] = one = reads.get(name, variable.read)(topic, record)
            size += one.size
        try:
            is_small = size <= condition.max_here
            reason = evaluate(condition, raw) if is_small else SHARED.call(_evaluate_there, text, raw)
        except TookTooLongError as error:
            message = f"{self._message(topic, text)}: not evaluated, it takes {error}"
            raise InvalidRecordError(message, "not_evaluated") from error
        if reason == "not_json":
            raise InvalidRecordError(NOT_JSON % topic.topic, "not_json")
        if reason == "not_evaluated":
            raise InvalidRecordError(self._message(topic, text), "not_evaluated")
        if reason is not None:
            raise InvalidRecordError(self._message(topic, text), "condition")

    def files(self) -> Iterable[Path]:
        return [file for source in self._sources.values() for file in source.files]

    async def resolve(self, key: object) -> None:
        assert isinstance(key, tuple)
        part, question = key
        await self._sources[part].fetch(question)

    def _decode(self, part: str, source: SchemaSource, topic: TopicMetadata, record: Record) -> Raw:
        data = record.key if part == "key" else record.value
        if data is None:
            return Raw(_same, None)
        try:
            schema, start, framed, _ = source.find(data, _header_of(record))
        except UnknownSchemaError as error:
            raise InvalidRecordError(NO_SCHEMA % (topic.topic, part, error), "unknown_schema") from error
        except NoSchemaError as error:
            raise InvalidRecordError(NO_SCHEMA % (topic.topic, part, error), "no_schema_id") from error
        except NotFetchedError as error:
            raise Unresolved((part, error.question)) from error
        except RegistryError as error:
            raise UnavailableError(str(error)) from error
        try:
            if isinstance(schema, JsonSchema) and len(data) > MAX_HERE:  # it decodes by parsing all of the text
                fault = schema.find_fault(data, start, len(data), MAX_DEPTH)
                if fault is not None:
                    raise NotOfSchemaError(fault)
                return _json_of(data[start:])
            return Raw(_of_schema, schema.decode(data, start, len(data), MAX_DEPTH, framed), len(data))
        except ValueError as error:
            raise InvalidRecordError(UNLIKE % (topic.topic, part, schema.name, error), "not_of_schema") from error

    def _message(self, topic: TopicMetadata, text: str) -> str:
        return self.settings.message or UNSATISFIED % (topic.topic, text)
