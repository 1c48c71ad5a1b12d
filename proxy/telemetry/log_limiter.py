"""Rate limits of log lines, which count the suppressed ones: by kind, and of all together; and the redaction of errors.

With the limit of all lines no client can fill a disk, or keep the process busy with writing. What a limit has held back
is written once its period is over, whether another such line comes or not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from weakref import WeakSet

from kafka_sidecar.plugins.violations import ContractError
from kafka_sidecar.proxy.telemetry.metrics import Family, counter

MAX_KINDS = 1000
# At debug, texts of errors that may quote a record are logged. The level is that of the configuration.
QUOTING = logging.getLogger("kafka_sidecar.quoting")
HIDDEN_TEXT = "(text hidden, it may quote a record: set log.level to debug)"
MAX_LINES = 60  # of all kinds in one interval: clients choose the topics that make kinds
BURST_S = 10  # lines of so many seconds may come at once
MAX_ERRORS = 10  # lines from one place in the code, in `ERRORS_S`
ERRORS_S = 10.0
MAX_PLACES = 1000  # of error lines

log = logging.getLogger(__name__)
_limiters: WeakSet[LogLimiter] = WeakSet()


def write_held_back(is_last: bool = False) -> None:
    """Write how many lines each limit has held back, of those whose period is over; at the end of all."""
    for limiter in list(_limiters):
        limiter.write_held_back(is_last)


def _held_back(suppressed: int, what: str) -> None:
    log.warning("lines held back", extra={"suppressed": suppressed, "detail": what})


class LogLimiter:
    """Decides whether a log line of some kind is due."""

    def __init__(self, every_s: float, clock: Callable[[], float]) -> None:
        self._every_s = every_s
        self._clock = clock  # seconds
        self._logged: dict[tuple[str, ...], tuple[float, int]] = {}  # the oldest first
        self._interval_began = float("-inf")
        self._lines = 0  # in this interval
        self._others = 0  # suppressed lines of kinds that are not stored
        _limiters.add(self)

    def hold(self, lines: int) -> None:
        """Count lines of kinds that are not even looked at: there are too many of them at once."""
        self._others += lines

    def write_held_back(self, is_last: bool) -> None:
        """Forget the kinds whose interval is over, or all, and write how many lines of them were suppressed."""
        now = self._clock()
        for kind, (last, suppressed) in list(self._logged.items()):
            if not is_last and now - last < self._every_s:
                break  # the oldest come first
            self._logged.pop(kind, None)
            if suppressed:
                _held_back(suppressed, ", ".join(filter(None, kind)))
        if self._others and (is_last or now - self._interval_began >= self._every_s):
            others, self._others = self._others, 0
            _held_back(others, "of many kinds")

    def due(self, kind: tuple[str, ...]) -> int | None:
        """The number of lines of this kind suppressed since the last one; None: suppress this one too.

        Kinds beyond `MAX_LINES` or `MAX_KINDS` are not stored; their number is that of the next line of any kind.
        """
        now = self._clock()
        last, suppressed = self._logged.get(kind, (float("-inf"), 0))
        if now - self._interval_began >= self._every_s:
            self._interval_began, self._lines = now, 0
        if now - last < self._every_s:
            self._logged[kind] = (last, suppressed + 1)
            return None
        if self._lines >= MAX_LINES:
            self._others += 1
            return None
        self._lines += 1
        self._logged.pop(kind, None)
        if len(self._logged) >= MAX_KINDS:
            _, forgotten = self._logged.pop(next(iter(self._logged)))
            self._others += forgotten
        self._logged[kind] = (now, 0)
        suppressed, self._others = suppressed + self._others, 0
        return suppressed


class Redacted(Exception):  # noqa: N818 - replaces an error in a traceback and has its name
    """Replaces an error whose text must not be logged; a subclass for each, with the name of the error's class."""


ExcInfo = BaseException | tuple[type[BaseException], BaseException, TracebackType | None]


def redact_error(error: BaseException) -> ExcInfo:
    """The type and traceback of an error, for ``exc_info``.

    Its text only if `log.level` is debug: it may quote a record, as that of ``int(record.value)`` does. What our own
    checks say of a plug-in is always shown, but not the errors that it was handling.
    """
    if QUOTING.isEnabledFor(logging.DEBUG):
        return error
    kind = type(error)
    text = str(error) if isinstance(error, ContractError) else HIDDEN_TEXT
    shown: Redacted = type(kind.__name__, (Redacted,), {"__module__": kind.__module__})(text)
    return kind, shown, error.__traceback__


class ErrorPlaces:
    """Error lines by the place in the code that writes them, and the one that has raised the error."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock  # seconds
        self._lines: dict[tuple[object, ...], tuple[float, int]] = {}  # since when, and how many; the oldest first

    def allow(self, record: logging.LogRecord) -> bool:
        """Whether this line may be written."""
        now, place = self._clock(), (record.pathname, record.lineno, *_raised_at(record))
        since, lines = self._lines.get(place, (now, 0))
        if now - since >= ERRORS_S:
            self._lines.pop(place)
            since, lines = now, 0
        if place not in self._lines and len(self._lines) >= MAX_PLACES:
            del self._lines[next(iter(self._lines))]
        self._lines[place] = since, lines + 1
        return lines < MAX_ERRORS


def _raised_at(record: logging.LogRecord) -> tuple[object, ...]:
    """The innermost line of the error of a log line, if it has one."""
    traceback = record.exc_info[2] if record.exc_info else None
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return () if traceback is None else (traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)


class LogRate(logging.Filter):
    """Suppresses lines over a rate; the next line says how many were suppressed.

    Errors have one of their own for each place in the code, so that others cannot hide them.
    """

    def __init__(self, lines_per_s: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self.total = 0
        self._lines_per_s = lines_per_s
        self._clock = clock  # seconds
        self._allowed = lines_per_s * BURST_S
        self._updated = clock()
        self._suppressed = 0
        self._errors = ErrorPlaces(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._clock()
        earned = (now - self._updated) * self._lines_per_s
        self._allowed = min(self._allowed + earned, self._lines_per_s * BURST_S)
        self._updated = now
        is_error = record.levelno >= logging.ERROR
        if not self._errors.allow(record) if is_error else self._allowed < 1:
            self._suppressed += 1
            self.total += 1
            return False
        self._allowed -= 1
        if self._suppressed:
            record.suppressed_in_all, self._suppressed = self._suppressed, 0
        return True

    def families(self) -> Iterable[Family]:
        """The metric of suppressed lines."""
        return [counter("suppressed_log_lines", "Log lines suppressed because of log.max_rate", self.total)]
