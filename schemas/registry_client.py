"""What a registry with Confluent's API answers: a few requests, and the schema made of them.

A response is hostile input: each part is checked, references have limits, and nothing is fetched that the registry's
own answer does not name as a subject and a version.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from kafka_sidecar.outbound.http import ClientTls, HttpClient, OutboundError, Response
from kafka_sidecar.outbound.login import Login
from kafka_sidecar.plugins.settings import quote as quoted
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.language import Schema
from kafka_sidecar.schemas.registry import (
    THREADS,
    CompatibleWith,
    Found,
    LatestOf,
    Question,
    RegistryError,
    RegistrySettings,
    RegistryStats,
    SchemaOf,
    VersionsOf,
)

MAX_REFERENCES = 200  # of one schema, all that it refers to directly or not
MAX_REFERENCE_DEPTH = 32
MAX_QUESTION_S = 20.0  # with all references; whoever asks does not wait so long, and asks again
MAX_TEXT_KEPT = 64 << 10  # characters
MAX_TEXTS = 500  # of versions that schemas refer to
MAX_VERSIONS = 10_000  # of one id
MAX_CONTEXTS = 16  # in which a GUID is looked for
MAX_SHOWN = 200  # characters of what a registry or a parser says
# The memory that a schema takes here, as measured: bytes for each of its text, and besides.
MEMORY: Mapping[str, tuple[int, int]] = {"AVRO": (8, 2 << 10), "JSON": (24, 16 << 10), "PROTOBUF": (24, 16 << 10)}
NOT_THERE = (40401, 40402, 40403)  # error codes: subject, version, schema
ACCEPT = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
OUTAGES = ("unreachable", "timeout", "unavailable", "login")


@dataclass(slots=True)
class Sources:
    """The texts of one schema: its own, and by name those that it refers to."""

    language: str
    text: str
    references: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.references.values()))


class Link:
    """Requests to one registry: its login, limits and counts."""

    def __init__(self, settings: RegistrySettings, stats: RegistryStats) -> None:
        """Raises ValueError: a file of TLS cannot be used."""
        login: dict[str, Any] = dict(settings.login)
        tls = ClientTls(**dict(settings.tls))
        self._http = HttpClient(settings.urls, settings.timeout_s, settings.max_bytes, tls, THREADS)
        self._login = Login(**login, timeout_s=settings.timeout_s)
        self._headers = {**ACCEPT, **dict(settings.headers)}
        self._stats = stats

    def close(self) -> None:
        self._http.close()

    def request(self, path: str, until: float, body: bytes | None = None) -> Response:
        """A response that is no failure: 200, or a 4xx that says something about what was asked.

        Raises RegistryError.
        """
        began, outcome = time.monotonic(), "unreachable"
        try:
            response = self._send(path, until, body)
            outcome = "ok" if response.status == 200 else "missing" if response.status == 404 else "rejected"
        except OutboundError as error:
            outcome = error.outcome
            raise RegistryError(str(error), outcome in OUTAGES) from None
        finally:
            self._stats.add(outcome, time.monotonic() - began)
        if response.status == 401:
            self._login.forget()
            raise RegistryError(f"{response.url} responds with 401: see username, token_file or token_endpoint", True)
        if 300 <= response.status < 400:
            text = f"{response.url} responds with {response.status}: redirects are not followed, correct urls"
            raise RegistryError(text, True)
        return response

    def _send(self, path: str, until: float, body: bytes | None) -> Response:
        headers = {**self._headers, **self._login.headers()}
        if body is None:
            return self._http.request("GET", path, headers, until=until)
        headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        return self._http.request("POST", path, headers, body, until)


class ConfluentRegistry:
    """Answers questions, in the thread of the caller."""

    def __init__(self, settings: RegistrySettings, link: Link) -> None:
        self._settings = settings
        self._link = link
        self._referred: OrderedDict[str, Mapping[str, Any]] = OrderedDict()  # answers, of versions that never change

    def __call__(self, question: Question) -> Found:
        """Raises RegistryError."""
        until = time.monotonic() + MAX_QUESTION_S
        match question:
            case SchemaOf(schema_id):
                return self._schema(schema_id, until)
            case VersionsOf(schema_id):
                return Found(frozenset(self._versions(schema_id, until)))
            case LatestOf(subject):
                return Found(self._latest(subject, until))
            case CompatibleWith(subject, schema_id):
                return Found(self._is_compatible(subject, schema_id, until))

    def _schema(self, schema_id: SchemaId, until: float) -> Found:
        found = self._get(self._path_of(schema_id), until)
        if found is None:
            return Found(None)
        context = schema_id.context or self._settings.context
        language = _text(found, "schemaType", "AVRO")
        if language == "PROTOBUF":
            found = self._serialized(self._path_of(schema_id), until) or found
        sources = Sources(language, _text(found, "schema"))
        self._add_references(sources, found, (), context, until)
        return compiled(sources, str(schema_id))

    def _path_of(self, schema_id: SchemaId, rest: str = "") -> str:
        if schema_id.kind == "id":
            context = schema_id.context or self._settings.context
            inside = f"?subject={quote(f':{context}:', safe='')}" if context else ""
            return f"/schemas/ids/{schema_id.value}{rest}{inside}"
        if schema_id.kind == "guid":
            return f"/schemas/guids/{quote(str(schema_id.value), safe='')}{rest}"
        raise RegistryError(f"its kind is confluent, which has no {schema_id.kind.replace('_', ' ')}: see kind")

    def _serialized(self, path: str, until: float) -> Mapping[str, Any] | None:
        """The same with a descriptor in place of the text; a registry that does not know this has the text again."""
        try:
            return self._get(f"{path}{'&' if '?' in path else '?'}format=serialized", until)
        except RegistryError as error:
            if error.is_outage:
                raise
            return None

    def _add_references(
        self,
        sources: Sources,
        found: Mapping[str, Any],
        path: tuple[tuple[str, int], ...],
        context: str | None,
        until: float,
    ) -> None:
        """``context``: that subjects are of which do not name one, as that of the schema."""
        references = found.get("references") or []
        if not isinstance(references, list):
            raise RegistryError("a schema's references are no list")
        if references and len(path) >= MAX_REFERENCE_DEPTH:
            raise RegistryError(f"references are nested deeper than {MAX_REFERENCE_DEPTH}")
        for one in references:
            if not isinstance(one, Mapping):
                raise RegistryError("a reference of a schema is no object")
            name, at = _text(one, "name"), (_in_context(_text(one, "subject"), context), _version(one, at_least=-1))
            if at in path:
                raise RegistryError(f"schemas refer to each other in a circle: {quoted(at[0])}, version {at[1]}")
            if name not in sources.references:
                self._add_reference(sources, name, at, path, context, until)

    def _add_reference(
        self,
        sources: Sources,
        name: str,
        at: tuple[str, int],
        path: tuple[tuple[str, int], ...],
        context: str | None,
        until: float,
    ) -> None:
        subject, version = at
        if len(sources.references) >= MAX_REFERENCES:
            raise RegistryError(f"a schema refers to more than {MAX_REFERENCES} others")
        # Also of a version that was deleted: schemas that refer to it stay what they are.
        where = f"/subjects/{quote(subject, safe='')}/versions/{'latest' if version == -1 else version}?deleted=true"
        found = self._referred.get(where) or self._get(where, until)
        if found is None:
            raise RegistryError(f"a schema refers to {quoted(subject)}, version {version}, which is not there")
        if where not in self._referred and sources.language == "PROTOBUF":
            found = self._serialized(where, until) or found
        self._keep(where, found, version)
        sources.references[name] = _text(found, "schema")
        if sources.size > self._settings.max_bytes:
            raise RegistryError(f"a schema has more than {self._settings.max_bytes} bytes with what it refers to")
        self._add_references(sources, found, (*path, at), context, until)

    def _keep(self, where: str, found: Mapping[str, Any], version: int) -> None:
        """Others may refer to it; and a schema with many references may take more than one attempt."""
        if version != -1 and len(str(found.get("schema"))) <= MAX_TEXT_KEPT:
            self._referred[where] = found
            if len(self._referred) > MAX_TEXTS:
                with suppress(KeyError):  # another thread has done it
                    self._referred.popitem(last=False)

    def _versions(self, schema_id: SchemaId, until: float) -> set[tuple[str, int]]:
        ids = [schema_id] if schema_id.kind != "guid" else self._ids_of(schema_id, until)
        own = f":{self._settings.context}:" if self._settings.context and not schema_id.context else ""
        found: set[tuple[str, int]] = set()
        for one in ids:
            listed = self._list(self._path_of(one, "/versions"), until)
            found |= {(_text(entry, "subject").removeprefix(own), _version(entry)) for entry in listed}
        return found

    def _ids_of(self, guid: SchemaId, until: float) -> list[SchemaId]:
        """The ids of a GUID: one in each context."""
        listed = self._list(self._path_of(guid, "/ids"), until)[:MAX_CONTEXTS]
        contexts = [_text(entry, "context", ".") for entry in listed]
        return [
            SchemaId("id", _number(entry, "id"), "" if context == "." else context)
            for entry, context in zip(listed, contexts, strict=True)
        ]

    def _list(self, path: str, until: float) -> list[Mapping[str, Any]]:
        listed = self._answer(path, until)
        if listed is None:
            return []
        if not isinstance(listed, list) or len(listed) > MAX_VERSIONS:
            raise RegistryError(f"the answer to {path} is no list of up to {MAX_VERSIONS} versions")
        return [_object(entry, path) for entry in listed]

    def _latest(self, subject: str, until: float) -> tuple[int, SchemaId] | None:
        found = self._get(
            f"/subjects/{quote(_in_context(subject, self._settings.context), safe='')}/versions/latest", until
        )
        return None if found is None else (_version(found), SchemaId("id", _number(found, "id")))

    def _quoted(self, subject: str) -> str:
        return quote(_in_context(subject, self._settings.context), safe="")

    def _is_compatible(self, subject: str, schema_id: SchemaId, until: float) -> bool:
        schema = self._get(self._path_of(schema_id), until)
        if schema is None:
            return False
        asked = {name: schema[name] for name in ("schema", "schemaType", "references") if schema.get(name)}
        where = (
            f"/compatibility/subjects/{quote(_in_context(subject, self._settings.context), safe='')}/versions/latest"
        )
        found = self._get(where, until, orjson.dumps(asked))
        if found is None:  # no version that it could be compatible with
            return False
        is_compatible = found.get("is_compatible")
        if not isinstance(is_compatible, bool):
            raise RegistryError(f"the answer to {where} has no is_compatible")
        return is_compatible

    def _get(self, path: str, until: float, body: bytes | None = None) -> Mapping[str, Any] | None:
        found = self._answer(path, until, body)
        return None if found is None else _object(found, path)

    def _answer(self, path: str, until: float, body: bytes | None = None) -> Any:
        """What is there; None if there is no such subject, version or schema."""
        response = self._link.request(path, until, body)
        found = parsed(response)
        if response.status == 200:
            return [] if found is None else found  # a list without entries is null, in some registries
        code = found.get("error_code") if isinstance(found, Mapping) else None
        if response.status == 404 and code in NOT_THERE:
            return None
        also = " and is no schema registry there: see urls" if code is None else f", error code {code}"
        raise RegistryError(f"{response.url} responds to {path} with {response.status}{also}")


def parsed(response: Response) -> Any:
    """The JSON of a response; None where an error has something else."""
    try:
        return orjson.loads(response.body)
    except orjson.JSONDecodeError:
        if response.status != 200:
            return None
        raise RegistryError(f"{response.url} responds with something that is not JSON: see urls") from None


def compiled(sources: Sources, name: str) -> Found:
    """The schema of these texts. Raises RegistryError: it is invalid, over a limit or of an unknown language."""
    parse = LANGUAGES.get(sources.language)
    if parse is None:
        known = ", ".join(LANGUAGES)
        raise RegistryError(f"{name} is of the schema type {quoted(sources.language)}; supported are {known}")
    try:
        schema = parse(sources)
    except (ValueError, RecursionError) as error:  # of the language, one line
        text = (str(error).splitlines() or [type(error).__name__])[0][:MAX_SHOWN]
        raise RegistryError(f"{name} cannot be used: {text}") from None
    times, more = MEMORY[sources.language]
    return Found(schema, sources.size * times + more)


def _avro(sources: Sources) -> Schema:
    from kafka_sidecar.schemas.avro.schema import AvroSchema

    return AvroSchema.parse(sources.text, sources.references)


def _json(sources: Sources) -> Schema:
    from kafka_sidecar.schemas.json_schema import JsonSchema

    return JsonSchema(sources.text, sources.references, is_trusted=False)


def _protobuf(sources: Sources) -> Schema:
    """Of texts, or of descriptors in base64: those that are asked for, and those that some clients register."""
    from kafka_sidecar.schemas.protobuf.schema import ProtobufSchema

    return ProtobufSchema.parse(sources.text, sources.references)


LANGUAGES: Mapping[str, Callable[[Sources], Schema]] = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}


def _in_context(subject: str, context: str | None) -> str:
    return subject if not context or subject.startswith(":") else f":{context}:{subject}"


def _object(found: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise RegistryError(f"the answer to {path} is no object")
    return found


def _text(found: Mapping[str, Any], name: str, default: str | None = None) -> str:
    text = found.get(name)
    if text is None and default is not None:
        return default
    if not isinstance(text, str):
        raise RegistryError(f"an answer has no text as {name}")
    return text


def _number(found: Mapping[str, Any], name: str) -> int:
    number = found.get(name)
    if not isinstance(number, int) or isinstance(number, bool):
        raise RegistryError(f"an answer has no number as {name}")
    return number


def _version(found: Mapping[str, Any], at_least: int = 1) -> int:
    version = _number(found, "version")
    if version < at_least or version == 0:
        raise RegistryError(f"an answer has the version {version}")
    return version
