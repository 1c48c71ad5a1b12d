"""Real batches for policies, which count how often they were decompressed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kafka_sidecar.codec.records import Batch, Header, NewRecord, Records, batches, build_batch
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import TopicMetadata

Headers = Sequence[tuple[str | bytes, bytes | None]]
NOW = 1_700_000_000_000  # ms


class Watched:
    """A batch that counts how often it is decompressed."""

    def __init__(self, batch: Batch) -> None:
        self.header = batch.header
        self.inflated = 0
        self._batch = batch

    def records(self, limit: int) -> Records:
        self.inflated += 1
        return self._batch.records(limit)


def new(value: bytes | None = b"", key: bytes | None = None, headers: Headers = (), timestamp: int = NOW) -> NewRecord:
    return NewRecord(value, key, [Header(*header) for header in headers], timestamp - NOW)


@pytest.fixture(params=[0, 3], ids=["plain", "lz4"])
def batch(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A batch of records, each given as the arguments of `new`."""

    def of(*records: dict[str, Any]) -> Watched:
        data = build_batch([new(**record) for record in records], codec=request.param, base_timestamp=NOW)
        (read,) = batches(data)
        return Watched(read)

    return of


@pytest.fixture
def orders() -> TopicMetadata:
    return TopicMetadata("orders", 3, bytes(16), "the whole string")


@pytest.fixture
def refusals(batch: Callable[..., Any], orders: TopicMetadata) -> Callable[..., list[tuple[int, str, str]]]:
    """(index, reason, message) of the records that one configured policy rejects."""

    def of(policy: str, settings: dict[str, Any], *records: dict[str, Any], argument: str = "") -> Any:
        catalog = PolicyCatalog({"it": PolicySettings(policy, settings=settings)})
        quoted = argument.replace('"', '""')
        found = catalog.plan(f'it:"{quoted}"').validate(orders, batch(*records), 1 << 20)
        return [(one.index, one.reason, one.message) for one in found]

    return of
