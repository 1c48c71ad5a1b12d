"""Pictures as SVG inside of HTML: real text, colours that follow the page, nothing to load."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

Line = tuple[Sequence[int], Sequence[float]]  # ms UTC, values
# Readable on white and on black; in pairs they differ in brightness, too.
COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#a855f7", "#06b6d4", "#84cc16", "#ec4899")
INK = "#012345"  # replaced by the text colour of the page
STYLE = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 11, "axes.titlesize": 12, "legend.fontsize": 10,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": INK, "grid.alpha": 0.15,
    "axes.titlelocation": "left", "legend.frameon": False, "axes.formatter.useoffset": False,
    "figure.facecolor": "none", "axes.facecolor": "none",
}  # fmt: skip
SIZE_INCHES = (5.6, 3.0)  # at 390 px the text is still 10 px high
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True, slots=True)
class Scale:
    """The vertical axis: its title with the unit, and what it begins and ends with; ``span`` (ms) of the other one."""

    title: str
    least: float | None = None
    most: float | None = None
    room: float = 0.0  # above ``most``, for what is drawn there; it has no ticks
    is_log: bool = False
    span: tuple[int, int] | None = None


def lines(
    title: str, scale: Scale, series: Mapping[str, Line], unknown: Sequence[tuple[int, int]] = (), step: int = 0
) -> str:
    """Lines over time, broken where a step is missing; ``unknown`` spans (ms) are shaded."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure, axes = _figure(title, scale)
        for colour, (name, (times, values)) in zip(_colours(len(series)), series.items(), strict=True):
            at, height = _broken(times, values, step)
            axes.plot(at, height, color=colour, label=name, linewidth=1.6, marker="o", markersize=2.2)
        if scale.span is not None:
            axes.set_xlim(*map(_time, scale.span))
        # Before that it would end the automatic limits.
        axes.set_ylim(scale.least, scale.most and scale.most + scale.room)
        if scale.most is not None:
            axes.set_yticks([tick for tick in axes.get_yticks() if (scale.least or 0) <= tick <= scale.most])
        for number, (begin, end) in enumerate(unknown):
            label = "UNKNOWN" if number == 0 else None
            axes.axvspan(_time(begin), _time(end), color="#888888", alpha=0.3, linewidth=0, label=label)
        locator = AutoDateLocator(minticks=3, maxticks=6, tz=UTC)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
        axes.set_xlabel("event time (UTC)")
        if series:
            figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2)
        return _svg(figure, title)


def bars(title: str, axis: str, names: Sequence[str], parts: Mapping[str, Sequence[float]]) -> str:
    """A horizontal bar for each name, of several parts."""
    with mpl.rc_context({**STYLE, "svg.hashsalt": title}):
        figure, axes = _figure(title, Scale(""), 1.4 + 0.3 * len(names))
        lengths = [0.0] * len(names)
        for colour, (part, values) in zip(_colours(len(parts)), parts.items(), strict=True):
            axes.barh(range(len(names)), values, left=lengths, color=colour, label=part, height=0.6)
            lengths = [left + value for left, value in zip(lengths, values, strict=True)]
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(axis)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=3)
        return _svg(figure, title)


def _figure(title: str, scale: Scale, height: float = SIZE_INCHES[1]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(SIZE_INCHES[0], height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_ylabel(scale.title)
    if scale.is_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    return figure, axes


def _colours(count: int) -> list[str]:
    return [COLOURS[number % len(COLOURS)] for number in range(count)]


def _time(ms: int) -> float:
    """In days since 1970, as matplotlib counts."""
    return ms / 86_400_000


def _broken(times: Sequence[int], values: Sequence[float], step: int) -> tuple[list[float], list[float]]:
    at: list[float] = []
    height: list[float] = []
    for number, (time, value) in enumerate(zip(times, values, strict=True)):
        if step and number and time - times[number - 1] > step:
            at.append(_time(time - step))
            height.append(float("nan"))
        at.append(_time(time))
        height.append(value)
    return at, height


def _svg(figure: Figure, title: str) -> str:
    """The element alone, with ids that no other picture of the page has."""
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata=NO_METADATA)
    text = buffer.getvalue()
    svg = text[text.index("<svg") :].replace(INK, "currentColor")
    prefix = re.sub(r"\W", "-", title)
    for before in (' id="', "url(#", 'xlink:href="#'):
        svg = svg.replace(before, before + prefix + "-")
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg)
    size = re.search(r'viewBox="([^"]*)"', svg)
    assert size is not None
    head = f'<svg viewBox="{size[1]}" role="img" aria-label="{_attribute(title)}">'
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1).replace("xlink:href", "href")


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def clock(ms: int) -> str:
    """A time as text, UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
