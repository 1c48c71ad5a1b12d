"""One socket of a connection: reasons to pause it, and its end."""

from __future__ import annotations

import asyncio

import pytest

from kafka_sidecar.proxy.runtime import side as side_module
from kafka_sidecar.proxy.runtime.side import Side


class Transport(asyncio.Transport):
    """Records what is done to it."""

    def __init__(self, unsent: int = 0) -> None:
        super().__init__()
        self.done: list[str] = []
        self.unsent = unsent

    def pause_reading(self) -> None:
        self.done.append("pause")

    def resume_reading(self) -> None:
        self.done.append("resume")

    def is_closing(self) -> bool:
        return "close" in self.done

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def get_write_buffer_size(self) -> int:
        return self.unsent


def side_of(transport: Transport) -> Side:
    side = Side(1000)
    side.transport = transport
    return side


def test_a_side_is_paused_while_there_is_a_reason() -> None:
    transport = Transport()
    side = side_of(transport)
    for step in ("pause a", "pause b", "pause a", "resume a", "resume x"):
        what, reason = step.split()
        getattr(side, what)(reason)
        assert side.is_paused
    side.resume("b")
    assert not side.is_paused
    assert transport.done == ["pause", "resume"]


def test_a_side_that_is_closing_is_not_read_again() -> None:
    transport = Transport()
    side = side_of(transport)
    side.pause("a")
    side.close()
    side.resume("a")
    assert transport.done == ["pause", "close"]


@pytest.mark.parametrize(("unsent", "done"), [(0, ["close"]), (9, ["close", "abort"])])
async def test_a_peer_that_does_not_read_its_last_bytes_is_not_waited_for(
    unsent: int, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = asyncio.Event()
    monkeypatch.setattr(side_module, "LINGER_S", 0)
    transport = Transport(unsent)
    side_of(transport).close()
    asyncio.get_running_loop().call_later(0.001, later.set)
    await later.wait()
    assert transport.done == done
