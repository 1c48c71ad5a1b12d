"""The default of connections.max_buffered under a container's memory limit."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kafka_sidecar.proxy.runtime.memory_limit import default_max_buffered, warn_if_too_large

MIB = 1 << 20
V2, V1 = "memory.max", "memory/memory.limit_in_bytes"


def cgroup(folder: Path, name: str, text: str) -> Path:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize("name", [V2, V1])
@pytest.mark.parametrize(
    ("limit_mib", "processes", "buffered_mib"),
    [(256, 1, 96), (1024, 1, 256), (1024, 5, 256), (512, 3, 160), (64, 1, 1)],
)
def test_half_of_what_the_limit_leaves_is_buffered(
    name: str, limit_mib: int, processes: int, buffered_mib: int, tmp_path: Path
) -> None:
    root = cgroup(tmp_path, name, f"{limit_mib * MIB}\n")
    assert default_max_buffered(processes, root) == buffered_mib * MIB


@pytest.mark.parametrize("text", ["max\n", f"{0x7FFFFFFFFFFFF000}\n"])
def test_without_a_limit_it_is_256_mib(text: str, tmp_path: Path) -> None:
    assert default_max_buffered(1, tmp_path) == 256 * MIB
    assert default_max_buffered(1, cgroup(tmp_path, V2, text)) == 256 * MIB


@pytest.mark.parametrize(("configured", "is_warned"), [(None, False), (192 * MIB, False), (193 * MIB, True)])
def test_a_configured_value_above_the_limit_is_a_warning(
    configured: int | None, is_warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_if_too_large(configured, 1, cgroup(tmp_path, V2, f"{256 * MIB}"))
    details = [vars(record)["detail"] for record in caplog.records if record.levelno == logging.WARNING]
    expected = "193 MiB, and the container's limit leaves 192 MiB: lower it, or raise the limit"
    assert details == ([expected] if is_warned else [])
