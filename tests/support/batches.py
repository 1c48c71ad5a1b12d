"""Batches as tests change them."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_sidecar.codec.records import Batch, Change, edit_records, reseal


def rebuilt(batch: Batch, changes: Mapping[int, Change | None]) -> bytes:
    """The batch with some of its records changed, by index, or removed (None); everything else stays."""
    records = batch.records()
    new = edit_records(records, ((records[index], changes[index]) for index in sorted(changes)))
    return bytes(batch.data) if new is records else reseal(batch, new)
