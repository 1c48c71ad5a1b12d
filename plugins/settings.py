"""What the settings of built-in plug-ins are made of, and how a wrong one is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_QUOTED_CHARS = 100  # characters


# What is to be written where pydantic names a type of Python.
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
    """The settings of one plug-in: its fields, and no other."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


S = TypeVar("S", bound=Settings)


def read_settings(model: type[S], configs: Mapping[str, Any]) -> S:
    """The settings that a plug-in's `configure` was given.

    Raises:
        ValueError: one is wrong; names it and the remedy.
    """
    try:
        return model.model_validate(dict(configs))
    except ValidationError as error:
        raise ValueError(_explain(error, model)) from error


def quote(text: str) -> str:
    """A text within a message: in quotes, and not all of it where it is long."""
    return repr(text) if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]!r}..."


def reject_argument(text: str) -> None:
    """For a policy that is told everything by its settings.

    Raises:
        ValueError: a topic gives it an argument.
    """
    if text:
        raise ValueError(f"takes no argument, but gets {quote(text)}: set it under policies:")


def _explain(error: ValidationError, model: type[Settings]) -> str:
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        names = ", ".join(about.alias or name for name, about in model.model_fields.items())
        return f"{key} is not a setting; the settings are {names or 'none'}"
    remedy = _WRITE.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return f"{key}: {remedy}" if key else remedy


def describe_settings(plug_in: type) -> list[str]:
    """The settings of a plug-in, one a line; of a class whose settings are no `Settings`, nothing is known."""
    defaults = getattr(plug_in, "settings", None)
    if not isinstance(defaults, Settings):
        return []
    schema = type(defaults).model_json_schema()["properties"]
    return [
        f"{name} (default: {_format_default(about['default'])}): {about['description']}"
        for name, about in schema.items()
    ]


def _format_default(value: object) -> str:
    """As it would stand in the file."""
    if value in (None, [], {}):
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
