"""Which work on a batch would hold up other connections, so that it is done in a thread."""

from __future__ import annotations

import sys

from kafka_sidecar.codec.records import Batch

# Compressed bytes from which on a batch is inflated in a thread: there the hop costs little beside the work. By codec;
# an unknown one is rejected without any.
MIN_OFFLOADED_BYTES = {0: 1 << 20, 1: 64 << 10, 2: 512 << 10, 3: 512 << 10, 4: 64 << 10}
MAX_INLINE_BYTES = 1 << 20  # inflated; a small batch that holds more is begun again in a thread
# The same for consumers' interceptors: mask_fields takes up to 400 ns for a byte of nested arrays, 200 of small fields.
MAX_INLINE_CONSUMED_BYTES = 64 << 10

# A thread is kept for batches up to these; they never wait for large ones of other connections.
MAX_LIGHT_BYTES, MAX_LIGHT_RECORDS = 1 << 20, 10_000
LIGHT_TURNS = 10  # of the event loop, which their records would take there


def takes_long(batch: Batch, max_records: int) -> bool:
    """Whether to look into the batch would hold up all others."""
    header = batch.header
    return header.count > max_records or len(batch.data) >= MIN_OFFLOADED_BYTES.get(header.codec, sys.maxsize)


def is_light(batch: Batch, records_at_once: int = MAX_LIGHT_RECORDS) -> bool:
    """Whether to look into the batch, in a thread, is soon done. So many of its records fit into a turn of the loop."""
    return are_light(batch.header.count, records_at_once) and len(batch.data) <= MAX_LIGHT_BYTES


def are_light(count: int, records_at_once: int) -> bool:
    """The same for a number of records, whatever their size."""
    return count <= MAX_LIGHT_RECORDS and count <= LIGHT_TURNS * records_at_once
