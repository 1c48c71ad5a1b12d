"""Sizes and durations: one syntax for every setting, the program's own and those of plug-ins."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator
from pydantic.json_schema import WithJsonSchema

_SIZE = re.compile(r"([0-9]+)\s*(B|KiB|MiB|GiB)?")
_BYTES = {None: 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def size(value: object) -> int:
    """Bytes of a size.

    >>> size("64KiB"), size(100)
    (65536, 100)

    Raises:
        ValueError: it is not a size.
    """
    found = _SIZE.fullmatch(str(value)) if isinstance(value, int | str) and not isinstance(value, bool) else None
    if found is None:
        raise ValueError('write a number of bytes or a size such as "64KiB" or "100MiB"')
    return int(found[1]) * _BYTES[found[2]]


def seconds(value: object) -> float:
    """Seconds of a duration.

    >>> seconds("1m30s"), seconds("1.5s"), seconds("7d")
    (90.0, 1.5, 604800.0)

    Raises:
        ValueError: it is not a duration.
    """
    return float(_exact_ms(value) / 1000)


def milliseconds(value: object) -> int:
    """Milliseconds of a duration, as Kafka's own timestamps and settings count them.

    >>> milliseconds("1h30m"), milliseconds("1.5s")
    (5400000, 1500)

    Raises:
        ValueError: it is not a duration, or has a fraction of a millisecond.
    """
    exact = _exact_ms(value)
    if exact.denominator != 1:
        raise ValueError(f"write a duration of whole milliseconds in place of {value!r}")
    return exact.numerator


def _exact_ms(value: object) -> Fraction:
    parts = _DURATION.findall(value) if isinstance(value, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError('write a duration with its unit, such as "500ms", "1m30s" or "7d"')
    return sum((Fraction(number) * _MILLISECONDS[unit] for number, unit in parts), Fraction())


_TEXT = WithJsonSchema({"type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"})
_SIZES = {"type": ["string", "integer"], "minimum": 0, "pattern": rf"^{_SIZE.pattern}$"}
Size = Annotated[int, BeforeValidator(size), WithJsonSchema(_SIZES)]  # bytes
Duration = Annotated[float, BeforeValidator(seconds), _TEXT]  # seconds
Milliseconds = Annotated[int, BeforeValidator(milliseconds), _TEXT]
