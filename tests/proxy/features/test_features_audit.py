"""The audit among the features of a sidecar: loaded only where configured, and fed by what passes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from support.features import started

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError

IMPORTED = """
import sys
from kafka_sidecar.proxy.server import server
from kafka_sidecar.proxy.config.loading import load
server.Server(load(None, {"KAFKA_SIDECAR__BOOTSTRAP_SERVERS": "a:1"}, {}), server.Metrics())
print([name for name in sys.modules if "kafka_sidecar.audit" in name or "proxy.features.auditing" in name])
"""


def test_without_an_auditor_nothing_of_it_is_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_an_audited_sidecar_watches_requests_and_learns_principals() -> None:
    features = started({"type": "latency"}, audit={"topic": "audit"})
    assert features.audit is not None
    assert features.tap(ApiKey.PRODUCE, 9) is not None
    assert features.exchange(ApiKey.SASL_AUTHENTICATE, 2) is not None
    names = {family.name for family in features.families()}
    assert "audit_intervals" in names


def test_a_sidecar_without_an_auditor_watches_nothing() -> None:
    features = started({"type": "latency"})
    assert features.tap(ApiKey.PRODUCE, 9) is None


@pytest.mark.parametrize("audit", [{"auditor_class": "events"}, {"auditor_class": "missing:Here"}])
def test_a_sidecar_with_a_wrong_auditor_does_not_start(audit: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="audit"):
        started({"type": "latency"}, audit=audit)
