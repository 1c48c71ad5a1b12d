"""Requests of our own on a session's connection to the broker (`Send`), until all of them are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_sidecar.proxy.relay.exchange_driver import Driver


class OwnRequests:
    """What one `Send` has asked, and the responses so far, in order."""

    __slots__ = ("answers", "awaited", "driver", "expected", "take")

    def __init__(self, driver: Driver, expected: int, take: Callable[[bytes], None] | None = None) -> None:
        self.driver = driver
        self.expected = expected
        self.take = take
        self.answers: list[bytes] = []
        self.awaited = 0  # bytes that must come before the next response can be whole

    def add(self, frame: bytes) -> bool:
        """A response has come. Whether the exchange that waits for all of them goes on."""
        if self.take is not None:
            self.take(frame)
            return False
        self.answers.append(frame)
        return self.are_answered

    def may_be_answered(self, size: int) -> bool:
        """Whether the next response may be whole after ``size`` more bytes."""
        self.awaited -= size
        return self.awaited <= 0

    @property
    def are_answered(self) -> bool:
        return len(self.answers) == self.expected
