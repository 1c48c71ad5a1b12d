"""A client's login on its connection: responses, what is left for the broker, pause and time limit."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime import client_login
from kafka_sidecar.proxy.runtime.client_login import ClientLogin


class Gate:
    """Opens at "open", closes at "bad"; anything else is echoed."""

    def __init__(self) -> None:
        self.is_open, self.is_rejected, self.rest = False, False, b""
        self.closing: Closing | None = None

    def feed(self, chunk: bytes) -> bytes:
        self.is_open = chunk.startswith(b"open")
        self.rest = chunk[4:]
        if chunk == b"bad":
            self.is_rejected, self.closing = True, Closing("client_authentication_failed", "wrong password")
        return b"re:" + chunk


class Side:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.transport = SimpleNamespace(write=self.written.append)
        self.client = self
        self.ended: list[Closing] = []

    def end(self, closing: Closing) -> None:
        self.ended.append(closing)


def login(limit_s: float = 10.0) -> tuple[Side, ClientLogin, Counter[str]]:
    side, counts = Side(), Counter[str]()
    return side, ClientLogin(side, Gate(), limit_s, counts), counts  # type: ignore[arg-type]


async def test_only_what_follows_the_login_is_for_the_broker() -> None:
    side, one, counts = login()
    assert [one.feed(b"hello"), one.feed(b"openrest"), one.feed(b"more")] == [b"", b"rest", b"more"]
    assert side.written == [b"re:hello", b"re:openrest"]
    assert counts == {"success": 1}


async def test_a_rejection_is_sent_after_a_pause_and_nothing_is_read_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_login, "REJECTED_PAUSE_S", 0.02)
    side, one, counts = login()
    assert [one.feed(b"bad"), one.feed(b"open")] == [b"", b""]
    assert (side.written, side.ended) == ([], [])
    await asyncio.sleep(0.05)
    assert side.written == [b"re:bad"]
    assert [closing.cause for closing in side.ended] == ["client_authentication_failed"]
    assert counts == {"failure": 1}


async def test_a_login_that_takes_too_long_ends_the_connection() -> None:
    side, one, _ = login(0.01)
    one.feed(b"hello")
    await asyncio.sleep(0.03)
    assert [closing.cause for closing in side.ended] == ["not_authenticated"]


async def test_a_login_that_has_succeeded_has_no_limit() -> None:
    side, one, _ = login(0.01)
    one.feed(b"open")
    await asyncio.sleep(0.03)
    assert side.ended == []
