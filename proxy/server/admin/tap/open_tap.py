"""One open tap in one process that serves clients: how many lines it may show, and those that are due.

Lines are granted before anything is formatted: what is over the rate costs a count. Those that are granted are made
together, as they leave: the code of it is then read from memory once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.server.admin.tap.wanted import Filter, Wanted

FLUSH_S = 0.25  # lines wait at most so long, and leave together: the first of them costs ten times what others do
COUNT_S = 0.5  # the same of the number of those that were skipped, where no line leaves
BURST_S = 5.0  # of lines that were not used may come at once
GRANT_S = 0.25  # lines are granted for so long at a time: many of one request are cheaper than a few of each
MAX_ENCODED = 250  # in a turn of the event loop
MAX_NAME_CHARS = 249  # of a client id, software and principal

Line = Mapping[str, Any]
MakeLine = Callable[[], Line | None]  # None: it is not shown after all

# Called with lines, each with its end, their number, and the number of those that were skipped since the last call.
Deliver = Callable[[bytes, int, int], None]


class Timer(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]


class OpenTap:
    """What a tap shows of this process. Called in the event loop alone."""

    def __init__(
        self, wanted: Wanted, rate: int, deliver: Deliver, call_later: CallLater, clock: Callable[[], float]
    ) -> None:
        """
        Args:
            rate: lines a second.
            clock: seconds, monotonic.
        """
        self.wanted = wanted
        self.filter = Filter(wanted)
        self._rate = rate
        self._deliver = deliver
        self._call_later = call_later
        self._clock = clock
        self._granted_to = clock()  # up to when lines have been granted
        self._most = rate * BURST_S
        self._left = self._most
        self._lines: list[Line | MakeLine] = []
        self._skipped = 0
        self._before: set[Callable[[], None]] = set()  # what is called before lines leave
        self._timer: Timer | None = None
        self._is_soon = False  # whether what is added now leaves soon without another timer
        self.is_closed = False

    def grant(self, number: int) -> int:
        """How many of so many lines may be shown; the others are skipped, and counted."""
        left = self._left
        if left < number:
            left = self._renew()
        granted = number if number <= left else int(left)
        self._left -= granted
        if granted < number:
            self.skip(number - granted)
        return granted

    @property
    def has_left(self) -> bool:
        """Whether any line would be granted now."""
        return self._left >= 1 or self._renew() >= 1

    @property
    def wait_s(self) -> float:
        """Seconds until any line may be granted; 0: now."""
        return 0.0 if self.has_left else max(0.0, self._granted_to + GRANT_S - self._clock())

    def _renew(self) -> float:
        now = self._clock()
        if (steps := int((now - self._granted_to) / GRANT_S)) > 0:
            self._granted_to += steps * GRANT_S
            self._left = min(self._most, self._left + steps * GRANT_S * self._rate)
        return self._left

    def skip(self, number: int) -> None:
        """So many lines are not shown."""
        self._skipped += number
        self._wake(is_soon=False)

    def before_leaving(self, work: Callable[[], None]) -> None:
        """Call ``work`` once, before what is due leaves: it may skip lines, and grant them."""
        if not self.is_closed:
            self._before.add(work)
            self._wake(is_soon=False)

    def add(self, line: Line | MakeLine) -> None:
        """Show a line that was granted; what makes it is called as it leaves."""
        if not self.is_closed:
            self._lines.append(line)
            if not self._is_soon:
                self._wake(is_soon=True)

    def _wake(self, is_soon: bool) -> None:
        if self.is_closed or self._is_soon or (self._timer is not None and not is_soon):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._is_soon = is_soon
        self._timer = self._call_later(FLUSH_S if is_soon else COUNT_S, self._flush)

    def _flush(self) -> None:
        self._is_soon, self._timer = True, None  # whatever is added now leaves now, or in the next turn
        before, self._before = self._before, set()
        for work in before:
            work()
        due, self._lines = self._lines[:MAX_ENCODED], self._lines[MAX_ENCODED:]
        made = (one() if callable(one) else one for one in due)
        lines = [encoded(line) for line in made if line is not None]
        skipped, self._skipped = self._skipped, 0
        self._is_soon = bool(self._lines)
        self._timer = self._call_later(0, self._flush) if self._lines else None
        if lines or skipped:
            self._deliver(b"".join(lines), len(lines), skipped)

    def close(self) -> None:
        self.is_closed = True
        self._lines = []
        self._before = set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def encoded(line: Line) -> bytes:
    """One line of JSON, in ASCII: names that are no UTF-8 are escaped.

    >>> encoded({"topic": "a\\x1b"})
    b'{"topic":"a\\\\u001b"}\\n'
    """
    from kafka_sidecar.proxy.server.admin.live.encoding import encode

    return encode(line) + b"\n"


def client_of(client: Client) -> dict[str, Any]:
    """Whose request it is, as lines say it; what clients choose is cut."""
    return {
        "client_id": cut(client.client_id),
        "principal": cut(client.principal),
        "client": client.host,
        "session": client.number,
    }


def cut(text: str | None) -> str | None:
    return text[:MAX_NAME_CHARS] if text is not None else None
