"""An invalid value: what to write in its place; numbers and truth values are not read from one another."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from kafka_sidecar.plugins.settings import StrictScalars, VariableText, remedy
from kafka_sidecar.plugins.units import Size


class Example(StrictScalars):
    whole: int = Field(default=1, ge=1)
    number: float = Field(default=0.5, gt=0, le=1)
    flag: bool = False
    text: str | None = Field(default=None, min_length=1)
    maybe: int | None = None
    names: tuple[str, ...] = ()
    by_name: dict[str, int] = {}  # noqa: RUF012 - pydantic copies it
    part: Literal["key", "value"] = "key"
    size: Size | None = None


WRONG: dict[str, list[tuple[object, str]]] = {
    "whole": [
        ("7", "write a whole number"),
        (True, "write a whole number"),
        (0, "write 1 or more"),
        (1.5, "write a whole"),
    ],
    "number": [("1", "write a number"), (True, "write a number"), (0, "write more than 0"), (2, "write 1 or less")],
    "flag": [("yes", "write true or false"), (1, "write true or false")],
    "text": [
        (1, "write text, in quotes if it looks like a number"),
        ("", "is empty"),
        (["a", 1], 'write text in place of the list: "a, 1"'),
    ],
    "maybe": [("1", "write a whole number"), (False, "write a whole number")],
    "names": [("a", "write a list, such as [a, b]")],
    "by_name": [([], "write a mapping, such as {a: b}")],
    "part": [("both", "write 'key' or 'value'")],
    "size": [(1.5, "write a number of bytes")],
}


@pytest.mark.parametrize(("name", "value", "text"), [(name, *case) for name, cases in WRONG.items() for case in cases])
def test_a_wrong_value_has_a_remedy_in_plain_words(name: str, value: Any, text: str) -> None:
    with pytest.raises(ValidationError) as error:
        Example.model_validate({name: value})
    (one,) = error.value.errors()
    assert remedy(one).startswith(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("whole", 7), ("number", 1), ("number", 0.5), ("flag", True), ("maybe", None), ("size", "1KiB"), ("size", 7)],
)
def test_a_right_value_is_read(name: str, value: Any) -> None:
    assert name in Example.model_validate({name: value}).model_fields_set


def test_the_text_of_a_variable_may_be_a_number_or_a_truth_value() -> None:
    read = Example.model_validate({name: VariableText("1") for name in ("whole", "number", "flag", "maybe")})
    assert (read.whole, read.number, read.flag, read.maybe) == (1, 1.0, True, 1)
