"""The panels of the dashboard, drawn from what `live.py` has measured, into docs/images/dashboard.png."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

from monitoring.live import RESULTS, ROOT
from support.monitoring.grafana import dashboard
from support.monitoring.panels import Panel, Section, all_panels

if TYPE_CHECKING:  # installed by `make dashboards-picture` alone
    from matplotlib.axes import Axes

PICTURE = ROOT / "docs" / "images" / "dashboard.png"
INCHES_A_COLUMN, INCHES_A_ROW, DOTS = 0.72, 0.34, 72
MAX_LEGEND = 6
UNITS = {"s": "s", "Bps": "B/s", "bytes": "B", "reqps": "/s", "cps": "/s", "percentunit": "%", "short": "", "bool": ""}
INK, PALE, GRID = "#24292f", "#6e7781", "#d8dee4"
Series = list[dict[str, Any]]


def main() -> None:
    import matplotlib.pyplot as plt
    from PIL import Image

    results: dict[str, Series] = json.loads(RESULTS.read_text())
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard()["panels"])
    plt.rcParams.update({"font.size": 7, "text.color": INK, "axes.edgecolor": GRID})
    figure = plt.figure(figsize=(24 * INCHES_A_COLUMN, rows * INCHES_A_ROW), dpi=DOTS)
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    for (section, panel), place in zip(all_panels(), (one["gridPos"] for one in panels), strict=True):
        margin = 0.5 if panel.kind == "stat" else 0.9
        axes = figure.add_axes((
            (place["x"] + margin) / 24, 1 - (place["y"] + place["h"] - 1.7) / rows,
            (place["w"] - margin - 0.4) / 24, (place["h"] - 2.9) / rows,
        ))  # fmt: skip
        draw(axes, section, panel, results)
    for row in (panel for panel in dashboard()["panels"] if panel["type"] == "row"):
        y = 1 - (row["gridPos"]["y"] + 0.75) / rows
        figure.text(0.01, y, row["title"], fontsize=12, fontweight="bold")
    drawn = io.BytesIO()
    figure.savefig(drawn, facecolor="white")
    Image.open(drawn).convert("RGB").quantize(64).save(PICTURE, optimize=True)


def draw(axes: Axes, section: Section, panel: Panel, results: dict[str, Series]) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_title(panel.title, loc="left", fontsize=8, color=INK)
    found = [
        (name_of(query.legend, one["metric"]), one)
        for query in panel.queries
        for one in results[f"{section.title}/{panel.title}/{query.legend}"]
    ]
    if panel.kind in ("stat", "table"):
        write(axes, panel, found)
        return
    if panel.kind == "heatmap":
        heat(axes, found)
        return
    start = min(one["values"][0][0] for _, one in found)
    for name, one in sorted(found, key=lambda pair: -highest(pair[1])):
        points = [(at - start, float(value)) for at, value in one["values"] if value != "NaN"]
        if points:
            axes.plot(*zip(*points, strict=True), linewidth=1, label=name)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: quantity(value, panel.unit)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    axes.set_ylim(bottom=0)
    axes.tick_params(length=0, colors=PALE)
    axes.grid(color=GRID, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles[:MAX_LEGEND], labels[:MAX_LEGEND], loc="upper center", bbox_to_anchor=(0.5, -0.13),
        ncols=2 if max(map(len, labels[:MAX_LEGEND]), default=0) > 22 else 3, frameon=False, fontsize=6.5,
    )  # fmt: skip


def write(axes: Axes, panel: Panel, found: list[tuple[str, dict[str, Any]]]) -> None:
    axes.axis("off")
    if panel.kind == "stat":
        value = float(found[0][1]["values"][-1][1])
        axes.text(0, 0.3, quantity(value, panel.unit), fontsize=17, transform=axes.transAxes)
        return
    lines = [", ".join(f"{key} {value}" for key, value in one["metric"].items()) for _, one in found]
    axes.text(0, 0.6, "\n".join(lines), fontsize=9, transform=axes.transAxes)


def heat(axes: Axes, found: list[tuple[str, dict[str, Any]]]) -> None:
    """Each bucket's own count: those of Prometheus are cumulative."""
    ordered = sorted((float(name), [float(value) for _, value in one["values"]]) for name, one in found)
    length = min(len(values) for _, values in ordered)
    cells = [
        [max(0.0, upper - lower) for upper, lower in zip(above[:length], below[:length], strict=True)]
        for (_, above), (_, below) in zip(ordered[1:], ordered, strict=False)
    ]
    axes.imshow(cells, aspect="auto", origin="lower", cmap="Oranges", interpolation="nearest")
    axes.set_yticks(range(0, len(cells), 4), [quantity(le, "s") for le, _ in ordered[1:]][::4])
    axes.xaxis.set_major_formatter("{x:g} s")
    axes.tick_params(length=0, colors=PALE)


def name_of(legend: str, labels: dict[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), legend)


def highest(one: dict[str, Any]) -> float:
    return max((float(value) for _, value in one["values"] if value != "NaN"), default=0.0)


def quantity(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value:.1%}"
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.3g} ms"
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{UNITS[unit]}"
    return f"{value:.3g} {UNITS[unit]}".strip()


if __name__ == "__main__":
    main()
