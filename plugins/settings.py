"""The base class of built-in plug-ins' settings, and error messages for invalid ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_QUOTED_CHARS = 100

# The remedy by type of error, where pydantic's message names a Python type.
_WRITE = {
    "tuple_type": "write a list, such as [a, b]",
    "list_type": "write a list, such as [a, b]",
    "dict_type": "write a mapping, such as {a: b}",
    "string_type": "write text, in quotes if it looks like a number",
    "int_parsing": "write a whole number",
    "int_type": "write a whole number",
    "bool_parsing": "write true or false",
    "bool_type": "write true or false",
}


class Settings(BaseModel):
    """The settings of one plug-in: the fields of the class, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


S = TypeVar("S", bound=Settings)


def read_settings(model: type[S], configs: Mapping[str, Any]) -> S:
    """The settings that a plug-in's `configure` gets.

    Raises:
        ValueError: a setting is invalid; the message names it and the remedy.
    """
    try:
        return model.model_validate(dict(configs))
    except ValidationError as error:
        raise ValueError(_explain(error, model)) from error


def quote(text: str) -> str:
    """A text for use in a message: in quotes, and truncated if it is long."""
    return repr(text) if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]!r}..."


def reject_argument(text: str) -> None:
    """For policies without an argument.

    Raises:
        ValueError: a topic gives it an argument.
    """
    if text:
        raise ValueError(f"takes no argument, got {quote(text)}: configure it under policies:")


def _explain(error: ValidationError, model: type[Settings]) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        names = ", ".join(about.alias or name for name, about in model.model_fields.items())
        return f"{key} is not a setting; the settings are {names or 'none'}"
    remedy = _WRITE.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return f"{key}: {remedy}" if key else remedy


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


def _format_default(value: object) -> str:
    """A default as it is written in the file."""
    if value in (None, [], {}):
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
