"""Loops over many records stop where their result is no longer needed."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard

from kafka_sidecar.codec.checkpoint import COMPILED, Stop, StoppedError, checkpoint, stoppable
from kafka_sidecar.codec.json.syntax import find_not_json
from kafka_sidecar.codec.records import (
    Header,
    NewRecord,
    Records,
    batches,
    build_batch,
    edit_records,
    with_header,
    without_headers,
)
from kafka_sidecar.codec.records.compression import Codec, compress, decompress

COUNT = COMPILED + 1


def records(one: NewRecord, count: int = COUNT) -> Records:
    (batch,) = batches(build_batch([one] * count))
    return batch.records()


MANY = records(NewRecord(b"1", b"k"))
LOOPS: dict[str, Callable[[Records], object]] = {
    "iteration": list,
    "check": lambda many: Records(many.payload, len(many)),
    "null keys": lambda many: many.null_keys(),
    "sizes": lambda many: many.sizes(),
    "limits": lambda many: many.larger_than(key=5),
    "timestamps": lambda many: many.timestamps(),
    "headers": lambda many: many.missing_header(b"x"),
    "new header": lambda many: with_header(many, b"k", b"v"),
    "removed headers": lambda many: without_headers(many, [b"k"]),
    "JSON": lambda many: find_not_json(many, of_key=False, max_depth=5),
    "edit": lambda many: edit_records(many, ((record, None) for record in many)),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_over_many_records_stops_at_a_checkpoint(loop: str) -> None:
    stop = Stop()
    with stoppable(stop):
        LOOPS[loop](MANY)
        stop.is_set = True
        with pytest.raises(StoppedError):
            LOOPS[loop](MANY)
    LOOPS[loop](MANY)


def test_the_check_of_many_headers_stops_at_a_checkpoint() -> None:
    many = records(NewRecord(b"1", headers=(Header("k", b""),) * COUNT), 1)
    stop = Stop()
    stop.is_set = True
    with stoppable(stop), pytest.raises(StoppedError):
        Records(many.payload, 1)


def test_few_large_values_are_checked_with_checkpoints_in_between() -> None:
    large = records(NewRecord(b'"' + b"x" * (1 << 20) + b'"'), 2)
    stop = Stop()
    stop.is_set = True
    with stoppable(stop), pytest.raises(StoppedError):
        find_not_json(large, of_key=False, max_depth=5)


PARTS: dict[str, tuple[Codec, bytes]] = {
    "gzip members": (Codec.GZIP, gzip.compress(b"a") * 2),
    "snappy blocks": (Codec.SNAPPY, compress(Codec.SNAPPY, bytes(100_000))),
    "zstd frames": (Codec.ZSTD, zstandard.compress(b"a") * 2),
    "pieces of an lz4 frame": (Codec.LZ4, lz4.frame.compress(bytes(2 << 20))),
    "pieces of a zstd frame": (Codec.ZSTD, zstandard.compress(bytes((2 << 20) - 1))),
}


@pytest.mark.parametrize("parts", PARTS)
def test_decompression_stops_between_two_parts(parts: str) -> None:
    codec, data = PARTS[parts]
    whole = decompress(codec, memoryview(data), 4 << 20)
    stop = Stop()
    with stoppable(stop):
        assert decompress(codec, memoryview(data), len(whole)) == whole
        stop.is_set = True
        with pytest.raises(StoppedError):
            decompress(codec, memoryview(data), len(whole))
    assert decompress(codec, memoryview(data), len(whole)) == whole


def test_a_flag_is_that_of_the_innermost_caller() -> None:
    outer, inner = Stop(), Stop()
    outer.is_set = True
    with stoppable(outer):
        with stoppable(inner):
            checkpoint()
        with pytest.raises(StoppedError):
            checkpoint()
    checkpoint()
