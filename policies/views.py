"""What a policy sees of a record: what its hints asked for, and nothing else (KIP-940)."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from kafka_sidecar.policies.contract import ALL, Hints

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Record

EVERYTHING = Hints(access_headers=True, access_key_bytes=ALL, access_value_bytes=ALL, access_metadata=True)
METADATA = ("index", "timestamp", "key_size", "value_size")


class HintViolationError(Exception):
    """A policy looks at what its hints did not name. Returning nothing instead would pass for a null."""


class View:
    """A record behind the hints of one policy; the same object shows one record after the other.

    A class for each kind of hints is made by `view_class`: what may be seen is fetched without a call in Python.
    """

    __slots__ = ("_record",)

    def of(self, record: Record) -> Any:
        """This view, now of another record."""
        self._record = record
        return self


def sees_all(hints: Hints) -> bool:
    """Whether there is nothing to hide; sizes and timestamp of a record that is walked are nobody's secret."""
    return hints | Hints(access_metadata=True) == EVERYTHING


@lru_cache(256)
def view_class(hints: Hints) -> type[View]:
    """The view that shows what these hints ask for: as in a `Record`, where it is asked for as a whole."""
    walked = hints.access_contents
    members: dict[str, Any] = {name: _shown(name) if walked else _hidden(name, "everything") for name in METADATA}
    for part, size in (("key", hints.access_key_bytes), ("value", hints.access_value_bytes)):
        members |= _bytes(part, size)
    for name in ("headers", "header"):
        members[name] = _shown(name) if hints.access_headers else _hidden("headers", "access_headers")
    return type("View", (View,), {"__slots__": (), **members})


def _bytes(part: str, size: int) -> dict[str, Any]:
    """The members for the key or value of which ``size`` bytes may be seen."""
    prefix, hint = f"{part}_prefix", f"access_{part}_bytes"
    if size == ALL:
        return {part: _shown(part), prefix: _shown(prefix)}
    if size == 0:
        return {part: _hidden(part, hint), prefix: _hidden(part, hint)}
    of_record = attrgetter(f"_record.{prefix}")

    def limited(view: View, wanted: int) -> bytes | None:
        if not 0 <= wanted <= size:
            _refuse(f"{part} beyond {size} bytes", hint)
        found: bytes | None = of_record(view)(wanted)
        return found

    return {part: property(lambda view: of_record(view)(size)), prefix: limited}


def _shown(name: str) -> property:
    return property(attrgetter(f"_record.{name}"))


def _hidden(part: str, hint: str) -> property:
    return property(lambda view: _refuse(part, hint))


def _refuse(part: str, hint: str) -> NoReturn:
    raise HintViolationError(f"the record's {part} is not there for a policy whose hints() leave {hint} unset")
