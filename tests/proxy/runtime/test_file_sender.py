"""Responses that are partly in files: sent in order, in pieces, to clients that read slowly too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_sidecar.proxy.relay.exchange import Work
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.runtime.file_sender import PIECE_BYTES, SENDING, sender_for
from kafka_sidecar.proxy.runtime.flow import Flow
from kafka_sidecar.proxy.runtime.side import Side
from kafka_sidecar.proxy.runtime.unlinked_file import UnlinkedFile
from kafka_sidecar.proxy.telemetry.metrics import Buffered

VALUE = bytes(range(256)) * (PIECE_BYTES * 5 // 2 // 256)


class Client:
    """The client's side, and what it was sent."""

    def __init__(self) -> None:
        self.side = Side(1 << 16)
        self.side.transport = cast(asyncio.Transport, self)
        self.sent = bytearray()
        self.is_closed = False
        self.memory = MemoryBudget(1 << 20, Buffered())
        account = Account(self.memory)
        self.flow = Flow(account, self.side)
        self.ended: list[object] = []
        self.connection: Any = SimpleNamespace(
            flow=self.flow, client=self.side, session=SimpleNamespace(account=account), perform=self._perform, number=1,
            to_client=self, end=self.ended.append,
        )  # fmt: skip

    def write(self, data: bytes) -> None:
        self.sent += data

    def _perform(self, need: Work, number: int, is_request: bool) -> asyncio.Future[Any]:
        return asyncio.ensure_future(asyncio.to_thread(need.run))

    def send(self, *pieces: bytes | memoryview) -> None:
        to = sender_for(self.connection, self.connection.to_client, pieces)
        assert to is not None
        for piece in pieces:
            to.write(piece)

    async def until_sent(self) -> None:
        sender: Any = self.flow.sender
        if sender is not None and sender._task is not None:
            await asyncio.wait([sender._task], timeout=10)
        await asyncio.sleep(0)
        assert self.connection.to_client is self

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def get_write_buffer_size(self) -> int:
        return 0


def view(folder: Path, value: bytes = VALUE) -> memoryview:
    file = UnlinkedFile(folder, len(value), lambda fds: None)
    file.open()
    file.write(0, value)
    return file.view


async def test_without_a_file_nothing_is_in_between() -> None:
    client = Client()
    client.send(b"one", b"other")
    assert client.connection.to_client is client
    assert client.sent == b"oneother"


async def test_all_is_sent_in_order_and_what_comes_later_waits(tmp_path: Path) -> None:
    client = Client()
    client.send(b"before", view(tmp_path), b"after")
    client.connection.to_client.write(b"later")
    assert client.side.reasons == {SENDING}
    assert client.memory.spent == len(b"beforeafterlater")
    await client.until_sent()
    assert client.sent == b"before" + VALUE + b"after" + b"later"
    assert client.flow.bytes_from_files == len(VALUE)
    assert client.side.reasons == frozenset()
    assert client.memory.spent == 0
    assert client.flow.sender is None


async def test_what_is_written_just_after_the_last_piece_is_sent_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, write = Client(), Client.write

    def write_then_another(self: Client, data: bytes) -> None:
        write(self, data)
        if data == b"after":  # the task ends with this step, and its callbacks run in the next one
            asyncio.get_running_loop().call_soon(client.connection.to_client.write, b"late")

    monkeypatch.setattr(Client, "write", write_then_another)
    client.send(view(tmp_path), b"after")
    sender: Any = client.flow.sender
    await asyncio.wait([sender._task], timeout=10)
    for _ in range(5):  # turns of the loop: the callbacks, and a second task
        await asyncio.sleep(0)
    assert client.flow.sender is None
    assert client.sent == VALUE + b"after" + b"late"
    assert client.memory.spent == 0


async def test_nothing_is_read_ahead_of_a_client_that_reads_slowly(tmp_path: Path) -> None:
    client = Client()
    client.flow.client_is_slow()
    client.send(view(tmp_path))
    await asyncio.sleep(0.1)
    assert len(client.sent) == PIECE_BYTES
    client.flow.client_reads_again()
    await client.until_sent()
    assert client.sent == VALUE


async def test_a_connection_that_ends_closes_once_all_is_sent(tmp_path: Path) -> None:
    client = Client()
    client.send(view(tmp_path))
    assert client.flow.sender is not None
    client.flow.sender.close()
    assert not client.is_closed
    await client.until_sent()
    assert client.is_closed
    assert client.sent == VALUE


async def test_several_pieces_written_at_once_follow_the_file(tmp_path: Path) -> None:
    client = Client()
    client.send(view(tmp_path))
    client.connection.to_client.writelines([b"one", b"other"])
    await client.until_sent()
    assert client.sent == VALUE + b"oneother"


async def test_a_client_that_has_gone_ends_what_is_sent_at_once(tmp_path: Path) -> None:
    client = Client()
    client.send(b"before", view(tmp_path))
    client.side.transport = None
    client.flow.sender.close()  # type: ignore[union-attr]
    await client.until_sent()
    assert client.is_closed is False
    assert client.flow.sender is None
    assert client.memory.spent == 0


async def test_nothing_is_sent_to_a_client_that_has_gone(tmp_path: Path) -> None:
    client = Client()
    client.flow.client_is_slow()
    client.send(view(tmp_path), b"after")
    await asyncio.sleep(0.05)
    client.side.transport = None
    client.flow.end()
    client.flow.sender.close()  # type: ignore[union-attr]
    await client.until_sent()
    assert len(client.sent) <= PIECE_BYTES
    assert client.memory.spent == 0


async def test_a_file_that_cannot_be_read_ends_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError("no such device")

    client = Client()
    monkeypatch.setattr(UnlinkedFile, "read", fail)
    client.send(view(tmp_path))
    await client.until_sent()
    assert "no such device" in str(client.ended)


async def test_a_client_that_reads_slowly_gets_the_rest_as_it_reads_when_the_broker_has_gone(tmp_path: Path) -> None:
    client = Client()
    client.flow.client_is_slow()
    client.send(view(tmp_path))
    await asyncio.sleep(0.05)
    client.flow.end()
    assert client.flow.sender is not None
    client.flow.sender.close()
    await asyncio.sleep(0.1)
    assert len(client.sent) == PIECE_BYTES
    client.flow.client_reads_again()
    await client.until_sent()
    assert client.is_closed
    assert client.sent == VALUE
