"""What a consumer shows of each fetched batch to its application, and which offsets a batch takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from struct import Struct

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.messages.share_fetch import AcquiredRecords
from kafka_sidecar.codec.records import BATCH_HEADER_SIZE, Batch

MAGIC = 2
ABORT = 0  # type of a control record; 1: COMMIT
CONTROL_KEY_SIZE = 4  # version int16, type int16
MAX_OFFSET = 2**63 - 1
_INT64 = Struct(">q")


class Visibility(Enum):
    """What a consumer shows of a batch."""

    SHOWN = "shown"
    NEVER = "never"  # control batches, and those that compaction has emptied
    SKIPPED = "skipped"  # records of aborted transactions, and those that a share group gives to others
    OLD = "old"  # formats that are not looked into


SHOWN = Visibility.SHOWN


def all_visible(found: list[Batch]) -> Iterator[tuple[Batch, Visibility]]:
    """For a consumer that reads uncommitted records."""
    for batch in found:
        yield batch, _of(batch)


def committed_only(
    aborted: Collection[AbortedTransaction],
) -> Callable[[list[Batch]], Iterator[tuple[Batch, Visibility]]]:
    """For a consumer that reads committed records, as Kafka's CompletedFetch decides it."""

    def visibilities(found: list[Batch]) -> Iterator[tuple[Batch, Visibility]]:
        pending = sorted(aborted, key=_first_offset, reverse=True)
        open_ones: set[int] = set()
        for batch in found:
            visibility = _of(batch)
            if visibility is not Visibility.OLD:
                header = batch.header
                while pending and pending[-1].first_offset <= header.base_offset + header.last_offset_delta:
                    open_ones.add(pending.pop().producer_id)
                if header.producer_id in open_ones:
                    if header.is_control:
                        if _is_abort(batch):
                            open_ones.discard(header.producer_id)
                    elif header.is_transactional:
                        visibility = Visibility.SKIPPED
            yield batch, visibility

    return visibilities


def acquired_only(
    acquired: Sequence[AcquiredRecords],
) -> Callable[[list[Batch]], Iterator[tuple[Batch, Visibility]]]:
    """For a share consumer (KIP-932): of a batch of which some records are acquired, all are taken as shown."""

    def visibilities(found: list[Batch]) -> Iterator[tuple[Batch, Visibility]]:
        for batch in found:
            visibility = _of(batch)
            if visibility is SHOWN:
                first = batch.header.base_offset
                last = first + batch.header.last_offset_delta
                if not any(one.first_offset <= last and first <= one.last_offset for one in acquired):
                    visibility = Visibility.SKIPPED
            yield batch, visibility

    return visibilities


def offsets_of(batch: Batch) -> tuple[int, int]:
    """The first and the last offset of a batch; of an older format, and of a damaged header, what is known of them."""
    (offset,) = _INT64.unpack_from(batch.data)  # in old formats, of the last message
    return offset, offset + (max(batch.header.last_offset_delta, 0) if batch.magic == MAGIC else 0)


def _of(batch: Batch) -> Visibility:
    """What every consumer shows of it."""
    if batch.magic != MAGIC:
        return Visibility.OLD
    header = batch.header
    if header.is_control:
        return Visibility.NEVER
    return SHOWN if header.count or len(batch.data) > BATCH_HEADER_SIZE else Visibility.NEVER


def _first_offset(transaction: AbortedTransaction) -> int:
    return transaction.first_offset


def _is_abort(batch: Batch) -> bool:
    try:
        key = next(iter(batch.records())).key
    except (CodecError, StopIteration):
        return False
    return key is not None and len(key) >= CONTROL_KEY_SIZE and int.from_bytes(key[2:4], "big") == ABORT
