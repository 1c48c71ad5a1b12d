"""The allocator's configuration breaks nothing. Its benefit is measured in bench/."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.runtime.allocator import configure_allocator, share_arena

# What threads have used and let go, in bytes of memory that the process has. The parts are below the limit for mappings
# of their own, and all of them together below the one for a free end of an arena.
THREADS = """
import threading
from pathlib import Path
from kafka_sidecar.proxy.runtime import allocator

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) << 12

allocator.share_arena()
allocator.configure_allocator()
before, used, end = resident(), threading.Barrier(9), threading.Event()

def work():
    parts = [b"x" * (1 << 20) for _ in range(16)]
    del parts
    used.wait()
    end.wait()

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
used.wait()
allocator.release_unused_memory()
print(resident() - before)
end.set()
"""


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    """Objects frozen by `tests/conftest.py` would hide those that `configure_allocator` freezes."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_existing_objects_are_frozen() -> None:
    assert gc.get_freeze_count() == 0
    configure_allocator()
    assert gc.get_freeze_count() > 0


def test_garbage_of_start_up_is_collected_first() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    Knot()
    configure_allocator()
    gc.unfreeze()
    assert not [thing for thing in gc.get_objects() if type(thing) is Knot]


def test_memory_that_threads_have_let_go_is_returned_while_they_live() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 8 << 20


def test_another_c_library_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    share_arena()
    configure_allocator()
    assert gc.get_freeze_count() > 0
