"""A producer whose batches may be rejected in part: what is left of one is sent again, in the same transaction.

A batch that was rejected has used no sequence numbers, neither at the sidecar nor at a broker.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.protocol.api import Request
from aiokafka.protocol.produce import ProduceRequest_v8
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from kafka_sidecar.codec.apis import ErrorCode, error_name
from kafka_sidecar.codec.batch_layout import TRANSACTIONAL
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.dead_letters.letters import OutgoingRecord
from kafka_sidecar.proxy.cli.dead_letters.cluster import Cluster, ClusterError, check, codes_of

ALL = -1  # acks
PRODUCE_MS = 30_000
TRANSACTION_MS = 300_000
BATCH_RECORDS, BATCH_BYTES = 500, 512 << 10  # below Kafka's default of max.message.bytes
MAX_SEQUENCE = 2**31 - 1
HINT = re.compile(r" \(kafka-sidecar explain [^)]*\)$")
# Of a whole topic, or of a sidecar: it makes no difference which records are sent.
OF_ALL = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}  # fmt: skip
FATAL = {
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTION_ABORTABLE,
}  # fmt: skip
FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


class _Produce(Request[ProduceRequest_v8]):  # type: ignore[misc]  # aiokafka has no types
    """The first version whose response names the records that were rejected (KIP-467)."""

    API_KEY = 0
    required_acks = ALL

    def __init__(self, transactional_id: str, topic: str, partition: int, batch: bytes) -> None:
        self._values = (transactional_id, ALL, PRODUCE_MS, [(topic, [(partition, batch)])])

    def build(self, request_struct_class: Any) -> Any:
        return request_struct_class(*self._values)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record was not accepted."""

    error: str  # Kafka's name
    message: str


