"""Records whose schema is in a registry: the id that they have, and that they conform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import Field, model_validator

from kafka_sidecar.codec.checkpoint import checkpoint
from kafka_sidecar.plugins.settings import Settings, quote, read_settings
from kafka_sidecar.policies.contract import (
    ALL,
    Fault,
    Hints,
    RecordValidationPolicy,
    TopicMetadata,
    UnavailableError,
    Unresolved,
)
from kafka_sidecar.schemas.ids import NO_ID, NULL, PREFIX, Reader, SchemaId
from kafka_sidecar.schemas.registry import (
    CompatibleWith,
    LatestOf,
    NotFetchedError,
    Question,
    Registry,
    RegistryError,
    SchemaOf,
    SettingsRegistry,
    VersionsOf,
    fetch_all,
)

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Records
    from kafka_sidecar.schemas.language import Schema

FormName = Literal["confluent", "confluent_header", "apicurio", "apicurio_header", "glue"]
DEPTHS = ("id", "known", "subject", "conforms")
STRATEGIES = ("topic_name", "record_name", "topic_record_name")
MAX_IDS = 100  # of one batch; as in the message
MAX_ID_BYTES = 18
NULL_PART = "Topic %s requires record %ss not to be null"
WITHOUT_ID = "Topic %s requires record %ss to have the id of a schema"
TOO_MANY = "Topic %s requires record %ss to be of at most 100 schemas in one batch"
UNKNOWN = "Topic %s requires record %ss to have a schema that the registry knows, which %s is not"
NO_TYPE = "Topic %s requires record %ss to name a type of the schema with %s"
OF_ANOTHER = "Topic %s requires record %ss to have a schema of the subject %s, which %s is not"
NOT_LATEST = "Topic %s requires record %ss to have the newest schema of the subject %s, which %s is not"
NOT_COMPATIBLE = "Topic %s requires record %ss to have a schema compatible with the newest of %s, which %s is not"
UNLIKE = "Topic %s requires record %ss to be of the schema %s: %s"


class SchemaSettings(Settings):
    registry: SettingsRegistry | None = None
    """The registry, by its name under `schema_registries:`; `require: id` needs none."""
    require: Literal["id", "known", "subject", "conforms"] = "conforms"
    """How much is required, each with those before it: a record has the id of a schema; the registry knows it; the
    schema is one of the topic's subject; the data conforms to it."""
    part: Literal["value", "key", "both"] = "value"
    """What must have a schema."""
    forms: tuple[FormName, ...] = Field(default=("confluent_header", "confluent"), min_length=1)
    """The forms of ids that are accepted. A header precedes an id before the data."""
    subject: Literal["topic_name", "record_name", "topic_record_name"] = "topic_name"
    """What the subject is named after, as the strategies of Confluent's serializers."""
    version: Literal["any", "latest", "compatible"] = "any"
    """Which schemas of the subject are accepted: all, the newest, or those that the registry calls compatible with
    it."""
    allow_null: bool = True
    """Whether null is accepted: a tombstone, or a record without a key."""
    on_registry_error: Literal["reject", "allow"] = "reject"
    """What becomes of records while the registry cannot be asked and nothing older is known: `reject` tells producers
    to try again, `allow` accepts them."""
    max_depth: int = Field(default=128, ge=1, le=512)
    """How deep a value may be nested."""

    @model_validator(mode="after")
    def _check(self) -> SchemaSettings:
        if self.registry is None and self.require != "id":
            raise ValueError("needs a registry: name one of schema_registries: under registry, or set require: id")
        if {"confluent", "apicurio"} <= set(self.forms):
            raise ValueError("forms: confluent and apicurio begin with the same byte: accept one of them")
        if "glue" in self.forms and self.require != "id":
            raise ValueError("forms: the registry of AWS Glue is not asked: set require: id, or remove glue")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What is known of the schema of some records."""

    fault: tuple[str, str] | None = None  # message and reason
    id: SchemaId | None = None
    schema: Schema | None = None  # that they have to conform to
    skip: int = 0  # bytes before the data


ACCEPTED = _Known()  # whatever the data is
UNASKED = _Known()  # the registry has to be asked first, or cannot be, which the operator allows


class SchemaPolicy(RecordValidationPolicy):
    """Records have the id of a schema that a registry has, of the topic's subject, and conform to it."""

    settings = SchemaSettings.model_construct()

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(SchemaSettings, configs)
        self.registry = cast("Registry | None", own.registry)
        self.readers = {part: Reader(own.forms, part == "key") for part in ("value", "key")}
        inside = own.require == "conforms"
        self.records_at_once = 100 if inside else 10_000  # JSON Schema takes about 10 us for a record
        self.bytes_at_once = 128 << 10 if inside else 1 << 20

    def hints(self) -> Hints:
        size = ALL if self.settings.require == "conforms" else MAX_ID_BYTES
        of_key, of_value = self.settings.part != "value", self.settings.part != "key"
        return Hints(access_headers=True, access_key_bytes=size * of_key, access_value_bytes=size * of_value)

    def check(self, text: str) -> None:
        parse_argument(text)

    def _strategies(self, text: str | None) -> Mapping[str, str]:
        """Key or value, or both, and how the subject of each is named."""
        own = self.settings
        return parse_argument(text) or {part: own.subject for part in ("key", "value") if own.part in (part, "both")}

    def subjects(self, topic: str, text: str) -> list[str]:
        """The subjects that schemas of a topic's records have to be of, for a person."""
        if DEPTHS.index(self.settings.require) < DEPTHS.index("subject"):
            return []
        records = "(name of the record)"
        return [
            {"topic_name": f"{topic}-{part}", "record_name": records}.get(strategy, f"{topic}-{records}")
            for part, strategy in self._strategies(text).items()
        ]

    def validate_batch(self, topic: TopicMetadata, records: Records) -> Iterator[Fault]:
        checks = [
            _Check(self, topic.topic, part, subject, records)
            for part, subject in self._strategies(topic.validation_policy).items()
        ]
        questions = frozenset(question for check in checks for question in check.questions)
        if questions:
            raise Unresolved(questions)
        for check in checks:
            yield from check.faults()

    async def resolve(self, key: object) -> None:
        assert self.registry is not None
        assert isinstance(key, frozenset)
        await fetch_all(self.registry, key)


