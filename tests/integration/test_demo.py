"""The demo at a broker of ours, in place of the mock."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from harness.versions import ROOT
from integration.lent import plain_cluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_the_demo_has_the_same_results_at_a_broker_and_begins_at_none_that_has_its_topics() -> None:
    with plain_cluster() as cluster:

        def run() -> subprocess.CompletedProcess[str]:
            command = [sys.executable, str(ROOT / "examples/demo.py"), "--bootstrap-servers", cluster.direct]
            environment = {**os.environ, "DEMO_SECONDS": "2"}
            return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)

        first = run()
        assert (first.returncode, "WRONG" in first.stdout) == (0, False), first.stdout + first.stderr
        again = run()
        assert again.returncode == 1
        names = "customers, documents, orders, orders-avro, payments, refunds, refunds.dlq"
        assert f"delete {names}, or take another" in again.stderr
