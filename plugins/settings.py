"""The base class of built-in plug-ins' settings; error messages that say what to write instead; strict scalars."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

MAX_COMPARED_CHARS = 100


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that ends with a blank; nothing if no known name is like this one.

    >>> did_you_mean("tmie", ["size", "time"])
    'did you mean time? '
    >>> did_you_mean("Enforce", ["shadow", "enforce"])
    'did you mean enforce? '
    >>> did_you_mean("x", ["size", "time"])
    ''
    """
    names = list(known)
    short = name[:MAX_COMPARED_CHARS]
    by_lower = {one.lower(): one for one in names}
    nearest = get_close_matches(short, names, n=1) or [
        by_lower[one] for one in get_close_matches(short.lower(), by_lower, n=1)
    ]
    return f"did you mean {nearest[0]}? " if nearest else ""


_QUOTED = re.compile(r"'([^']*)'")
_LIST, _TEXT = "write a list, such as [a, b]", "write text, in quotes if it looks like a number, a date or true"
_WHOLE, _NUMBER, _TRUTH = "write a whole number", "write a number", "write true or false"
# Words in braces are pydantic's context of the error.
REMEDIES: Mapping[str, str] = {
    "bool_parsing": _TRUTH,
    "bool_type": _TRUTH,
    "dict_type": "write a mapping, such as {{a: b}}",
    "finite_number": _NUMBER,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "greater_than": "write more than {gt:.10g}",
    "greater_than_equal": "write {ge:.10g} or more",
    "int_from_float": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": _WHOLE,
    "int_type": _WHOLE,
    "less_than": "write less than {lt:.10g}",
    "less_than_equal": "write {le:.10g} or less",
    "list_type": _LIST,
    "literal_error": "write {expected}",
    "missing": "is missing",
    "model_type": "write a mapping, such as {{a: b}}",
    "path_type": "write the path of a file",
    "string_pattern_mismatch": "write text that matches {pattern}",
    "string_too_long": "write at most {max_length} characters",
    "string_too_short": "is empty: write it, or remove the key",
    "string_type": _TEXT,
    "too_short": "write at least {min_length}",
    "tuple_type": _LIST,
}


def remedy(error: ErrorDetails) -> str:
    """What to write in place of the value that is wrong."""
    text = REMEDIES.get(error["type"])
    if text is _TEXT and isinstance(error["input"], list):
        return f'write text in place of the list: "{", ".join(map(str, error["input"]))}"'
    if text is None:
        return error["msg"].removeprefix("Value error, ")
    expected = error.get("ctx", {})
    likely = ""
    if error["type"] == "literal_error" and isinstance(error["input"], str):
        likely = did_you_mean(error["input"], _QUOTED.findall(expected["expected"]))
    return likely + text.format(**expected)


class VariableText(str):
    """The text of an environment variable, the only text from which numbers and truth values are read."""

    __slots__ = ()


class StrictScalars(BaseModel):
    """Settings whose numbers and truth values are not read from text, nor one from the other.

    pydantic would read ``"7"`` as 7, ``true`` as 1 and ``"yes"`` as true; the JSON Schema of the same model does not.
    """

    @field_validator("*", mode="before")
    @classmethod
    def _reject_conversions(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, VariableText):
            return value
        field = cls.model_fields[info.field_name or ""]
        converts = any(isinstance(one, BeforeValidator) for one in field.metadata)  # has a syntax of its own
        kinds = set() if converts else set(_scalar_kinds(field.annotation))
        for kind, others in ((int, str | bool), (float, str | bool), (bool, str | int | float)):
            if kind in kinds and isinstance(value, others) and type(value) not in kinds:
                raise PydanticCustomError(f"{kind.__name__}_type", "another type is expected")
        return value


def _scalar_kinds(annotation: Any) -> Iterator[Any]:
    """The types that a field accepts, without those that have a syntax of their own."""
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        yield from () if any(isinstance(one, BeforeValidator) for one in metadata) else _scalar_kinds(kind)
    elif annotation in (int, float, bool, str):
        yield annotation
    elif get_origin(annotation) not in (list, tuple, dict):
        for part in get_args(annotation):
            yield from _scalar_kinds(part)


