"""The base class of built-in plug-ins' settings, and error messages for invalid ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from math import inf
from typing import Any, TypeVar

import yaml
from pydantic import ConfigDict, ValidationError

from kafka_sidecar.plugins.remedies import StrictScalars, remedy

MAX_QUOTED_CHARS = 100


class Settings(StrictScalars):
    """The settings of one plug-in: the fields of the class, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


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
        return model.model_validate(dict(configs))
    except ValidationError as error:
        raise SettingsError(_faults(error, model)) from error


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


def _faults(error: ValidationError, model: type[Settings]) -> Iterator[Fault]:
    for one in error.errors(include_url=False):
        if one["type"] == "extra_forbidden":
            names = [about.alias or name for name, about in model.model_fields.items()]
            nearest = get_close_matches(str(one["loc"][-1]), names, n=1)
            likely = f"did you mean {nearest[0]}? " if nearest else ""
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


def _format_default(value: object) -> str:
    """A default as it is written in the file."""
    if value in (None, [], {}):
        return "none"
    return yaml.safe_dump(value, default_flow_style=True, width=inf, allow_unicode=True).partition("\n")[0]
