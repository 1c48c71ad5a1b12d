"""Tables for people. Columns fold in a narrow terminal; elsewhere a row is one line.

Cells may have names that clients choose: each is escaped, and cut where it is longer than any topic's name.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from io import StringIO
from textwrap import wrap

from kafka_sidecar.proxy.telemetry.logs import without_controls
from kafka_sidecar.proxy.telemetry.readable import NONE, duration

MAX_CELL = 249
UNBOUNDED = 1 << 16  # columns of what is no terminal
NARROWEST = 40


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Lines: the titles, then the rows."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), header_style="")
    for title in titles:
        made.add_column(Text(title), overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell(one)) for one in row))
    written = StringIO()
    Console(file=written, width=width(), color_system=None, legacy_windows=False, _environ={}).print(made)
    return (line.rstrip() for line in written.getvalue().splitlines())


def folded(begin: str, text: str) -> Iterator[str]:
    """A text in as many lines as it takes, below each other."""
    yield from wrap(
        without_controls(text), width(), initial_indent=begin, subsequent_indent=" " * len(begin),
        break_on_hyphens=False,
    ) or [begin]  # fmt: skip


def width() -> int:
    """Columns that a line may have."""
    if not sys.stdout.isatty():
        return UNBOUNDED
    return max(NARROWEST, shutil.get_terminal_size().columns)


def cell(value: object) -> str:
    """One value as text without control characters.

    >>> cell(None), cell("app\\n"), cell("x" * 300)[-3:]
    ('-', 'app\\\\n', 'xx…')
    """
    text = NONE if value is None or value == "" else str(value)
    return without_controls(text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…")


def age(timestamp: str, now: datetime | None = None) -> str:
    """How long ago a timestamp of the admin port is; nothing where it is none."""
    try:
        at = datetime.fromisoformat(timestamp)
    except (ValueError, TypeError):
        return ""
    return duration(max(0.0, ((now or datetime.now(UTC)) - at).total_seconds()))
