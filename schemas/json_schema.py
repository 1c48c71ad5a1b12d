"""JSON Schema (drafts 4, 6, 7, 2019-09 and 2020-12), by jsonschema-rs.

Nothing is retrieved: a ``$ref`` leads to the schema itself or to a document that was given with it. Patterns run in
linear time, so those with look-around are refused. Texts are checked for their syntax and depth before they are parsed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import orjson

from kafka_sidecar.codec.json.syntax import find_fault
from kafka_sidecar.plugins.settings import quote
from kafka_sidecar.schemas.json_graph import can_multiply
from kafka_sidecar.schemas.json_paths import JsonPaths, NotReadableError
from kafka_sidecar.schemas.language import NotOfSchemaError
from kafka_sidecar.schemas.masks import Mask, replace_json_fields
from kafka_sidecar.schemas.own_process import SHARED, TookTooLongError

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records

try:
    import jsonschema_rs
except ImportError:  # an extra
    jsonschema_rs = None  # type: ignore[assignment]

NOT_INSTALLED = "JSON Schema is not installed; in a clone, pip install '.[schemas]'"
MAX_DEPTH = 128  # levels of a text, unless a caller says otherwise
MAX_TEXT = 1 << 20  # bytes of a document
MAX_SCHEMA_DEPTH = 200  # levels
# What a keyword's own limit is called by the library; none of them comes from a record.
_LIMITS = ("limit", "property", "types", "multiple_of", "format", "pattern")
# The library holds the interpreter: a value of this size takes it 5 ms with a hundred patterns for each name.
MAX_HERE = 16 << 10  # bytes
MAX_COMPILE_S = 0.01
MAX_SCHEMAS = 256  # that the other process keeps
UNREAD = object()
MAX_SHOWN = 60  # characters of such a limit
MAX_PATH = 200  # characters
Source = tuple[str, tuple[tuple[str, str], ...], bool]  # text, documents by name, whether formats are asserted


class JsonSchemaError(ValueError):
    """An invalid JSON Schema, or one that is not supported. The message is one line."""


@dataclass(frozen=True, slots=True)
class JsonSchemaFault:
    """Why a text does not conform; it quotes nothing that is not in the schema."""

    path: str  # as ``$.items[2].price``; a name that is not in the schema is ``{}``
    rule: str  # keyword and its limit

    def __str__(self) -> str:
        return f"{self.path}: {self.rule}"


class JsonSchema:
    """One schema, with the documents that it refers to."""

    has_types = False

    def __init__(
        self,
        text: str,
        documents: Mapping[str, str] = MappingProxyType({}),
        formats: bool = False,
        is_trusted: bool = True,
    ) -> None:
        """Compile a schema. One that is not trusted is compiled in another process first, so this waits for that.

        Args:
            text: the schema, in JSON.
            documents: others that ``$ref`` may name: by their ``$id``, and relative to the schema's by these names.
                They are of the schema's draft unless they say another.
            formats: whether ``format`` is asserted; else it is an annotation, as JSON Schema 2020-12 has it.
            is_trusted: whether it is the operator's own. Else it may be made to take long, and if it can, it stays in
                the other process, with all its values.

        Raises:
            JsonSchemaError: a document is not a schema, is over a limit, or refers to something that is not there.
        """
        if jsonschema_rs is None:
            raise JsonSchemaError(NOT_INSTALLED)
        schema = _parse(text, "the schema")
        parsed = {name: _of_draft(schema, _parse(document, name)) for name, document in documents.items()}
        own = _id_of(schema)
        named = {urljoin(own, name): document for name, document in parsed.items()}
        named |= {id_: document for document in parsed.values() if (id_ := _id_of(document))}
        title = schema.get("title") if isinstance(schema, dict) else None
        self.title = title if isinstance(title, str) else None
        self.name = (own or self.title or "of the file")[:MAX_SHOWN]
        self._names = frozenset(name for document in (schema, *parsed.values()) for name in _names(document))
        self._source = (text, tuple(documents.items()), formats)
        self._validator: Any = None  # None: values go to the other process
        if is_trusted or (_seconds_to_compile(self._source) <= MAX_COMPILE_S and not can_multiply(schema, named)):
            self._validator = _compile(schema, named, formats)

    def find_faults(
        self, records: Records, of_key: bool, skip: int, max_depth: int, framed: bool = False
    ) -> Iterator[tuple[int, str]]:
        for record in records:
            text = record.key if of_key else record.value
            if text is not None and len(text) >= skip:
                fault = self.fault_of(text[skip:] if skip else text, max_depth)
                if fault is not None:
                    yield record.index, str(fault)

    def find_fault(
        self, data: bytes, start: int, end: int, max_depth: int = MAX_DEPTH, framed: bool = False
    ) -> str | None:
        fault = self.fault_of(data[start:end], max_depth)
        return None if fault is None else str(fault)

    def typed(self, indexes: bytes) -> JsonSchema:
        raise ValueError("JSON Schema has no message indexes")

    def record_name(self, data: bytes, start: int, end: int, framed: bool = False) -> str | None:
        return self.title

    def decode(self, data: bytes, start: int, end: int, max_depth: int, framed: bool = False) -> Any:
        text = data[start:end]
        value, fault = self._checked(text, max_depth)
        if fault is not None:
            raise NotOfSchemaError(str(fault))
        return orjson.loads(text) if value is UNREAD else value

    def replace_fields(
        self, data: bytes, start: int, end: int, paths: JsonPaths, mask: Mask, framed: bool = False
    ) -> bytes:
        try:
            return replace_json_fields(data[start:end], paths, mask)
        except NotReadableError as error:
            raise NotOfSchemaError("$: is not a JSON object or array") from error

    def find_unmaskable(self, paths: JsonPaths, mask: Mask) -> list[str]:
        return []  # a text, or null, takes the place of any value

    def fault_of(self, text: bytes, max_depth: int = MAX_DEPTH) -> JsonSchemaFault | None:
        """Why a text is not JSON, or does not conform; None if it does."""
        return self._checked(text, max_depth)[1]

    def _checked(self, text: bytes, max_depth: int) -> tuple[Any, JsonSchemaFault | None]:
        """The value, if there is no fault; `UNREAD` if it was read in the other process."""
        syntax = find_fault(text, 0, len(text), max_depth)
        if syntax is not None:
            return None, JsonSchemaFault("$", f"not JSON, {syntax}")
        if self._validator is not None and len(text) <= MAX_HERE:
            return self.check_here(text)
        try:
            return UNREAD, SHARED.call(_fault_there, self._source, text)
        except TookTooLongError as error:
            return None, JsonSchemaFault("$", f"not validated, it takes {error}")

    def check_here(self, text: bytes) -> tuple[Any, JsonSchemaFault | None]:
        """The same for well-formed JSON, of a depth that was checked; the interpreter does nothing else meanwhile."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:  # a number that no parser represents
            return None, JsonSchemaFault("$", "not JSON that can be read")
        if self._validator.is_valid(value):
            return value, None
        error = next(iter(self._validator.iter_errors(value)))
        return None, JsonSchemaFault(self._path(error.instance_path), _rule(error))

    def _path(self, parts: list[str | int]) -> str:
        path = "$"
        for part in parts:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if part in self._names else ".{}"
        return path if len(path) <= MAX_PATH else f"{path[:MAX_PATH]}..."


