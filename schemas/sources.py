"""Where the schema of a value comes from: a file, or a registry that has the id in the value or in a header."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, Protocol
from uuid import UUID

from pydantic import model_validator

from kafka_sidecar.plugins.settings import Settings, SettingsPath
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.language import Schema
from kafka_sidecar.schemas.registry import Registry, SchemaOf, SettingsRegistry

PREFIX = 5  # bytes of Confluent's serializers: a 0 and the id
MAX_FILES = 1000  # of a folder
MAX_FILE_BYTES = 1 << 20
Language = Literal["avro", "json_schema"]
FindHeader = Callable[[str], bytes | None]  # the value of the last header of that name


class SchemaSettings(Settings):
    """A schema in a file, or those of a registry."""

    language: Language | None = None
    """The language of the file."""
    file: SettingsPath | None = None
    """The file with the schema. Relative to the configuration file."""
    references: SettingsPath | None = None
    """A folder with the schemas that it refers to, in files with the same ending."""
    registry: SettingsRegistry | None = None
    """A name of `schema_registries:`; each value has the id of its schema."""

    @model_validator(mode="after")
    def _is_one_of_them(self) -> SchemaSettings:
        if (self.registry is None) == (self.file is None):
            raise ValueError("write a file, or a registry")
        if (self.file is None) != (self.language is None):
            raise ValueError("write the language of the file" if self.file else "a registry says the language itself")
        if self.references is not None and self.file is None:
            raise ValueError("references are those of a file")
        return self


class NoSchemaError(ValueError):
    """A value has no schema: it has no id."""


class UnknownSchemaError(NoSchemaError):
    """The registry has no schema of the id."""


class Found(NamedTuple):
    """The schema of a value."""

    schema: Schema
    start: int  # of the data in the value
    framed: bool
    id: SchemaId | None


class SchemaSource(Protocol):
    """Finds the schema of a value."""

    @property
    def files(self) -> Iterable[Path]:
        """Those that were read, and their folder."""
        ...

    @property
    def schema(self) -> Schema | None:
        """The only one, if it is known in advance."""
        ...

    def find(self, value: bytes, header: FindHeader) -> Found:
        """The schema of a value.

        Raises:
            NoSchemaError: it has no id, or the registry no such schema.
            NotFetchedError: `fetch` has to get the answer.
            RegistryError: the registry has not answered.
        """
        ...

    async def fetch(self, question: object) -> None:
        """Get what a NotFetchedError has asked for."""


def open_source(settings: SchemaSettings, has_prefix: bool, of_key: bool = False) -> SchemaSource:
    """The source that settings describe.

    Args:
        settings: of the plug-in.
        has_prefix: whether the data comes after a schema's id, where a file has the schema.
        of_key: whether keys have the schema; else values.

    Raises:
        ValueError: a file is not there, or no schema; one line.
    """
    if isinstance(settings.registry, Registry):
        return _OfRegistry(settings.registry, "__key_schema_id" if of_key else "__value_schema_id")
    assert settings.file is not None, "validated"
    assert settings.language is not None, "validated"
    ending, parse = _LANGUAGES[settings.language]
    file, folder = Path(settings.file), None if settings.references is None else Path(settings.references)
    others = [] if folder is None else files_of(folder, ending)
    references = {str(path.relative_to(str(folder))): text_of(path) for path in others}
    text = text_of(file)
    try:
        schema = parse(text, references)
    except ValueError as error:
        raise ValueError(f"file: {file}: {error}") from error
    return _OfFile(schema, has_prefix, [file, *([folder] if folder is not None else []), *others])


class _OfFile:
    def __init__(self, schema: Schema, has_prefix: bool, files: Iterable[Path]) -> None:
        self.schema: Schema | None = schema
        self.files = files
        self._found = Found(schema, PREFIX if has_prefix else 0, has_prefix, None)

    def find(self, value: bytes, header: FindHeader) -> Found:
        if self._found.framed and not begins_with_id(value):
            raise NoSchemaError("does not begin with an id")
        return self._found

    async def fetch(self, question: object) -> None:
        raise AssertionError("a file is read at once")


class _OfRegistry:
    files: Iterable[Path] = ()
    schema: Schema | None = None

    def __init__(self, registry: Registry, header: str) -> None:
        self._registry, self._header = registry, header

    def find(self, value: bytes, header: FindHeader) -> Found:
        in_header = header(self._header)
        found = _id_of(value if in_header is None else in_header)
        if found is None:
            raise NoSchemaError("has no id of a schema")
        id_, size = found
        schema = self._registry.get(SchemaOf(id_))
        if schema is None:
            raise UnknownSchemaError(f"has the id of no schema: {id_}")
        assert not isinstance(schema, bool | tuple | frozenset), "a schema answers the question for one"
        return Found(schema, size if in_header is None else 0, in_header is None, id_)

    async def fetch(self, question: object) -> None:
        assert isinstance(question, SchemaOf)
        await self._registry.fetch(question)


def begins_with_id(value: bytes) -> bool:
    """Whether a value may have the prefix of Confluent's serializers."""
    return len(value) >= PREFIX and value[0] == 0


def _id_of(data: bytes) -> tuple[SchemaId, int] | None:
    """The id at the beginning of a value or a header, and its bytes."""
    if begins_with_id(data):
        return SchemaId("id", int.from_bytes(data[1:PREFIX])), PREFIX
    if len(data) >= 17 and data[0] == 1:
        return SchemaId("guid", str(UUID(bytes=data[1:17]))), 17
    return None


def _avro(text: str, references: Mapping[str, str]) -> Schema:
    from kafka_sidecar.schemas.avro.schema import AvroSchema  # only what is configured is imported

    return AvroSchema.parse(text, references)


def _json_schema(text: str, references: Mapping[str, str]) -> Schema:
    from kafka_sidecar.schemas.json_schema import JsonSchema

    return JsonSchema(text, references)


# The ending of the files, and the function that reads their texts.
_LANGUAGES: Mapping[str, tuple[str, Callable[[str, Mapping[str, str]], Schema]]] = {
    "avro": (".avsc", _avro),
    "json_schema": (".json", _json_schema),
}


def files_of(folder: Path, ending: str) -> list[Path]:
    """The files with an ending that are in a folder or below it. Raises ValueError."""
    if not folder.is_dir():
        raise ValueError(f"references: {folder} is not a folder")
    found = sorted(path for path in folder.rglob(f"*{ending}") if path.is_file())
    if len(found) > MAX_FILES:
        raise ValueError(f"references: {folder} has {len(found)} files: at most {MAX_FILES} are read")
    return found


def text_of(path: Path) -> str:
    """The text of a file. Raises ValueError."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"file: {path} has more than {MAX_FILE_BYTES} bytes")
        return path.read_text("utf-8")
    except OSError as error:
        raise ValueError(f"file: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"file: {path} is not UTF-8") from error
