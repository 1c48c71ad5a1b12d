"""What a policy sees of a record: what its hints asked for, and nothing else (KIP-940)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from kafka_sidecar.policies.contract import ALL, Hints

if TYPE_CHECKING:
    from kafka_sidecar.codec.records import Header, Record

EVERYTHING = Hints(access_headers=True, access_key_bytes=ALL, access_value_bytes=ALL, access_metadata=True)


def sees_all(hints: Hints) -> bool:
    """Whether there is nothing to hide; sizes and timestamp of a record that is walked are nobody's secret."""
    return hints | Hints(access_metadata=True) == EVERYTHING


class NotAskedForError(Exception):
    """A policy looks at what its hints did not name. Returning nothing instead would pass for a null."""

    def __init__(self, part: str, hint: str) -> None:
        super().__init__(f"the record's {part} is not there for a policy whose hints() leave {hint} unset")


class View:
    """A record behind the hints of one policy; the same object shows one record after the other."""

    __slots__ = ("_hints", "_record")

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._record: Record | None = None

    def of(self, record: Record | None) -> Record:
        """This view, now of another record, or of none. It is a `Record` to whoever looks."""
        self._record = record
        return cast("Record", self)

    def _asked(self, part: str, hint: str, asked: object = True) -> Record:
        if self._record is None or not asked:
            raise NotAskedForError(part, hint)
        return self._record

    @property
    def index(self) -> int:
        return self._asked("index", "access_metadata").index

    @property
    def timestamp(self) -> int:
        return self._asked("timestamp", "access_metadata").timestamp

    @property
    def key_size(self) -> int:
        return self._asked("key size", "access_metadata").key_size

    @property
    def value_size(self) -> int:
        return self._asked("value size", "access_metadata").value_size

    @property
    def key(self) -> bytes | None:
        """The key, or its first bytes where the hints ask for these only; None for null."""
        asked = self._hints.access_key_bytes
        record = self._asked("key", "access_key_bytes", asked)
        return record.key if asked == ALL else record.key_prefix(asked)

    @property
    def value(self) -> bytes | None:
        """The value, or its first bytes where the hints ask for these only; None for null."""
        asked = self._hints.access_value_bytes
        record = self._asked("value", "access_value_bytes", asked)
        return record.value if asked == ALL else record.value_prefix(asked)

    def key_prefix(self, size: int) -> bytes | None:
        asked = self._hints.access_key_bytes
        record = self._asked("key", "access_key_bytes", asked == ALL or 0 <= size <= asked)
        return record.key_prefix(size)

    def value_prefix(self, size: int) -> bytes | None:
        asked = self._hints.access_value_bytes
        record = self._asked("value", "access_value_bytes", asked == ALL or 0 <= size <= asked)
        return record.value_prefix(size)

    @property
    def headers(self) -> Sequence[Header]:
        return self._asked("headers", "access_headers", self._hints.access_headers).headers

    def header(self, name: str | bytes) -> Header | None:
        """The last header of that name, None where there is none."""
        return self._asked("headers", "access_headers", self._hints.access_headers).header(name)