def _compile(schema: Any, documents: Mapping[str, Any], formats: bool) -> Any:
    try:
        registry = jsonschema_rs.Registry(list(documents.items()), retriever=_refuse)
        return jsonschema_rs.validator_for(
            schema, registry=registry, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=formats,
        )  # fmt: skip
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise JsonSchemaError(str(error).splitlines()[0]) from error


@lru_cache(MAX_SCHEMAS)
def _schema_there(source: Source) -> JsonSchema:
    text, documents, formats = source
    return JsonSchema(text, dict(documents), formats)


def _compile_there(source: Source) -> float:
    """The seconds that it takes."""
    began = time.monotonic()
    _schema_there(source)
    return time.monotonic() - began


def _fault_there(source: Source, text: bytes) -> JsonSchemaFault | None:
    return _schema_there(source).check_here(text)[1]


def _seconds_to_compile(source: Source) -> float:
    try:
        return SHARED.call(_compile_there, source)
    except TookTooLongError as error:
        raise JsonSchemaError(f"to compile it takes {error}") from None
    except ValueError as error:
        raise JsonSchemaError(str(error)) from None


def _rule(error: Any) -> str:
    about = {name: value for name, value in error.kind.as_dict().items() if name in _LIMITS}
    limits = [", ".join(value) if isinstance(value, list) else str(value) for value in about.values()]
    shown = ", ".join(limit[:MAX_SHOWN] for limit in limits)
    return f"{error.kind.name} {shown}".rstrip()


def _of_draft(schema: Any, document: Any) -> Any:
    """A document that is of the schema's draft, unless it says another."""
    if isinstance(schema, dict) and isinstance(document, dict) and "$schema" in schema:
        return {"$schema": schema["$schema"], **document}
    return document


def _refuse(uri: str) -> Any:
    raise ValueError(f"{quote(uri)} is not among the documents of this schema")


def _parse(text: str, name: str) -> Any:
    data = text.encode()
    if len(data) > MAX_TEXT:
        raise JsonSchemaError(f"{name} has {len(data)} bytes: at most {MAX_TEXT} are read")
    fault = find_fault(data, 0, len(data), MAX_SCHEMA_DEPTH)
    if fault is not None:
        raise JsonSchemaError(f"{name} is not JSON: {fault}")
    return orjson.loads(data)


def _id_of(document: Any) -> str:
    found = document.get("$id", document.get("id", "")) if isinstance(document, dict) else ""
    return found if isinstance(found, str) else ""


def _names(document: Any) -> Iterator[str]:
    """All names in a schema: those of a record's objects that are among them can be shown."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield name
            yield from _names(value)
    elif isinstance(document, list):
        for value in document:
            yield from _names(value)
