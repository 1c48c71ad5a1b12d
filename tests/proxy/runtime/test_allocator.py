"""Settling memory: what it may not break. What it saves is measured in bench/."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator

import pytest

from kafka_sidecar.proxy.runtime.allocator import settle


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    """What `tests/conftest.py` has frozen would hide what `settle` does."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_was_there_is_not_looked_at_by_later_collections() -> None:
    assert gc.get_freeze_count() == 0
    settle()
    assert gc.get_freeze_count() > 0


def test_garbage_of_starting_up_is_collected_first() -> None:
    class Knot:
        def __init__(self) -> None:
            self.itself = self

    Knot()
    settle()
    gc.unfreeze()
    assert not [thing for thing in gc.get_objects() if type(thing) is Knot]


def test_a_c_library_that_has_no_such_limits_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    settle()
    assert gc.get_freeze_count() > 0
