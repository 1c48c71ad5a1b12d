"""What `run` imports: memory and start-up of every sidecar."""

from __future__ import annotations

import subprocess
import sys

from kafka_sidecar.proxy.cli import run

IMPORTED = """
import sys
import kafka_sidecar.proxy.cli.run, kafka_sidecar.proxy.server.process
print(*sys.modules, sep="\\n")
"""
UNUSED = {
    "cramjam",
    "kafka_sidecar.codec.records",
    "kafka_sidecar.outbound",
    "kafka_sidecar.plugins.registry",
    "kafka_sidecar.policies",
    "kafka_sidecar.proxy.cli.inject",
    "kafka_sidecar.proxy.cli.main",
    "kafka_sidecar.proxy.cli.pages",
    "rich",
    "kafka_sidecar.deploy",
    "kafka_sidecar.schemas",
    "kafka_sidecar.proxy.features.validation",
    "kafka_sidecar.proxy.server.workers",
    "prometheus_client",
    "urllib3",
}


def test_a_sidecar_that_relays_imports_nothing_of_other_commands_and_of_features() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True, timeout=60)
    imported = set(done.stdout.splitlines())
    assert run.__name__ in imported
    assert UNUSED & imported == set()
