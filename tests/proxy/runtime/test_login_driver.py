"""A client's login on its connection: responses, what is left for the broker, turns, pause and time limit."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from support.in_process import until

from kafka_sidecar.proxy.relay.exchange import Closing
from kafka_sidecar.proxy.runtime import logins
from kafka_sidecar.proxy.runtime.logins import Failures, LoginDriver, Verifications


class ClientLogin:
    """Opens at "open", closes at "bad", both in a turn; anything else is echoed."""

    def __init__(self, verify: Callable[[], bytes]) -> None:
        self.verify = verify
        self.is_open, self.is_rejected, self.rest, self.token = False, False, b"", b""
        self.needs_keys, self.is_quick, self.lifetime_s = False, False, None
        self.closing: Closing | None = None

    @property
    def awaits_turn(self) -> bool:
        return bool(self.token)

    def feed(self, chunk: bytes) -> bytes:
        if chunk.startswith((b"open", b"bad")):
            self.token = chunk
            return b""
        return b"re:" + chunk

    def take_turn(self, outcome: bytes) -> bytes:
        token, self.token = self.token, b""
        if token == b"bad":
            self.is_rejected, self.closing = True, Closing("client_authentication_failed", "wrong password")
        else:
            self.is_open, self.rest = True, token[4:]
        return b"re:" + token


class Side:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closing = False
        self.transport: SimpleNamespace | None = SimpleNamespace(
            write=self.written.append, is_closing=lambda: self.is_closing
        )
        self.client, self.ip = self, "192.0.2.1"
        self.received: list[bytes] = []
        self.data_received = self.received.append
        self.ended: list[Closing] = []

    def end(self, closing: Closing) -> None:
        self.ended.append(closing)


def login(
    limit_s: float = 10.0, thread: Verifications | None = None, verify: Callable[[], bytes] = lambda: b""
) -> tuple[Side, LoginDriver, Counter[str]]:
    side, counts = Side(), Counter[str]()
    thread = thread or Verifications()
    failures = Failures(lambda: 0.0)
    return side, LoginDriver(side, ClientLogin(verify), limit_s, counts, thread, failures), counts  # type: ignore[arg-type]


async def test_only_what_follows_the_login_is_for_the_broker() -> None:
    side, one, counts = login()
    assert [one.feed(b"hello"), one.feed(b"openrest")] == [b"", b""]
    await until(lambda: counts)
    assert one.feed(b"more") == b"more"
    assert side.received == [b"rest"]
    assert side.written == [b"re:hello", b"re:openrest"]
    assert counts == {"success": 1}


async def test_passwords_are_verified_one_after_the_other_and_the_event_loop_goes_on() -> None:
    thread, running, may_end = Verifications(), [0, 0], threading.Semaphore(0)

    def verify() -> bytes:
        running[0] += 1
        running[1] = max(running)
        assert may_end.acquire(timeout=10), "the event loop, which lets it end, waits for it"
        running[0] -= 1
        return b""

    made = [login(thread=thread, verify=verify) for _ in range(3)]
    for _, one, _ in made:
        one.feed(b"open")
    async with asyncio.timeout(40):
        while not all(side.written for side, *_ in made):
            await asyncio.sleep(0.02)  # in which another one would begin
            if running[0]:
                may_end.release()
    assert running[1] == 1


@pytest.mark.parametrize("has_gone", [True, False])
async def test_no_password_is_verified_of_a_client_that_has_gone_or_is_disconnected(has_gone: bool) -> None:
    verified: list[bool] = []
    side, one, counts = login(verify=lambda: verified.append(True) or b"")  # type: ignore[func-returns-value]
    one.feed(b"open")
    side.transport, side.is_closing = None if has_gone else side.transport, True
    await asyncio.sleep(0.05)
    assert (verified, side.written, counts) == ([], [], {})


async def test_a_rejection_is_sent_after_a_pause_and_nothing_is_read_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "REJECTED_PAUSE_S", 0.3)
    side, one, counts = login()
    one.feed(b"bad")
    await until(lambda: counts)
    assert one.feed(b"open") == b""
    assert (side.written, side.ended) == ([], [])
    await until(lambda: side.ended)
    assert side.written == [b"re:bad"]
    assert [closing.cause for closing in side.ended] == ["client_authentication_failed"]
    assert counts == {"failure": 1}


async def test_a_login_that_takes_too_long_ends_the_connection() -> None:
    side, one, _ = login(0.01)
    one.feed(b"hello")
    await until(lambda: side.ended)
    assert [closing.cause for closing in side.ended] == ["not_authenticated"]


async def test_a_login_that_has_succeeded_has_no_limit() -> None:
    side, one, counts = login(0.3)
    one.feed(b"open")
    await until(lambda: counts)
    await asyncio.sleep(0.4)
    assert side.ended == []
