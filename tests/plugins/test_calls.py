"""The plug-in that a thread is calling, found by another thread."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kafka_sidecar.plugins.calls import Call, call_in, calls_plug_in, lines_of


@calls_plug_in(lambda of: Call("policy", of["name"], "validate", of["topic"]))
def call(name: str, topic: str, inner: object) -> None:
    inner()  # type: ignore[operator]


@calls_plug_in(lambda of: Call("policy", of["not_there"], "validate"))
def call_too_early() -> None:
    free.wait(10)


free = threading.Event()


@contextmanager
def frame_of(work: object) -> Iterator[FrameType | None]:
    """The stack of a thread that does this work."""
    free.clear()
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    try:
        yield sys._current_frames().get(thread.ident or 0)
    finally:
        free.set()
        thread.join()


def test_the_innermost_call_counts_and_says_what_it_is_for() -> None:
    with frame_of(lambda: call("outer", "a", lambda: call("inner", "b", lambda: free.wait(10)))) as frame:
        assert call_in(frame) == Call("policy", "inner", "validate", "b")
        assert any(line.endswith(" call") and "test_calls.py:" in line for line in lines_of(frame))


def test_a_thread_that_calls_none_has_none() -> None:
    with frame_of(lambda: free.wait(10)) as frame:
        assert call_in(frame) is None
    assert lines_of(None) == []


def test_a_call_whose_variables_are_not_there_yet_is_unknown() -> None:
    with frame_of(call_too_early) as frame:
        assert call_in(frame) is None
