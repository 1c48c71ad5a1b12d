"""How to write a setting that is wrong, by pydantic's type of error; and scalars that are not converted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ValidationInfo, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

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
    return error["msg"].removeprefix("Value error, ") if text is None else text.format(**error.get("ctx", {}))


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
