"""Hostile bytes give a value or a CodecError, in time and memory proportional to their size."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fuzz import run
from fuzz.mutations import mutated
from fuzz.run import FuzzError, check, decoders, fuzz
from fuzz.samples import sample, structs, versions
from hypothesis import given
from hypothesis import strategies as some
from support.examples import some as few

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import Struct, decode, encode, read_tags, reader, skipper, write_tags
from kafka_sidecar.codec.wire import read_uvarint, write_uvarint

PAIRS = [(cls, version) for cls in structs() for version in versions(cls)]
RUNNER = Path(run.__file__)


def answers(decoder: Any, data: bytes) -> Any:
    """The result of a decoder; None if it rejects ``data``. Any other exception fails the test."""
    try:
        return decoder(data, 0)
    except CodecError:
        return None


@given(pair=some.sampled_from(PAIRS), data=some.binary(max_size=200))
def test_random_bytes_are_decoded_or_rejected(pair: tuple[type[Struct], int], data: bytes) -> None:
    found = answers(reader(*pair), data)
    if found is not None:
        assert found[1] <= len(data)
        written = encode(found[0], pair[1])
        assert encode(decode(pair[0], written, pair[1])[0], pair[1]) == written
    for _, decoder in decoders(*pair):
        answers(decoder, data)
    answers(decode_request_header, data)
    answers(read_tags, data)


@given(pair=some.sampled_from(PAIRS), seed=some.integers(0, 2**32))
def test_corrupt_messages_are_decoded_or_rejected(pair: tuple[type[Struct], int], seed: int) -> None:
    random = Random(seed)
    whole = encode(sample(random, *pair), pair[1])
    for _ in range(5):
        data = mutated(random, whole, whole)
        found = answers(reader(*pair), data)
        skipped = answers(skipper(*pair), data)
        if found is not None:
            # A skipper refuses nothing that a reader takes, and goes as far.
            assert skipped == found[1] <= len(data)


@given(pair=some.sampled_from(PAIRS), seed=some.integers(0, 2**32), data=some.data())
def test_a_message_truncated_at_any_byte_is_rejected(
    pair: tuple[type[Struct], int], seed: int, data: some.DataObject
) -> None:
    whole = encode(sample(Random(seed), *pair), pair[1])
    if whole:
        cut = whole[: data.draw(some.integers(0, len(whole) - 1))]
        assert answers(reader(*pair), cut) is None
        assert answers(skipper(*pair), cut) is None


@given(some.integers(0, 2**35 - 1))
def test_a_varint_is_decoded_as_it_was_encoded(value: int) -> None:
    data = write_uvarint(value)
    assert read_uvarint(b"x" + data + b"x", 1) == (value, 1 + len(data))


@given(some.lists(some.tuples(some.integers(0, 2**35 - 1), some.binary(max_size=300)), max_size=4))
def test_unknown_tags_are_encoded_in_order(tags: list[tuple[int, bytes]]) -> None:
    data = write_tags(tags)
    assert read_tags(b"x" + data + b"x", 1) == (sorted(tags, key=lambda tag: tag[0]), 1 + len(data))


@pytest.mark.bulk
def test_a_huge_array_count_allocates_no_memory() -> None:
    outermost = [(cls, version) for cls in few(structs(), of=3) for version in {versions(cls)[0], versions(cls)[-1]}]
    for name, decoder in (way for pair in outermost for way in decoders(*pair)):
        with traced():
            for token in ("feffffff0f", "7ffffffe", "ffffffff7f"):
                check(name, decoder, bytes.fromhex(token) + bytes(60))


@pytest.mark.program
def test_the_fuzzer_ends_after_its_time_limit() -> None:
    assert fuzz(0.3, Random(1)) > 100
    done = subprocess.run([sys.executable, RUNNER, "0.1", "7"], check=True, capture_output=True, text=True)
    assert "executions" in done.stdout


@contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_the_fuzzer_reports_every_exception_other_than_codec_error() -> None:
    with pytest.raises(FuzzError, match="ZeroDivisionError"):
        check("a broken decoder", lambda data, at: 1 // at, b"abc")
    with traced(), pytest.raises(FuzzError, match="bytes for 3"):
        check("a greedy decoder", lambda data, at: bytes(2 << 20), b"abc")
