"""A recorded terminal: runs a command and writes what its terminal showed, with its timing, as one animated SVG.

    python docs/site/recording.py docs/images/demo.svg .venv/bin/python examples/demo.py

The SVG has no script and asks no host for anything. Where it is not animated, its last screen shows.
"""

from __future__ import annotations

import os
import pty
import select
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path
from termios import TIOCSWINSZ

import pyte

COLUMNS, LINES = 118, 40
FRAME_S = 0.5  # what changes faster is shown at this pace
PAUSE_S = 2.0  # a longer time in which nothing changes is shortened to this
PAGE_LINES, PAGE_S = 26, 3.0  # so many lines that scroll up together stay for so long: they are to be read
LAST_S = 10.0  # the last screen stays, then all begins again
WIDTH, HEIGHT, MARGIN = 7.2, 16, 14  # of a character in pixels, and around all
MAX_BYTES = 200_000
COLORS = {
    "default": "#d6dbe0", "black": "#6b7580", "red": "#ff7b72", "green": "#56d364", "brown": "#e3b341",
    "blue": "#79c0ff", "magenta": "#d2a8ff", "cyan": "#56d4dd", "white": "#f0f3f6",
    "brightblack": "#8b949e", "brightred": "#ffa198", "brightgreen": "#7ee787", "brightbrown": "#f2cc60",
    "brightblue": "#a5d6ff", "brightmagenta": "#e2c5ff", "brightcyan": "#9cf0f5", "brightwhite": "#ffffff",
}  # fmt: skip

Run = tuple[int, str, str, bool]  # column, text, color, bold
Line = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    at_s: float
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What one line of the screen showed, and when."""

    row: int
    line: Line
    begin_s: float
    end_s: float


def output(command: Sequence[str]) -> Iterator[tuple[float, bytes]]:
    """What the command writes to its terminal, with the seconds since the first of it. SystemExit: it failed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], list(command))  # noqa: S606 - the command of the Makefile
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    began = None
    while True:
        select.select([terminal], [], [])
        began = began or time.monotonic()
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        yield time.monotonic() - began, chunk
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise SystemExit(f"{' '.join(command)} ended with {code}: nothing is written")


def frames(chunks: Iterator[tuple[float, bytes]]) -> list[Frame]:
    """The screen after each step of FRAME_S that changed it; long pauses are shortened, pages that fly by are held."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    found: list[Frame] = []
    moved_s = page_began_s = 0.0
    scrolled = 0
    for real_s, chunk in chunks:
        if found:
            moved_s -= max(0.0, real_s + moved_s - found[-1].at_s - PAUSE_S)
        for line in chunk.splitlines(keepends=True):
            if scrolled >= PAGE_LINES:
                moved_s += max(0.0, PAGE_S - (real_s + moved_s - page_began_s))
                scrolled, page_began_s = 0, real_s + moved_s
            scrolled += screen.cursor.y == LINES - 1 and line.endswith(b"\n")
            stream.feed(line)
            _add(found, Frame(int((real_s + moved_s) / FRAME_S) * FRAME_S, _lines(screen)))
    return found


def _add(found: list[Frame], frame: Frame) -> None:
    if found and found[-1].at_s >= frame.at_s:
        found.pop()
    if not found or found[-1].lines != frame.lines:
        found.append(frame)


def _lines(screen: pyte.Screen) -> tuple[Line, ...]:
    return tuple(_line(screen, row) for row in range(LINES))


def _line(screen: pyte.Screen, row: int) -> Line:
    cells = [(column, screen.buffer[row][column]) for column in range(COLUMNS)]
    runs = []
    for (color, bold), some in groupby(cells, lambda cell: (cell[1].fg, cell[1].bold)):
        part = list(some)
        text = "".join(cell.data for _, cell in part)
        if text.strip():
            begin = len(text) - len(text.lstrip())
            runs.append((part[0][0] + begin, text.strip(), COLORS.get(color, f"#{color}"), bold))
    return tuple(runs)


def shown(found: Sequence[Frame]) -> Iterator[Shown]:
    """Each line, from when it came until it changed."""
    end_s = found[-1].at_s + LAST_S
    times = [frame.at_s for frame in found] + [end_s]
    for row in range(LINES):
        for line, some in groupby(range(len(found)), lambda number: found[number].lines[row]):  # noqa: B023
            numbers = list(some)
            if line:
                yield Shown(row, line, times[numbers[0]], times[numbers[-1] + 1])


def svg(found: Sequence[Frame], title: str) -> str:
    end_s = found[-1].at_s + LAST_S
    width, height = COLUMNS * WIDTH + 2 * MARGIN, LINES * HEIGHT + 2 * MARGIN
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    font = 'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12"'
    clock = f'<animate id="c" attributeName="x" from="0" to="0" begin="0s;c.end" dur="{end_s:g}s"/>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}" {font}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="100%" height="100%" rx="8" fill="#161b22">{clock}</rect>',
    ]
    for one in shown(found):
        is_last = one.end_s == end_s
        hidden = "" if is_last else ' visibility="hidden"'
        begin, dur = (0.0, one.begin_s) if is_last else (one.begin_s, one.end_s - one.begin_s)
        parts.append(f'<g transform="translate({MARGIN} {MARGIN + (one.row + 1) * HEIGHT - 4})"{hidden}>')
        if dur:
            to = "hidden" if is_last else "visible"
            parts.append(f'<set attributeName="visibility" to="{to}" begin="c.begin+{begin:g}s" dur="{dur:g}s"/>')
        parts += [_text(run) for run in one.line] + ["</g>"]
    return "".join([*parts, "</svg>\n"])


def _text(run: Run) -> str:
    column, text, color, bold = run
    weight = ' font-weight="bold"' if bold else ""
    # The length holds columns in their places with any font.
    length = f' textLength="{len(text) * WIDTH:.1f}"' if len(text) > 1 else ""
    return f'<text x="{column * WIDTH:.1f}" fill="{color}" xml:space="preserve"{length}{weight}>{escape(text)}</text>'


def main(target: str, *command: str) -> None:
    chunks = list(output(command))
    text = svg(frames(iter(chunks)), "The terminal of make demo: a cluster, a sidecar, good and bad records through it")
    if len(text.encode()) > MAX_BYTES:
        raise SystemExit(f"{len(text.encode())} bytes are more than {MAX_BYTES}")
    Path(target).write_text(text, encoding="utf-8")
    print(f"{target}: {len(text.encode())} bytes, {len(chunks)} writes of the command")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
