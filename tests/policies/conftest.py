"""Batches for policies, and a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafka_sidecar.policies.contract import TopicMetadata


@dataclass(frozen=True)
class StandInHeader:
    key: str
    value: bytes | None

    @property
    def key_bytes(self) -> bytes:
        return self.key.encode()


@dataclass(frozen=True)
class StandInRecord:
    index: int = 0
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[StandInHeader, ...] = ()
    timestamp: int = 0

    def header(self, name: bytes) -> bytes | None:
        return next((header.value for header in self.headers if header.key_bytes == name), None)

    @property
    def key_size(self) -> int:
        return -1 if self.key is None else len(self.key)

    @property
    def value_size(self) -> int:
        return -1 if self.value is None else len(self.value)

    def key_prefix(self, size: int) -> bytes | None:
        return self.key and self.key[:size]

    def value_prefix(self, size: int) -> bytes | None:
        return self.value and self.value[:size]


@dataclass
class StandInBatch:
    contents: list[StandInRecord] = field(default_factory=list)
    inflated: int = 0
    header: Any = None

    def records(self, limit: int) -> StandInBatch:
        self.inflated += 1
        return self

    def __iter__(self) -> Iterator[StandInRecord]:
        return iter(self.contents)

    def without_header(self, name: bytes) -> list[int]:
        return [record.index for record in self.contents if name not in [one.key_bytes for one in record.headers]]


@pytest.fixture
def batch() -> Callable[..., Any]:
    def of(*records: dict[str, Any]) -> Any:
        return StandInBatch([_record(index, **values) for index, values in enumerate(records)])

    return of


def _record(index: int, headers: Sequence[tuple[str, bytes | None]] = (), **values: Any) -> StandInRecord:
    return StandInRecord(index, headers=tuple(StandInHeader(*header) for header in headers), **values)


@pytest.fixture
def orders() -> TopicMetadata:
    return TopicMetadata("orders", 3, bytes(16), "the whole string")
