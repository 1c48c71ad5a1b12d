"""What a policy sees of a record: what its hints asked for, and nothing else (KIP-940)."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

from kafka_sidecar.plugins.violations import ContractError
from kafka_sidecar.policies.contract import ALL, Hints

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Record

EVERYTHING = Hints(access_headers=True, access_key_bytes=ALL, access_value_bytes=ALL, access_metadata=True)
METADATA = ("index", "timestamp", "key_size", "value_size")


class HintViolationError(ContractError):
    """A policy reads something that its hints do not name. A None in its place would look like a null value."""


class View:
    """A record as the hints of one policy allow to see it; one object is reused for all records of a batch.

    `view_class` creates a class for each combination of hints, so that visible attributes are read without a call in
    Python.
    """

    __slots__ = ("_record",)

    def of(self, record: Record) -> Any:
        """This view, now showing ``record``."""
        self._record = record
        return self


def sees_all(hints: Hints) -> bool:
    """Whether nothing has to be hidden: sizes and timestamp are visible wherever a record is."""
    return hints | Hints(access_metadata=True) == EVERYTHING


@lru_cache(256)
def view_class(hints: Hints) -> type[View]:
    """The view for these hints. What they request as a whole reads as in a `Record`."""
    has_records = hints.access_contents
    members: dict[str, Any] = {
        name: _visible(name) if has_records else _hidden(name, "everything") for name in METADATA
    }
    for part, size in (("key", hints.access_key_bytes), ("value", hints.access_value_bytes)):
        members |= _bytes_members(part, size)
    for name in ("headers", "header"):
        members[name] = _visible(name) if hints.access_headers else _hidden("headers", "access_headers")
    return type("View", (View,), {"__slots__": (), **members})


def _bytes_members(part: str, size: int) -> dict[str, Any]:
    """The members for the key or value, of which ``size`` bytes are visible."""
    prefix, hint = f"{part}_prefix", f"access_{part}_bytes"
    if size == ALL:
        return {part: _visible(part), prefix: _visible(prefix)}
    if size == 0:
        return {part: _hidden(part, hint), prefix: _hidden(part, hint)}
    of_record = attrgetter(f"_record.{prefix}")

    def limited(view: View, wanted: int) -> bytes | None:
        if not 0 <= wanted <= size:
            _raise(f"{part} beyond {size} bytes", hint)
        found: bytes | None = of_record(view)(wanted)
        return found

    return {part: property(lambda view: of_record(view)(size)), prefix: limited}


def _visible(name: str) -> property:
    return property(attrgetter(f"_record.{name}"))


def _hidden(part: str, hint: str) -> property:
    return property(lambda view: _raise(part, hint))


def _raise(part: str, hint: str) -> NoReturn:
    raise HintViolationError(f"the policy reads {part} of the record, but its hints() do not set {hint}")
