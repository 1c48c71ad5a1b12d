"""One tap of all workers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.workers import Group, turns

from kafka_sidecar.proxy.server.admin.page import Page, Stream
from kafka_sidecar.proxy.server.workers.channel import CloseTap, OpenTap, Prepared, Serve, Serving, TapLines
from kafka_sidecar.proxy.server.workers.pages import WorkerPages
from kafka_sidecar.proxy.server.workers.supervisor import FIRST_PAUSE_S
from kafka_sidecar.proxy.server.workers.worker import MAX_WAITING_BYTES, OwnTaps
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate


class FakeViewer:
    ip = "10.0.0.1"
    waits = False

    def __init__(self) -> None:
        self.sent = b""
        self.has_left = False

    def send(self, data: bytes) -> None:
        self.sent += data

    def leave(self) -> None:
        self.has_left = True


@pytest.fixture
async def group() -> Group:
    group = Group(2)
    await group.serve()
    return group


def opened(group: Group, viewer: FakeViewer) -> Stream:
    stream = WorkerPages(group.supervisor, LogRate(1, time.monotonic)).page("/tap?kind=requests")
    assert isinstance(stream, Stream)
    assert not isinstance(stream, Page)
    stream.begin(viewer)
    return stream


async def test_a_tap_is_opened_in_each_worker_shows_the_lines_of_all_and_is_closed_in_each(group: Group) -> None:
    viewer = FakeViewer()
    stream = opened(group, viewer)
    asked = [group.child(number).sent.pop() for number in (1, 2)]
    assert asked[0] == asked[1]
    assert isinstance(asked[0], OpenTap)
    number = asked[0].number
    group.child(1).tell(TapLines(number, b'{"of": 1}\n', 1, 0))
    group.child(2).tell(TapLines(number, b'{"of": 2}\n', 1, 4))
    group.child(2).tell(TapLines(number + 1, b'{"of": "another"}\n', 1, 0))
    assert b'{"of": 1}\n{"of": 2}\n{"kind":"lost","lines":4,"rate":4}\n' in viewer.sent
    assert b"another" not in viewer.sent
    stream.end(viewer)
    assert [group.child(one).sent.pop() for one in (1, 2)] == [CloseTap(number)] * 2
    group.child(1).tell(TapLines(number, b'{"of": "late"}\n', 1, 0))
    assert b"late" not in viewer.sent


async def test_a_worker_that_is_started_again_is_tapped_too(group: Group) -> None:
    viewer = FakeViewer()
    stream = opened(group, viewer)
    asked = group.child(1).sent.pop()
    group.child(1).die()
    await turns()
    group.pause.end(FIRST_PAUSE_S)
    await turns()
    child = group.child(1)
    child.tell(Prepared())
    child.tell(Serving())
    assert child.sent == [Serve(), asked]
    stream.end(viewer)


class FakeChannel:
    waiting_bytes = 0

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, message: object) -> None:
        self.sent.append(message)


class FakeAdmin:
    def open_tap(self, wanted: object, deliver: Any) -> Any:
        self.deliver = deliver
        return lambda: None


def test_a_worker_whose_supervisor_reads_nothing_counts_its_lines_as_lost() -> None:
    channel, admin = FakeChannel(), FakeAdmin()
    taps = OwnTaps(admin, channel)  # type: ignore[arg-type]
    taps.open(3, object())  # type: ignore[arg-type]
    admin.deliver(b"a\n", 1, 0)
    channel.waiting_bytes = MAX_WAITING_BYTES + 1
    admin.deliver(b"a\nb\n", 2, 5)
    assert channel.sent == [TapLines(3, b"a\n", 1, 0), TapLines(3, b"", 0, 7)]
    taps.close(3)
    taps.close(3)
