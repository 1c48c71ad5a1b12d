"""Writes the dashboard and the rules into the Helm chart: `make dashboards`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml

from support.monitoring.alerts import rules
from support.monitoring.cases import rule_tests
from support.monitoring.grafana import dashboard

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm" / "kafka-sidecar"
DASHBOARD, RULES = CHART / "dashboards" / "kafka-sidecar.json", CHART / "alerts" / "kafka-sidecar.yaml"
RULE_TESTS = ROOT / "tests" / "monitoring" / "alerts_test.yaml"
HEAD = "# Written by `make dashboards` from tests/support/monitoring/{}.\n"


def dashboard_text() -> str:
    return json.dumps(dashboard(), indent=2) + "\n"


def rules_text() -> str:
    return HEAD.format("alerts.py") + _yaml(rules())


def rule_tests_text() -> str:
    """The file for `promtool test rules`, which finds the rules relative to it."""
    return HEAD.format("cases.py") + _yaml(rule_tests(os.path.relpath(RULES, RULE_TESTS.parent)))


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False, width=1 << 30)


FILES = {DASHBOARD: dashboard_text, RULES: rules_text, RULE_TESTS: rule_tests_text}


if __name__ == "__main__":
    for path, text in FILES.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(), encoding="utf-8")
