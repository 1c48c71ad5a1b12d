"""Prometheus' own tool accepts the rules, and every alert fires when it should and not before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from harness.prometheus import promtool
from support.monitoring.__main__ import RULE_TESTS, RULES

pytestmark = pytest.mark.monitoring


@pytest.mark.parametrize("check", [("check", "rules", RULES), ("test", "rules", RULE_TESTS)], ids=["rules", "tests"])
def test_the_rules_pass(check: tuple[str | Path, ...]) -> None:
    done = subprocess.run([promtool(), *check], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