class Producer:
    """The producer of one transactional id. One transaction at a time: `begin`, `send`, `commit` or `abort`."""

    def __init__(self, cluster: Cluster, transactional_id: str, codec: int) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._codec = codec
        self._producer_id, self._epoch = -1, -1
        self._sequences: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._is_open = False

    async def start(self) -> None:
        """End whatever an earlier one of this id has begun. Raises ClusterError."""
        request = InitProducerIdRequest(self._id, TRANSACTION_MS)
        response = await self._ask(request, lambda found: found.error_code)
        self._check(response.error_code)
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch

    async def begin(self, targets: Sequence[tuple[str, int]]) -> None:
        """Begin a transaction with these partitions. Raises ClusterError."""
        topics = defaultdict[str, list[int]](list)
        for topic, partition in targets:
            topics[topic].append(partition)
        self._is_open = True
        request = AddPartitionsToTxnRequest(self._id, self._producer_id, self._epoch, list(topics.items()))
        response = await self._ask(request, lambda found: codes_of(found.errors))
        self._check(codes_of(response.errors))

    async def send(self, records: Sequence[OutgoingRecord]) -> list[Refusal | None]:
        """What becomes of each record; None: it is accepted. Raises ClusterError."""
        targets = defaultdict[tuple[str, int], list[int]](list)
        for at, record in enumerate(records):
            targets[record.topic, record.partition].append(at)
        answers: list[Refusal | None] = [None] * len(records)

        async def send_to(places: list[int]) -> None:
            found = await send_in_order([records[at] for at in places], self._produce)
            for at, answer in zip(places, found, strict=True):
                answers[at] = answer

        await asyncio.gather(*(send_to(places) for places in targets.values()))
        return answers

    async def commit(self, group: str, topic: str, partition: int, offset: int, metadata: str) -> None:
        """End the transaction; it has the offset of a group, too. Raises ClusterError."""
        add = AddOffsetsToTxnRequest(self._id, self._producer_id, self._epoch, group)
        self._check((await self._ask(add, lambda found: found.error_code)).error_code)
        request = TxnOffsetCommitRequest(
            self._id, group, self._producer_id, self._epoch, [(topic, [(partition, offset, metadata)])]
        )
        coordinator = self._cluster.coordinator(CoordinationType.GROUP, group)
        response = await self._cluster.ask(
            coordinator, request, lambda found: codes_of(found.errors), ConnectionGroup.COORDINATION
        )
        check(codes_of(response.errors), f"group {group}")
        await self._end(is_committed=True)

    async def abort(self) -> None:
        """Let nothing of the open transaction be seen; does nothing without one. Raises ClusterError."""
        if self._is_open:
            await self._end(is_committed=False)

    async def _end(self, is_committed: bool) -> None:
        request = EndTxnRequest(self._id, self._producer_id, self._epoch, is_committed)
        self._check((await self._ask(request, lambda found: found.error_code)).error_code)
        self._is_open = False

    async def _ask(self, request: Any, code_of: Any) -> Any:
        coordinator = self._cluster.coordinator(CoordinationType.TRANSACTION, self._id)
        return await self._cluster.ask(coordinator, request, code_of, ConnectionGroup.COORDINATION)

    def _check(self, code: int) -> None:
        if code in FENCED:
            raise ClusterError(f"another replay of this group has begun ({error_name(code)})")
        check(code, f"transactional id {self._id}")

    async def _produce(self, records: list[OutgoingRecord]) -> tuple[int, dict[int, str], str]:
        """Error code, messages by index, and message."""
        target = (records[0].topic, records[0].partition)
        batch = batch_of(records, self._codec, TRANSACTIONAL, self._producer_id, self._epoch, self._sequences[target])
        request = _Produce(self._id, *target, batch)
        response = await self._cluster.ask(
            self._cluster.leader(*target), request, lambda found: found.topics[0][1][0][1]
        )
        _, code, *_, errors, message = response.topics[0][1][0]
        if code in FATAL:
            self._check(code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._sequences[target] = (self._sequences[target] + len(records)) & MAX_SEQUENCE
        return code, {at: HINT.sub("", text or "") for at, text in errors or ()}, HINT.sub("", message or "")


async def send_in_order(
    records: list[OutgoingRecord], produce: Callable[[list[OutgoingRecord]], Awaitable[tuple[int, dict[int, str], str]]]
) -> list[Refusal | None]:
    """What becomes of records of one partition: in batches, each until all of it is accepted or refused.

    ``produce`` answers with an error code, messages by index, and a message.
    """
    answers: dict[int, Refusal | None] = {}
    waiting = list(reversed(_batches(records)))
    while waiting:
        places = waiting.pop()
        code, errors, message = await produce([records[at] for at in places])
        refused = {places[at]: text for at, text in errors.items() if at < len(places)}
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            answers |= dict.fromkeys(places)
        elif not refused and len(places) > 1 and code not in OF_ALL:
            half = len(places) // 2
            waiting += [places[half:], places[:half]]
        else:
            refused = refused or dict.fromkeys(places, message)
            answers |= {at: Refusal(error_name(code), text or message) for at, text in refused.items()}
            if left := [at for at in places if at not in refused]:
                waiting.append(left)
    return [answers[at] for at in range(len(records))]


def batch_of(
    records: Sequence[OutgoingRecord], codec: int, attributes: int, producer_id: int, epoch: int = 0, sequence: int = 0
) -> bytes:
    """A batch of these records."""
    base = records[0].timestamp
    return build_batch(
        [NewRecord(one.value, one.key, one.headers, one.timestamp - base) for one in records],
        codec=codec, attributes=attributes, base_timestamp=base,
        max_timestamp=max(one.timestamp for one in records), producer_id=producer_id, producer_epoch=epoch,
        base_sequence=sequence,
    )  # fmt: skip


def _batches(records: Sequence[OutgoingRecord]) -> list[list[int]]:
    """Indices of records that are sent together."""
    found: list[list[int]] = []
    size = 0
    for at, record in enumerate(records):
        if not found or len(found[-1]) == BATCH_RECORDS or size + record.size > BATCH_BYTES:
            found.append([])
            size = 0
        found[-1].append(at)
        size += record.size
    return found
