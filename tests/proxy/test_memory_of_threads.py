"""The memory of threads is given back, however many they are: of bombs, of honest batches, of clients that have gone.

On any machine. glibc gives each thread an arena of its own while there are fewer than eight for each core, so what is
kept depends on cores and time (docs/decisions/0025-memory-of-threads.md).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from harness.sidecar import Sidecar
from integration.validation.batches import batch, records
from support.bombs import gzip_of_zeros, lz4_of_zeros, xerial_of_zeros, zstd_of_zeros
from support.fake_broker import FakeBroker
from support.in_process import Client
from support.produce_requests import CORRELATION_ID, produce_request, results, stores
from support.sidecar_process import port_of, running

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records.compression import Codec, compress

pytestmark = [pytest.mark.program, pytest.mark.asyncio(loop_factories=["uvloop"])]  # the program chooses its own

MB = 1 << 20
AT_ONCE, HONEST_AT_ONCE = 16, 8
KEPT = 32 * MB  # at most, of what was there before
RETURNED_WITHIN_S = 10.0
ARENA = 64 * MB  # the size of a heap of a further arena; it begins at a multiple of it
VERSION = 9
ACCEPTED, INVALID_RECORD = 0, 87
RULES = """
threads: {count: 8}
policies:
  few-records: {type: limits, max_records: 1000}
topics:
  - {name: orders, policy: "require_header:h"}
interceptors:
  - {type: add_header, topics: [orders], headers: {seen: by}}
validation:
  max_batch: 64MiB
"""


def honest(codec: Codec, megabytes: int) -> bytes:
    """Records of 100 KB that are compressed to a thirtieth."""
    chance = random.Random(megabytes)
    values = [chance.randbytes(4096) * 25 for _ in range(10 * megabytes)]
    return batch(compress(codec, records(values)), len(values), attributes=codec)


BOMBS = {
    "gzip": lambda: batch(gzip_of_zeros(), 1, attributes=Codec.GZIP),
    "snappy": lambda: batch(xerial_of_zeros(), 1, attributes=Codec.SNAPPY),
    "lz4": lambda: batch(lz4_of_zeros(), 1, attributes=Codec.LZ4),
    "zstd": lambda: batch(zstd_of_zeros(), 1, attributes=Codec.ZSTD),
    "zstd with the largest window": lambda: batch(zstd_of_zeros(27), 1, attributes=Codec.ZSTD),
}
HONEST = {
    f"{codec.name.lower()}, {size} MB": (codec, size)
    for codec, size in (
        (Codec.GZIP, 8), (Codec.SNAPPY, 8), (Codec.LZ4, 8), (Codec.ZSTD, 8), (Codec.LZ4, 50), (Codec.ZSTD, 50)
    )
}  # fmt: skip


def arenas(pid: int) -> list[str]:
    """Mappings that are heaps of arenas beside the first one: what is used of one, then what is reserved for it.

    Others may begin at such an address by chance.
    """
    found: list[tuple[int, int, str]] = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        start, end = (int(address, 16) for address in line.split()[0].split("-"))
        found.append((start, end, line.split()[1]))
    return [
        f"{start:x}"
        for (start, used, access), (reserved, end, closed) in pairwise(found)
        if start % ARENA == 0 and (reserved, end) == (used, start + ARENA) and (access, closed) == ("rw-p", "---p")
    ]


def threads_and_children(pid: int) -> tuple[int, list[int]]:
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    return len(tasks), [int(child) for task in tasks for child in (task / "children").read_text().split()]


def resident(sidecar: Sidecar) -> int:
    """Bytes."""
    lines = Path(f"/proc/{sidecar.program.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))


def first_of(rows: Mapping[str, object]) -> list[object]:
    """The others are slow: each starts a program, whose threads share one arena whatever they decompress."""
    first = next(iter(rows))
    return [pytest.param(row, id=name, marks=[] if name == first else pytest.mark.slow) for name, row in rows.items()]


@asynccontextmanager
async def guarded(folder: Path, workers: int = 1) -> AsyncIterator[Sidecar]:
    rules = folder / "sidecar.yaml"
    rules.write_text(f"{RULES}workers: {workers}\nnodes: {{ports: 8}}\n")
    async with FakeBroker() as broker:
        broker.answers[ApiKey.PRODUCE] = stores
        async with running(broker, folder / "log", "--config", str(rules), "--log-level", "error") as sidecar:
            yield sidecar


async def answers(sidecar: Sidecar, data: bytes, at_once: int = AT_ONCE) -> set[int]:
    """Error codes, of many clients that send the batch at once."""
    frame = produce_request(VERSION, {"orders": {0: data}})

    async def one() -> int:
        client = await Client.connect(port_of(sidecar))
        client.send(frame)
        ((_, _, code, _),) = results(VERSION, await client.frame(), CORRELATION_ID)
        client.close()
        return code

    return set(await asyncio.gather(*(one() for _ in range(at_once))))


async def is_given_back(sidecar: Sidecar, before: int) -> None:
    ends = time.monotonic() + RETURNED_WITHIN_S
    while (kept := resident(sidecar) - before) > KEPT:
        assert time.monotonic() < ends, f"{kept >> 20} MB more than before; arenas: {len(arenas(sidecar.program.pid))}"
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("made", first_of(BOMBS))
async def test_bombs_leave_no_memory_with_the_threads(made: Callable[[], bytes], tmp_path: Path) -> None:
    async with guarded(tmp_path) as sidecar:
        before, data = resident(sidecar), made()
        for _ in range(2):
            assert await answers(sidecar, data) == {INVALID_RECORD}
            await is_given_back(sidecar, before)


@pytest.mark.parametrize("row", first_of(HONEST))
async def test_honest_batches_leave_no_memory_with_the_threads(row: tuple[Codec, int], tmp_path: Path) -> None:
    codec, size = row
    async with guarded(tmp_path) as sidecar:
        before, data = resident(sidecar), honest(codec, size)
        assert await answers(sidecar, data, HONEST_AT_ONCE) == {ACCEPTED}
        await is_given_back(sidecar, before)


async def test_clients_that_do_not_wait_leave_no_memory_with_the_threads(tmp_path: Path) -> None:
    async with guarded(tmp_path) as sidecar:
        before, frame = resident(sidecar), produce_request(VERSION, {"orders": {0: BOMBS["lz4"]()}})
        for pause_s in (0.02, 0.05, 0.1, 0.2):
            clients = [await Client.connect(port_of(sidecar)) for _ in range(AT_ONCE)]
            for client in clients:
                client.send(frame)
            await asyncio.gather(*(client.flush() for client in clients))
            await asyncio.sleep(pause_s)
            for client in clients:
                client.abort()
        await is_given_back(sidecar, before)


@pytest.mark.parametrize("workers", [1, 2])
async def test_all_threads_of_a_process_share_one_arena(workers: int, tmp_path: Path) -> None:
    async with guarded(tmp_path, workers) as sidecar:
        await answers(sidecar, BOMBS["zstd"]())
        _, children = threads_and_children(sidecar.program.pid)
        serving = children or [sidecar.program.pid]
        assert len(serving) == workers
        assert max(threads_and_children(pid)[0] for pid in serving) > 2
        assert [line for pid in serving for line in arenas(pid)] == []
