"""Frames that are counted several at once: all of them, and never many that wait."""

from __future__ import annotations

from kafka_sidecar.proxy.server.admin.waiting_frames import MAX_BYTES, MAX_FRAMES, WaitingFrames


def test_frames_wait_until_they_are_asked_for_and_are_counted_once_in_their_order() -> None:
    counted: list[bytes] = []
    waiting = WaitingFrames(lambda data, start, end: counted.append(data[start:end]))
    assert [waiting.add(b"one, two", 0, 3), waiting.add(b"one, two", 5, 8)] == [True, False]
    assert counted == []
    waiting.count()
    waiting.count()
    assert counted == [b"one", b"two"]


def test_no_more_wait_than_a_few_frames_and_bytes() -> None:
    counted: list[int] = []
    waiting = WaitingFrames(lambda data, start, end: counted.append(end - start))
    for _ in range(2 * MAX_FRAMES + 1):
        waiting.add(b"frame", 0, 5)
    assert len(counted) == 2 * MAX_FRAMES
    waiting.add(bytes(MAX_BYTES), 0, 1)  # what it is in is kept too
    assert counted == [5] * (2 * MAX_FRAMES + 1) + [1]