@lru_cache(256)
def parse_argument(text: str) -> Mapping[str, str]:
    """What a topic says itself: strategies by part.

    >>> parse_argument("value=topic_name key=record_name")
    {'value': 'topic_name', 'key': 'record_name'}

    Raises:
        ValueError: the text is not such a list.
    """
    found = dict(item.partition("=")[::2] for item in text.split())
    if not found.keys() <= {"key", "value"} or not set(found.values()) <= set(STRATEGIES):
        raise ValueError(f"{quote(text)}: write value=STRATEGY, key=STRATEGY or both; one of {', '.join(STRATEGIES)}")
    return found


class _Check:
    """One part of the records of one batch."""

    def __init__(self, policy: SchemaPolicy, topic: str, part: str, strategy: str, records: Records) -> None:
        self._own, self._registry, self._reader = policy.settings, policy.registry, policy.readers[part]
        self._depth = DEPTHS.index(policy.settings.require)
        self._topic, self._part, self._strategy = topic, part, strategy
        self._records = records
        self._ids: dict[tuple[int, bytes], _Known] = {}
        self._subjects: dict[tuple[_Known, str], _Known] = {}
        self.questions: set[Question] = set()  # that the registry has to be asked first
        self._found = list(self._look())

    def faults(self) -> Iterator[Fault]:
        for first, end, known in self._found:
            if known.fault is not None:
                yield from (Fault(index, *known.fault) for index in range(first, end))
        if self._own.require == "conforms":
            for schema, index, why in self._nonconforming():
                yield Fault(index, UNLIKE % (self._topic, self._part, schema.name, why), "not_of_schema")

    def _nonconforming(self) -> Iterator[tuple[Schema, int, str]]:
        """The records that are not of their schema, and why."""
        of_key, max_depth = self._reader.of_key, self._own.max_depth
        all_known = {known for *_, known in self._found if known.fault is None} - {ACCEPTED}
        if len(all_known) == 1:  # all of the batch in one call
            (known,) = all_known
            if known.schema is not None:
                found = known.schema.find_faults(self._records, of_key, known.skip, max_depth, known.skip > 0)
                yield from ((known.schema, index, why) for index, why in found)
            return
        for index, known, data in self._parts():
            if known.schema is not None:
                why = known.schema.find_fault(data, known.skip, len(data), max_depth, known.skip > 0)
                if why is not None:
                    yield known.schema, index, why

    def _look(self) -> Iterator[tuple[int, int, _Known]]:
        """The records with what is known of their schema: first index, index after the last one."""
        payload = self._records.payload
        for first, end, place, start, stop in self._reader.runs(self._records):
            checkpoint()
            key = place, payload[start:stop]
            if key not in self._ids:
                self._ids[key] = self._know(*key)
            known = self._ids[key]
            if known.id is None or self._depth < DEPTHS.index("subject"):
                yield first, end, known
            elif self._strategy == "topic_name":
                yield first, end, self._of_subject(known, f"{self._topic}-{self._part}")
            elif known.schema is not None:
                yield from self._named(first, end, known, known.schema)

    def _know(self, place: int, data: bytes) -> _Known:
        """What is known by an id alone."""
        if place == NULL:
            return ACCEPTED if self._own.allow_null else self._fault(f"null_{self._part}", NULL_PART)
        read = self._reader.read(place, data) if place != NO_ID else None
        if read is None:
            return self._fault("no_schema_id", WITHOUT_ID)
        if len(self._ids) >= MAX_IDS:
            return self._fault("too_many_schemas", TOO_MANY)
        if self._own.require == "id":
            return ACCEPTED
        schema_id, indexes = read
        wanted: list[Question] = [SchemaOf(schema_id)]
        wanted += [VersionsOf(schema_id)] if self._depth > DEPTHS.index("known") else []
        schema, *_ = answers = self._ask(*wanted)
        if UNASKED in answers:
            return UNASKED
        if schema is None:
            return self._fault("unknown_schema", UNKNOWN, schema_id)
        try:
            typed = schema.typed(indexes) if indexes else schema
        except ValueError:
            return self._fault("unknown_type", NO_TYPE, schema_id)
        return _Known(None, schema_id, typed, len(data) if place == PREFIX else 0)

    def _named(self, first: int, end: int, known: _Known, schema: Schema) -> Iterator[tuple[int, int, _Known]]:
        """The same for subjects that are named after the type of the data, which differs in a schema of several."""
        if not schema.has_types or known.skip == 0:
            yield first, end, self._of_record(known, schema.record_name(b"", 0, 0))
            return
        for index in range(first, end):
            checkpoint()
            record = self._records[index]
            data = (record.key if self._reader.of_key else record.value) or b""
            yield index, index + 1, self._of_record(known, schema.record_name(data, known.skip, len(data), framed=True))

    def _of_record(self, known: _Known, name: str | None) -> _Known:
        if name is None:
            return self._fault("wrong_subject", OF_ANOTHER, f"of the {self._strategy}", known.id)
        return self._of_subject(known, name if self._strategy == "record_name" else f"{self._topic}-{name}")

    def _of_subject(self, known: _Known, subject: str) -> _Known:
        """What is known where the schema has to be of a subject."""
        key = known, subject
        if key not in self._subjects:
            assert known.id is not None
            self._subjects[key] = self._check_subject(known, known.id, subject)
        return self._subjects[key]

    def _check_subject(self, known: _Known, schema_id: SchemaId, subject: str) -> _Known:
        version = self._own.version
        wanted: list[Question] = [VersionsOf(schema_id)]
        wanted += [LatestOf(subject)] if version == "latest" else []
        wanted += [CompatibleWith(subject, schema_id)] if version == "compatible" else []
        found = known
        for is_doubted in (False, True):  # what was registered since is not rejected for an older answer
            answers = self._ask(*wanted, is_doubted=is_doubted)
            if UNASKED in answers:
                return UNASKED
            found = self._compare(known, schema_id, subject, *answers)
            if found.fault is None:
                break
        return found

    def _compare(self, known: _Known, schema_id: SchemaId, subject: str, versions: Any, more: Any = None) -> _Known:
        """What a registry has answered about the subject, and about the version that is required."""
        version = self._own.version
        of_subject = {number for name, number in versions or () if name == subject}
        if not of_subject:
            return self._fault("wrong_subject", OF_ANOTHER, subject, schema_id)
        if version == "latest" and (more is None or more[0] not in of_subject):
            return self._fault("not_latest", NOT_LATEST, subject, schema_id)
        if version == "compatible" and not more:
            return self._fault("not_compatible", NOT_COMPATIBLE, subject, schema_id)
        return known

    def _ask(self, *questions: Question, is_doubted: bool = False) -> list[Any]:
        """The registry's answers; `UNASKED` in place of those that it has to be asked for, or cannot be.

        Raises:
            UnavailableError: it cannot be asked, and records are not accepted then.
        """
        assert self._registry is not None, "required by the settings"
        answers: list[Any] = []
        for question in questions:
            try:
                answers.append(self._registry.get(question, is_doubted))
            except NotFetchedError as error:
                self.questions.add(error.question)
                answers.append(UNASKED)
            except RegistryError as error:
                if self._own.on_registry_error == "reject":
                    raise UnavailableError(str(error)) from error
                answers.append(UNASKED)
        return answers

    def _parts(self) -> Iterator[tuple[int, _Known, bytes]]:
        """Each record whose part is not null."""
        of_key = self._reader.of_key
        for first, end, known in self._found:
            for index in range(first, end):
                checkpoint()
                record = self._records[index]
                data = record.key if of_key else record.value
                if data is not None:
                    yield index, known, data

    def _fault(self, reason: str, message: str, *about: object) -> _Known:
        return _Known((message % (self._topic, self._part, *about), reason))
