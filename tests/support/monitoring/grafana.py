"""The dashboard as Grafana's JSON, schema version 39: Grafana 10.1 or newer reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from support.monitoring.panels import SECTIONS, Panel, Section

Json = dict[str, Any]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHTS = 24, {"stat": 4, "timeseries": 8, "heatmap": 8, "table": 6}
VARIABLES = {  # name -> the labels by which those before it are chosen
    "namespace": "",
    "pod": '{namespace=~"$namespace"}',
    "instance": '{namespace=~"$namespace",pod=~"$pod"}',
}
LINES = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False}
# Red and orange are for what needs someone's attention; the rest of the colours is Grafana's choice.
THRESHOLDS = {"mode": "absolute", "steps": [{"color": "text", "value": None}]}


def dashboard() -> Json:
    """The whole dashboard."""
    return {
        "uid": "kafka-sidecar",
        "title": "kafka-sidecar",
        "description": "Traffic, latency, rejections, interceptors, brokers, limits and audit of kafka-sidecar.",
        "tags": ["kafka", "kafka-sidecar"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_datasource(), *map(_variable, VARIABLES)]},
        "panels": list(_panels()),
    }


def _datasource() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str) -> Json:
    query = f"label_values(kafka_sidecar_build_info{VARIABLES[name]}, {name})"
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panels() -> Iterator[Json]:
    y, number = 0, 0
    for section in SECTIONS:
        number += 1
        yield {
            "id": number, "type": "row", "title": section.title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
        }  # fmt: skip
        y += 1
        for panel, place in _places(section, y):
            number += 1
            yield _panel(number, panel, place)
            y = max(y, place["y"] + place["h"])


def _places(section: Section, y: int) -> Iterator[tuple[Panel, Mapping[str, int]]]:
    """Panels from left to right, and from top to bottom."""
    x = height = 0
    for panel in section.panels:
        if x + panel.width > WIDTH:
            x, y, height = 0, y + height, 0
        height = max(height, HEIGHTS[panel.kind])
        yield panel, {"x": x, "y": y, "w": panel.width, "h": HEIGHTS[panel.kind]}
        x += panel.width


def _panel(number: int, panel: Panel, place: Mapping[str, int]) -> Json:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        **({"description": panel.about} if panel.about else {}),
        "datasource": DATASOURCE,
        "gridPos": dict(place),
        "targets": [_target(panel, index) for index in range(len(panel.queries))],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "thresholds": THRESHOLDS,
                **({"custom": LINES, "min": 0} if panel.kind == "timeseries" else {}),
            },
            "overrides": [],
        },
        "options": _options(panel),
    }


def _target(panel: Panel, index: int) -> Json:
    query = panel.queries[index]
    return {
        "refId": chr(ord("A") + index),
        "datasource": DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend or "__auto",
        **({"instant": True, "range": False, "format": "table"} if panel.kind == "table" else {"range": True}),
        **({"format": "heatmap"} if panel.kind == "heatmap" else {}),
    }


def _options(panel: Panel) -> Json:
    match panel.kind:
        case "stat":
            return {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area", "colorMode": "value"}
        case "heatmap":
            return {"calculate": False, "yAxis": {"unit": panel.unit}, "color": {"mode": "scheme", "scheme": "Oranges"}}
        case "table":
            return {"showHeader": True}
    return {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
