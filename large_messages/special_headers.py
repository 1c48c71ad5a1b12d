"""The headers `_t` and `_so` of li-apache-kafka-clients, as its producers and consumers add them to records.

Both values are an int64, big-endian: `_t` the time when the record was created (ms since 1970), `_so` the safe offset
after the record was delivered, where it is not the offset after it. `_lm` is in `lm_header.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from kafka_sidecar.codec.records import KEEP, Keep, Records, with_header_each

TIMESTAMP, SAFE_OFFSET = b"_t", b"_so"
NO_TIMESTAMP = -1

_INT64 = Struct(">q")
_MAX_BYTES = (1 << 31) - 1  # that a batch may have


def with_timestamps(records: Records, now_ms: int) -> Records:
    """The records, each with `_t`, but for those that have one: they keep the time of their first topic.

    Args:
        now_ms: for records without a timestamp.
    """
    times = [_INT64.pack(now_ms if time == NO_TIMESTAMP else time) for time in records.timestamps()]
    return with_header_each(records, TIMESTAMP, times, only_if_absent=True, limit=_MAX_BYTES)


def with_safe_offsets(base_offset: int, records: Records, safe_offset: Callable[[int], int]) -> Records:
    """The records of a batch, those with `_so` after which a large message is incomplete; themselves if there are none.

    Args:
        safe_offset: S of a committed offset.
    """
    following = [base_offset + record.offset_delta + 1 for record in records]
    safe = [safe_offset(offset) for offset in following]
    if safe == following:
        return records
    values: list[bytes | Keep | None] = [
        KEEP if one == offset else _INT64.pack(one) for one, offset in zip(safe, following, strict=True)
    ]
    return with_header_each(records, SAFE_OFFSET, values, limit=_MAX_BYTES)
