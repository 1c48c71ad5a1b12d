"""The last rejected batches, each with an id that its log line and its client's error messages have (design D12).

Never a payload: neither keys nor values nor headers of a record are stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, islice
from secrets import choice

from kafka_sidecar.codec.envelope import OpenRequest
from kafka_sidecar.codec.records import BatchHeader
from kafka_sidecar.policies.plans import Rejection
from kafka_sidecar.proxy.exchanges.produce_response import PartitionRejection
from kafka_sidecar.proxy.features.validation.rules import Applied
from kafka_sidecar.proxy.relay.exchange import Client

MAX_RECENT = 1000  # rejected batches
MAX_ERRORS = 20  # rejected records that are stored of each
MAX_CLIENT_CHARS = 249  # of what clients call themselves
DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's, without letters that look like digits
PREFIX_DIGITS = 6  # of five bits


@dataclass(frozen=True, slots=True)
class Sender:
    """Whose request has brought a batch."""

    session: int | None = None  # number of the connection
    client: str | None = None  # its address
    client_id: str | None = None
    client_software: str | None = None
    principal: str | None = None
    correlation_id: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a batch is from, and what applied to it."""

    sender: Sender = Sender()
    header: BatchHeader | None = None  # None: the data is not a batch
    applied: Applied | None = None
    letter_topic: str | None = None  # the dead letter topic to which its records go


UNKNOWN = Origin()


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """One rejected batch."""

    id: str
    at: float  # seconds since the epoch
    topic: str
    partition: int
    mode: str
    policy: str
    reason: str
    message: str  # of the first rejected record
    index: int  # of that record; -1: the batch as a whole
    rejected_records: int
    errors: tuple[Rejection, ...]  # the first of these records
    origin: Origin


class RecentRejections:
    """The last rejected batches. Their ids begin alike in one process, and differently in each."""

    def __init__(self) -> None:
        self.prefix = "".join(choice(DIGITS) for _ in range(PREFIX_DIGITS))
        self._numbers = count(1)
        self._batches: deque[RejectedBatch] = deque(maxlen=MAX_RECENT)

    def next_id(self) -> str:
        return f"{self.prefix}-{next(self._numbers):x}"

    def add(self, batch: RejectedBatch) -> None:
        self._batches.append(batch)

    def find(self, rejection_id: str) -> RejectedBatch | None:
        """The batch with this id, if it is one of the last."""
        return next((batch for batch in self._batches if batch.id == rejection_id), None)

    def newest(self, number: int = MAX_RECENT) -> Iterable[RejectedBatch]:
        """The last ones, newest first."""
        return islice(reversed(self._batches), number)


def sender_of(client: Client, request: OpenRequest | None) -> Sender:
    """The sender of a request, as far as it has introduced itself."""
    return Sender(
        client.number, client.host, _cut(request.client_id if request is not None else client.client_id),
        _cut(client.client_software), _cut(client.principal), request.correlation_id if request is not None else None,
    )  # fmt: skip


def with_id(rejection: PartitionRejection, rejection_id: str) -> PartitionRejection:
    """For the client: each message says how an operator finds out more."""
    hint = f" (kafka-sidecar explain {rejection_id})"
    errors = tuple((index, message + hint) for index, message in rejection.record_errors)
    return PartitionRejection(rejection.error_code, rejection.message + hint, errors)


def _cut(text: str | None) -> str | None:
    return text[:MAX_CLIENT_CHARS] if text is not None else None
