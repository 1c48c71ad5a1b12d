"""The allocator's configuration breaks nothing. Its benefit is measured in bench/."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.runtime.allocator import configure_allocator


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


def test_another_c_library_is_not_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    configure_allocator()
    assert gc.get_freeze_count() > 0