MAX_QUOTED_CHARS = 100


class Settings(StrictScalars):
    """The settings of one plug-in: the fields of the class, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class FileSettings(dict[str, Any]):
    """The settings of a plug-in as a configuration file has them, and what they refer to."""

    def __init__(self, settings: Mapping[str, Any], folder: Path, registries: Mapping[str, Any] | None = None) -> None:
        super().__init__(settings)
        self.folder = folder  # that paths are relative to
        self.registries = registries or {}  # of schemas, by name

    def __eq__(self, other: object) -> bool:
        """Also the registries that are named have to be the same ones."""
        if not dict.__eq__(self, other):
            return False
        named = getattr(other, "registries", {})
        return all(self.registries.get(name) is named.get(name) for name in _texts(dict(self)))

    __hash__ = None

    def __reduce__(self) -> tuple[type[FileSettings], tuple[dict[str, Any], Path, Mapping[str, Any]]]:
        return FileSettings, (dict(self), self.folder, self.registries)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _resolve(value: str, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / value


SettingsPath = Annotated[str, AfterValidator(_resolve)]  # relative to the configuration file; a Path once it is read
S = TypeVar("S", bound=Settings)
Fault = tuple[tuple[int | str, ...], str]  # where in the settings, and what to write


class SettingsError(ValueError):
    """Settings of a plug-in are invalid: all that is wrong with them."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(map(_line, self.faults)))


def read_settings(model: type[S], configs: Mapping[str, Any]) -> S:
    """The settings that a plug-in's `configure` gets.

    Raises:
        ValueError: a setting is invalid; the message names it and the remedy.
    """
    try:
        context = {"folder": getattr(configs, "folder", Path()), "registries": getattr(configs, "registries", {})}
        return model.model_validate(dict(configs), context=context)
    except ValidationError as error:
        raise SettingsError(_faults(error, model)) from error


def quote(text: str) -> str:
    """A text for use in a message: in quotes, and truncated if it is long."""
    return repr(text) if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]!r}..."


def at_most(what: str, limit: int, unit: str) -> str:
    """A limit, in the words of all that requires one.

    >>> at_most("batches", 100, "records")
    'batches to have at most 100 records'
    """
    return f"{what} to have at most {limit} {unit}"


def reject_argument(text: str) -> None:
    """For policies without an argument.

    Raises:
        ValueError: a topic gives it an argument.
    """
    if text:
        raise ValueError(f"takes no argument, got {quote(text)}: configure it under policies:")


def _faults(error: ValidationError, model: type[Settings]) -> Iterator[Fault]:
    for one in error.errors(include_url=False):
        if one["type"] == "extra_forbidden":
            names = [about.alias or name for name, about in model.model_fields.items()]
            likely = did_you_mean(str(one["loc"][-1]), names)
            yield one["loc"], f"is not a setting; {likely}the settings are {', '.join(names) or 'none'}"
        else:
            yield one["loc"], remedy(one)


def _line(fault: Fault) -> str:
    location, text = fault
    key = ".".join(map(str, location))
    if text.startswith("is not a setting"):
        return f"{key} {text}"
    return f"{key}: {text}" if key else text


def describe_settings(plug_in: type) -> list[str]:
    """The settings of a plug-in, one per line; none if its ``settings`` are not a `Settings` object."""
    defaults = getattr(plug_in, "settings", None)
    if not isinstance(defaults, Settings):
        return []
    schema = type(defaults).model_json_schema()["properties"]
    return [
        f"{name} (default: {_format_default(about['default'])}): {about['description']}"
        for name, about in schema.items()
    ]


def shown_settings(plug_in: object, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plug-in as JSON values: all of its own that have a value, or those that it was given."""
    own = getattr(plug_in, "settings", None)
    if isinstance(own, Settings):
        return own.model_dump(mode="json", fallback=str, exclude_none=True)
    return dict(given)


def _format_default(value: object) -> str:
    """A default as it is written in the file."""
    if value in (None, [], {}):
        return "none"
    return yaml.safe_dump(value, default_flow_style=True, width=inf, allow_unicode=True).partition("\n")[0]
