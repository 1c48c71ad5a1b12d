"""What a watch sees of a response that leaves in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_sidecar.codec.pieces import Pieces
from kafka_sidecar.proxy.relay.exchange import NO_LARGE, LargeByPartition
from kafka_sidecar.proxy.relay.watched_exchange import WatchedExchange


class Watch:
    """Notes the bytes that it is shown; ``skip`` are not needed."""

    def __init__(self, skip: int) -> None:
        self.skip = skip
        self.shown: list[tuple[bytes, bool]] = []

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        assert now == 7.0
        self.shown.append((data[start:end], last))


class Inner:
    """An exchange whose response is already what the client gets."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces

    def response(self, frame: bytes) -> Any:
        return self._pieces
        yield

    def unhidden(self, frame: bytes) -> Pieces:
        return self._pieces

    def large_messages(self) -> LargeByPartition:
        return NO_LARGE


@pytest.mark.parametrize(
    ("skip", "shown"),
    [
        (0, [(b"head", False), (b"value", False), (b"tail", True)]),
        (4, [(b"value", False), (b"tail", True)]),
        (9, [(b"tail", True)]),
        (20, [(b"tail", True)]),  # the last one says that the response is whole
    ],
)
def test_pieces_that_the_watch_need_not_see_are_not_shown(skip: int, shown: list[tuple[bytes, bool]]) -> None:
    pieces = Pieces((b"head", memoryview(b"value"), b"tail"))
    watch: Any = Watch(skip)
    inner: Any = Inner(pieces)
    exchange = WatchedExchange(inner, watch, True, lambda: 7.0)
    exchange._wants_response = True
    with pytest.raises(StopIteration) as done:
        next(exchange.response(b"frame"))
    assert done.value.value is pieces
    assert watch.shown == shown
