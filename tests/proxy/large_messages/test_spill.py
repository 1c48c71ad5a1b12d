"""Which messages go to files, what is counted, and what happens without room."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.in_process import config

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.large_messages.exposition import collect
from kafka_sidecar.proxy.large_messages.from_config import find_mistakes
from kafka_sidecar.proxy.large_messages.large_messages import LargeMessages
from kafka_sidecar.proxy.large_messages.spill import FAILED, FULL, NO_SPACE, Spill, SpillStats, max_response
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.runtime.threads import Threads
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Buffered

MIB = 1 << 20


def account(limit: int = 64 * MIB) -> Account:
    return Account(MemoryBudget(limit, Buffered()))


def spill(folder: Path, max_bytes: int = 100 * MIB) -> Spill:
    return Spill(folder, max_bytes, SpillStats(LogLimiter(60, lambda: 0.0)), Threads(1))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - a file that is closed sets no event
            await asyncio.sleep(0.01)


async def test_only_a_message_for_which_half_of_the_budget_has_no_room_goes_to_a_file(tmp_path: Path) -> None:
    one, client = spill(tmp_path), account()
    assert one.store(client, 16 * MIB) is None
    client.add(2 * MIB)
    assert one.store(client, 16 * MIB) is not None
    client.add(60 * MIB)
    assert one.store(client, MIB - 1) is None


async def test_a_message_is_written_and_its_room_is_free_once_it_is_not_held(tmp_path: Path) -> None:
    one = spill(tmp_path)
    store = one.store(account(), 40 * MIB)
    assert store is not None
    assert store.open()
    assert store.write(MIB, b"value")
    value = store.value
    assert bytes(value[MIB : MIB + 5]) == b"value"
    assert (one.stats.messages, one.stats.bytes, one.stats.held) == (1, 40 * MIB, 40 * MIB)
    del store, value
    await until(lambda: not one.stats.held)


async def test_beyond_its_limit_messages_wait_for_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one, client = spill(tmp_path), account()
    kept = [one.store(client, 40 * MIB) for _ in range(4)]
    assert [store is None for store in kept] == [False, False, True, True]
    assert one.stats.waits == {FULL: 2}
    assert [record.message for record in caplog.records] == ["large messages wait for memory"]


@pytest.mark.parametrize(("code", "reason"), [(errno.ENOSPC, NO_SPACE), (errno.EDQUOT, NO_SPACE), (errno.EIO, FAILED)])
async def test_without_room_on_the_disk_a_message_waits_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    def fail(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    one = spill(tmp_path)
    store = one.store(account(), 40 * MIB)
    assert store is not None
    assert not store.open()
    assert one.stats.waits == {reason: 1}
    del store
    gc.collect()
    await until(lambda: not one.stats.held)


@pytest.mark.parametrize(("code", "reason"), [(errno.ENOSPC, NO_SPACE), (errno.EDQUOT, NO_SPACE), (errno.EIO, FAILED)])
async def test_a_disk_that_fails_while_it_is_written_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    one = spill(tmp_path)
    store = one.store(account(), 40 * MIB)
    assert store is not None
    assert store.open()

    def fail(*_: object) -> int:
        raise OSError(code, "")

    monkeypatch.setattr(os, "pwrite", fail)
    assert not store.write(0, b"value")
    assert one.stats.waits == {reason: 1}


def test_responses_and_reads_are_a_part_of_the_budget(tmp_path: Path) -> None:
    assert [max_response(account(limit * MIB)) // MIB for limit in (8, 64, 256)] == [1, 2, 8]


def test_a_folder_that_is_not_writable_is_a_mistake(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    (mistake,) = find_mistakes(config("a:1", large_messages={"spill": {"folder": str(missing)}}))
    assert mistake.location == ("large_messages", "spill", "folder")
    assert mistake.text == (
        f"{missing}: No such file or directory; name a folder in which the sidecar may create files"
    )
    assert not list(find_mistakes(config("a:1", large_messages={"spill": {"folder": str(tmp_path)}})))


def test_metrics_say_how_many_messages_go_to_files_and_how_many_wait() -> None:
    large = LargeMessages(lambda topic_id: None, lambda name: NO_ID)
    stats = large.assembling.spill_stats
    stats.messages, stats.bytes, stats.held = 3, 3000, 1000
    stats.wait(FULL, "no room")
    large.stats.stored_offsets["wrapped"] += 2
    large.assembling.stats.dropped["damaged"] += 1
    found = {(one.name, *one.labels.values()): one.value for family in collect(large) for one in family.samples}
    name = "kafka_sidecar_large_messages_"
    assert found[f"{name}spilled_total",] == 3
    assert found[f"{name}spilled_bytes_total",] == 3000
    assert found[f"{name}spill_bytes",] == 1000
    assert found[f"{name}spill_waits_total", FULL] == 1
    assert found[f"{name}offsets_total", "wrapped"] == 2
    assert found[f"{name}dropped_total", "damaged"] == 1


def test_a_folder_in_which_no_file_can_be_created_is_a_mistake(tmp_path: Path) -> None:
    large = LargeMessages(lambda topic_id: None, lambda name: NO_ID)
    spilling = {"topics": [{"name": "orders"}], "spill": {"folder": str(tmp_path / "none")}}
    with pytest.raises(ConfigError, match="No such file"):
        large.load(config("a:1", large_messages=spilling))
