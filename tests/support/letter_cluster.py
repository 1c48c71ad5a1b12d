"""A cluster in memory, in place of the connection to one: letters to read, and what is done with requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from kafka_sidecar.codec.records import Record, batches
from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError, Node, Read

Answer = tuple[int, list[tuple[int, str | None]], str | None]  # error code, record errors, message
ACCEPTED: Answer = (0, [], None)


@dataclass
class Sent:
    """A batch that came, and what was answered."""

    topic: str
    partition: int
    sequence: int
    values: list[bytes | None]
    code: int
    headers: list[list[str]] = field(default_factory=list)


@dataclass
class FakeCluster:
    """As `Cluster`. ``answer`` decides about a batch by its records."""

    letters: dict[tuple[str, int], list[Record]] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=lambda: {"orders": 1})
    answer: Callable[[list[Record]], Answer] = lambda records: ACCEPTED
    batches: list[Sent] = field(default_factory=list)
    offsets: dict[tuple[str, str, int], tuple[int, str]] = field(default_factory=dict)
    stored: list[bytes | None] = field(default_factory=list)  # of committed transactions
    requests: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)  # of other requests, by their names
    start: int = 0
    topic_configs: dict[str, dict[str, str] | ClusterError] = field(default_factory=dict)
    _open: list[bytes | None] = field(default_factory=list)
    _offset: tuple[tuple[str, str, int], tuple[int, str]] | None = None

    async def expand(self, names: list[str]) -> list[str]:
        return names

    async def partitions(self, topic: str) -> list[int]:
        found = sorted(partition for name, partition in self.letters if name == topic)
        if not found:
            raise ClusterError(f"topic {topic} does not exist, or may not be described")
        return found

    async def has_partition(self, topic: str, partition: int) -> bool:
        return partition < self.topics.get(topic, 0)

    async def configs(self, topic: str, names: list[str]) -> dict[str, str]:
        found = self.topic_configs.get(topic, {})
        if isinstance(found, ClusterError):
            raise found
        return {name: value for name, value in found.items() if name in names}

    async def start_of(self, topic: str, partition: int) -> int:
        return self.start

    async def committed(self, group: str, topic: str, partition: int) -> tuple[int, str]:
        return self.offsets.get((group, topic, partition), (-1, ""))

    async def read(self, topic: str, partition: int, first: int) -> AsyncGenerator[Read, None]:
        records = list(enumerate(self.letters[topic, partition]))[max(first, self.start) :]
        for at in range(0, len(records), 7):
            some = records[at : at + 7]
            yield Read(some, some[-1][0] + 1)

    def leader(self, topic: str, partition: int) -> Node:
        return _node

    def coordinator(self, kind: int, key: str) -> Node:
        return _node

    async def ask(self, node: Node, request: Any, code_of: Callable[[Any], int], group: int = 0) -> Any:
        name = type(request).__name__
        self.requests.append(name)
        code = self.codes.get(name, 0)
        match request:
            case InitProducerIdRequest():
                self._open, self._offset = [], None
                return SimpleNamespace(error_code=code, producer_id=5, producer_epoch=1)
            case AddPartitionsToTxnRequest():
                return SimpleNamespace(errors=[("orders", [(0, code)])])
            case AddOffsetsToTxnRequest():
                return SimpleNamespace(error_code=code)
            case TxnOffsetCommitRequest():
                ((topic, ((partition, offset, metadata),)),) = request._topics
                self._offset = (request._group_id, topic, partition), (offset, metadata)
                return SimpleNamespace(errors=[(topic, [(partition, code)])])
            case EndTxnRequest():
                if request._transaction_result and not code:
                    self.stored += self._open
                    if self._offset is not None:
                        self.offsets[self._offset[0]] = self._offset[1]
                self._open, self._offset = [], None
                return SimpleNamespace(error_code=code)
        return self._produce(request)

    def _produce(self, request: Any) -> Any:
        _, _, _, ((topic, ((partition, data),)),) = request._values
        (batch,) = batches(data)
        records = list(batch.records())
        values = [record.value for record in records]
        code, errors, message = self.answer(records)
        names = [[header.key for header in record.headers] for record in records]
        self.batches.append(Sent(topic, partition, batch.header.base_sequence, values, code, names))
        if not code:
            self._open += values
        return SimpleNamespace(topics=[(topic, [(partition, code, 0, -1, 0, errors, message)])])


async def _node() -> int:
    return 1
