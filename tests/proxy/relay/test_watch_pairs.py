"""Two taps of the same requests see what each would see alone."""

from __future__ import annotations

from typing import Any

import pytest
from support.dialogue import Dialogue, pieces, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.watch import Tap, TapWith, Watch
from kafka_sidecar.proxy.relay.watch_pairs import SizedWatch, in_turn

REQUEST, ANSWER = request(ApiKey.HEARTBEAT, 3, 7, bytes(100)), response(7, bytes(range(100)))


class Notes(SizedWatch):
    """Notes what it is shown, but for the bytes that it does not need."""

    __slots__ = ("events", "needless", "shown")

    def __init__(self, needless: int = 0) -> None:
        super().__init__()
        self.events: list[Any] = []
        self.needless = needless
        self.shown = b""

    def _show(self, data: bytes, start: int, end: int, last: bool, what: str) -> None:
        skipped = min(self.skip, end - start)
        self.skip -= skipped
        self.shown += data[start + skipped : end]
        if not self.shown[skipped:] and self.needless:
            self.skip = self.needless
        if last:
            self.events.append((what, self.shown))
            self.shown, self.skip = b"", 0

    def begins(self, size: int) -> None:
        self.events.append(("begins", size))

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        self._show(data, start, end, last, "request")

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        self._show(data, start, end, last, "response")

    def lost(self, why: str) -> None:
        self.events.append(("lost", why))

    def abandoned(self) -> None:
        self.events.append(("abandoned",))

    def done(self) -> None:
        self.events.append(("done",))


def seen(taps: list[Tap], notes: list[Notes], sizes: list[int]) -> list[list[Any]]:
    tap = taps[0] if len(taps) == 1 else in_turn(*taps) if len(taps) == 2 else in_turn(in_turn(*taps[:2]), taps[2])
    talk = Dialogue(tap=lambda key, version: tap)
    talk.client(*pieces(REQUEST, sizes)).broker(*pieces(ANSWER, sizes))
    assert talk.to_client == ANSWER
    return [one.events for one in notes]


@pytest.mark.parametrize("sizes", [[], [30], [20, 21, 60], list(range(1, 100, 7))])
@pytest.mark.parametrize("count", [2, 3])
def test_each_sees_all_that_it_needs(sizes: list[int], count: int) -> None:
    needless = [0, 25, 40][:count]
    together = [Notes(one) for one in needless]
    found = seen([TapWith(lambda _, one=one: one) for one in together], together, sizes)  # type: ignore[misc]
    for one, events in zip(needless, found, strict=True):
        alone = Notes(one)
        (expected,) = seen([TapWith(lambda _, alone=alone: alone)], [alone], sizes)  # type: ignore[misc]
        assert events == expected
        assert events[-1] == ("done",)
    assert found[0][0] == ("request", REQUEST)
    assert ("begins", len(ANSWER)) in found[0] or not sizes


class Uninterested(Tap):
    """Wants no response."""

    def show_request(self, *request: Any) -> Watch | None:
        return None


def test_one_of_them_may_not_want_the_response() -> None:
    for order in (0, 1):
        notes = Notes()
        pair = [TapWith(lambda _, notes=notes: notes), Uninterested()]  # type: ignore[misc]
        tap = in_turn(pair[order], pair[1 - order])
        talk = Dialogue(tap=lambda key, version, tap=tap: tap)  # type: ignore[misc]
        talk.client(REQUEST).broker(ANSWER)
        assert notes.events == [("request", REQUEST), ("response", ANSWER), ("done",)]


def test_both_get_to_know_that_the_connection_has_ended() -> None:
    both = Notes(), Notes()
    tap = in_turn(*(TapWith(lambda _, one=one: one) for one in both))  # type: ignore[misc]
    talk = Dialogue(tap=lambda key, version: tap)
    talk.client(REQUEST)
    talk.session.client_ended()
    talk.session.lost("gone")
    for one in both:
        assert one.events == [("request", REQUEST), ("abandoned",), ("lost", "gone")]
