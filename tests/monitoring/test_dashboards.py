"""The dashboard and the alert rules: what is committed is what the tables give, and names metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.monitoring.__main__ import DASHBOARD, FILES, RULES
from support.monitoring.alerts import ALERTS
from support.monitoring.cases import CASES
from support.monitoring.grafana import WIDTH
from support.monitoring.panels import all_panels
from support.pages import ROOT, page

METRICS = {title for title in page("docs/reference/metrics.md").titles(3) if title.startswith("kafka_sidecar_")}
STANDARD = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}


def named_metrics(expression: str) -> set[str]:
    names = set(re.findall(r"\b(?:kafka_sidecar|process)_\w+", expression))
    return {re.sub(r"_(bucket|count|sum)$", "", name) if name not in METRICS else name for name in names}


def committed_rules() -> list[Any]:
    return list(yaml.safe_load(RULES.read_text())["groups"][0]["rules"])


def expressions() -> list[str]:
    targets = [target for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", ())]
    return [rule["expr"] for rule in committed_rules()] + [target["expr"] for target in targets]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_committed_is_what_the_tables_give(path: Path) -> None:
    assert path.read_text() == FILES[path](), "run `make dashboards`"


def test_every_metric_that_a_panel_or_an_alert_names_exists() -> None:
    assert set().union(*map(named_metrics, expressions())) - METRICS - STANDARD == set()


def test_every_metric_of_the_sidecar_is_on_a_panel() -> None:
    shown = {name for _, panel in all_panels() for query in panel.queries for name in named_metrics(query.expression)}
    assert METRICS - shown == set()


def test_panels_do_not_overlap_and_fill_no_more_than_the_width() -> None:
    taken = set[tuple[int, int]]()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_panels_have_ids_of_their_own_and_titles_that_differ_in_a_section() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    titles = [(section.title, panel.title) for section, panel in all_panels()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    "rule", yaml.safe_load(RULES.read_text())["groups"][0]["rules"], ids=lambda rule: rule["alert"]
)
def test_every_alert_has_a_severity_a_summary_and_its_heading_in_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"]
    name, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert anchor == rule["alert"].lower()
    assert rule["alert"] in page(name).titles(3)


def test_the_runbook_has_no_alert_that_does_not_exist() -> None:
    titles = [title for title in page("docs/how-to/runbook.md").titles(3) if title.startswith("KafkaSidecar")]
    assert titles == [f"KafkaSidecar{alert.name}" for alert in ALERTS]


def test_every_alert_is_played_through() -> None:
    assert {case.alert for case in CASES} == {alert.name for alert in ALERTS}


def test_the_table_of_the_how_to_has_every_alert_with_its_severity() -> None:
    rows = re.findall(
        r"^\| \[`KafkaSidecar(\w+)`\]\(runbook\.md#(\w+)\) \| (\w+) \|",
        page("docs/how-to/dashboards.md").text,
        re.MULTILINE,
    )
    assert rows == [(alert.name, f"kafkasidecar{alert.name.lower()}", alert.severity) for alert in ALERTS]


def test_the_picture_of_the_dashboard_is_shown() -> None:
    assert "../images/dashboard.png" in page("docs/how-to/dashboards.md").text
    assert (ROOT / "docs" / "images" / "dashboard.png").is_file()
