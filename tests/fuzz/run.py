"""Feeds spoilt messages and record batches to every decoder: ``python tests/fuzz/run.py SECONDS [SEED]``.

Anything but a value or a CodecError, more than a second, or far more memory than the input explains ends it with
exit code 1 and the bytes that did it.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.batches import ask_everything, sample_batch, spoilt
from fuzz.mutations import mutated
from fuzz.samples import sample, structs, versions
from kafka_sidecar.codec.envelope import open_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.glance import glance_fetch, glance_produce
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import (
    TAGS,
    Buffer,
    Struct,
    encode,
    field_reader,
    read_tags,
    reader,
    skipper,
    span,
)
from kafka_sidecar.codec.messages.fetch import FetchRequest, FetchResponse
from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.scan import scan_fetch, scan_produce

SECONDS_PER_CALL = 1.0
MEMORY_PER_BYTE = 50
MEMORY_ALWAYS = 1 << 20
SAMPLES_PER_VERSION = 2
BATCHES = 300
HEADER_SIZE = 15  # of a request, with the length before it, an empty client id and an empty tag section

SCANS: dict[type[Struct], Callable[[bytes, int, int], Any]] = {ProduceRequest: scan_produce, FetchResponse: scan_fetch}

Decoder = Callable[[bytes, int], Any]


class FuzzError(Exception):
    """A decoder did something else than it may."""


def check(name: str, decoder: Decoder, data: bytes) -> Any:
    """What ``decoder`` makes of ``data``; None where it refuses.

    Raises:
        FuzzError: it raised something else than CodecError, took too long or took too much memory (while
            tracemalloc runs).
    """
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    start = time.perf_counter()
    value = None
    try:
        value = decoder(data, 0)
    except CodecError:
        pass
    except Exception as error:
        raise FuzzError(f"{name}: {error!r}") from error
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1] - before
    if seconds > SECONDS_PER_CALL:
        raise FuzzError(f"{name}: took {seconds:.1f} s")
    if peak > MEMORY_PER_BYTE * len(data) + MEMORY_ALWAYS:
        raise FuzzError(f"{name}: took {peak} bytes for {len(data)}")
    return value


def decoders(cls: type[Struct], version: int) -> Iterator[tuple[str, Decoder]]:
    """Every way to take a ``cls`` apart, by name."""
    title = f"{cls.__module__.rpartition('.')[2]}.{cls.__name__} v{version}"
    yield f"skipper of {title}", skipper(cls, version)
    yield f"tags of {title}", span(cls, TAGS, version)
    for field in cls.declaration_.plain(version):
        yield f"span of {field.name} of {title}", span(cls, field.name, version)
        yield f"{field.name} of {title}", field_reader(cls, field.name, version)
        yield f"skipper after {field.name} of {title}", skipper(cls, version, after=field.name)
    for field in cls.declaration_.tagged(version):
        yield f"{field.name} of {title}", field_reader(cls, field.name, version)


def attack(title: str, cls: type[Struct], version: int, others: list[tuple[str, Decoder]], data: bytes) -> int:
    """Give ``data`` to the reader of ``cls``, to its scan and to some ``others``; what could be read must be writable.
    Returns the number of calls."""
    found = check(f"reader of {title}", reader(cls, version), data)
    if found is not None:
        try:
            encode(found[0], version)
        except Exception as error:
            raise FuzzError(f"writer of {title}: {error!r}") from error
    if (scan := SCANS.get(cls)) is not None:
        scanned = check(f"scan of {title}", lambda data, at: scan(data, at, version), data)
        if (scanned and scanned.end) != (found and found[1]):
            raise FuzzError(f"scan of {title}: found {scanned}, and its reader {found}")
    for name, decoder in others:
        check(name, decoder, data)
    return 1 + len(others)


def glance(data: Buffer, at: int) -> None:
    """Take ``data`` for the body of a request, of any version."""
    frame = bytes(HEADER_SIZE) + data[at:]
    version = len(data) % len(versions(FetchRequest))
    glance_produce(frame, 0, len(frame), version)
    glance_fetch(frame, 0, len(frame), version + versions(FetchRequest)[0])


def fuzz(seconds: float, source: Random) -> int:
    """Attack for that long. Returns the number of calls; raises FuzzError with the bytes in its notes."""
    targets = [(cls, version) for cls in structs() for version in versions(cls)]
    ways = {target: list(decoders(*target)) for target in targets}
    sound = [sample_batch(source) for _ in range(BATCHES)]
    corpus = [encode(sample(source, *target), target[1]) for target in targets for _ in range(SAMPLES_PER_VERSION)]
    general: list[tuple[str, Decoder]] = [
        ("request header", decode_request_header),
        ("read_tags", read_tags),
        ("glances", glance),
        ("open_request", lambda data, at: open_request(data[at:])),
    ]
    calls = 0
    end = time.monotonic() + seconds
    tracemalloc.start()
    while time.monotonic() < end:
        for _ in range(100):
            index = source.randrange(len(corpus))
            target = targets[index // SAMPLES_PER_VERSION]
            data = mutated(source, corpus[index], source.choice(corpus))
            batch = spoilt(source, source.choice(sound))
            others = [ways[target][0], source.choice(ways[target]), source.choice(general)]
            try:
                calls += attack(f"{target[0].__name__} v{target[1]}", *target, others, data)
                check("record batches", ask_everything, batch)
            except FuzzError as failure:
                failure.add_note(data.hex())
                failure.add_note(batch.hex())
                raise
            calls += 1
    tracemalloc.stop()
    return calls


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    try:
        calls = fuzz(seconds, Random(seed))
    except FuzzError as failure:
        print(failure, *failure.__notes__, sep="\n")
        return 1
    print(f"{calls} executions, all refused or read")
    return 0


if __name__ == "__main__":
    sys.exit(main())
