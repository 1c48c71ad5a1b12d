"""Which pods reach which others under the rendered NetworkPolicies, by cyclonus; needs `make helm-tools`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.helm import SCENARIOS, TOOLS

pytestmark = pytest.mark.chart

CYCLONUS = TOOLS / "bin" / "cyclonus"
GATEWAY = ("shop", {"app.kubernetes.io/name": "kafka-sidecar", "app.kubernetes.io/instance": "orders"})
CLIENT = ("shop", {"kafka-client": "true", "app.kubernetes.io/instance": "cart"})
STRANGER, BILLING = (
    ("shop", {"app.kubernetes.io/instance": "other"}),
    ("billing", {"app.kubernetes.io/instance": "b"}),
)
WEB, PRETENDER = ("web", {"app": "web"}), ("web", GATEWAY[1])  # who labels its pods as the gateway's is not let through
WITH_SIDECAR = ("shop", {"app": "orders", "kafka-sidecar": "orders-kafka-sidecar"})
BROKER, OPERATOR = ("kafka", {"app": "kafka"}), ("kafka", {"app": "kafka-operator"})
PROMETHEUS, DNS = ("monitoring", {"app": "prometheus"}), ("kube-system", {"k8s-app": "kube-dns"})
OUTSIDE_BROKER, OUTSIDE_BROKER_6, INTERNET, INTERNET_6 = "10.20.0.5", "2001:db8:20::5", "203.0.113.9", "2001:db8::9"

# source, destination, port, whether it is allowed
CLOSED = [
    (CLIENT, GATEWAY, 9092, True),
    (CLIENT, GATEWAY, 10000, True),
    (CLIENT, GATEWAY, 10009, True),
    (CLIENT, GATEWAY, 10010, False),
    (CLIENT, GATEWAY, 9190, False),
    (STRANGER, GATEWAY, 9092, False),
    (PROMETHEUS, GATEWAY, 9190, True),
    (PROMETHEUS, GATEWAY, 9092, False),
    (CLIENT, BROKER, 9092, False),  # the way around
    (STRANGER, BROKER, 9092, False),
    (PROMETHEUS, BROKER, 9092, False),
    (GATEWAY, BROKER, 9092, True),
    (GATEWAY, BROKER, 9093, False),
    (BROKER, BROKER, 9093, True),
    (OPERATOR, BROKER, 9091, True),
    (WEB, OUTSIDE_BROKER, 9092, False),  # the way around to brokers outside of the cluster
    (WEB, OUTSIDE_BROKER_6, 9092, False),
    (PRETENDER, OUTSIDE_BROKER, 9092, False),
    (BILLING, OUTSIDE_BROKER, 9092, False),
    (WEB, INTERNET, 443, True),
    (WEB, INTERNET_6, 443, True),
    (WEB, DNS, 53, True),
    (GATEWAY, DNS, 53, True),
    (GATEWAY, INTERNET, 443, False),
]
SIDECARS = [
    (WITH_SIDECAR, BROKER, 9092, True),
    (STRANGER, BROKER, 9092, False),
    (BROKER, BROKER, 9093, True),
]


@pytest.mark.parametrize(("values", "table"), [("gateway-closed", CLOSED), ("sidecar-plain", SIDECARS)])
@pytest.mark.parametrize("version", ["1.28.0", "1.37.0"])
def test_only_the_sidecar_reaches_the_brokers(values: str, table: list[Any], version: str, tmp_path: Path) -> None:
    (scenario,) = [one for one in SCENARIOS if one.name == f"{values}-{version}"]
    policies = tmp_path / "policies"
    policies.mkdir()
    for number, manifest in enumerate(scenario.manifests()):
        if manifest["kind"] == "NetworkPolicy":
            (policies / f"{number}.yaml").write_text(yaml.safe_dump(manifest))
    traffic = tmp_path / "traffic.json"
    traffic.write_text(json.dumps([_traffic(source, destination, port) for source, destination, port, _ in table]))
    done = subprocess.run(
        [CYCLONUS, "analyze", "--mode", "query-traffic", "--policy-path", policies, "--traffic-path", traffic],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    allowed = [word == "TRUE" for word in re.findall(r"IS ALLOWED\? \| +(TRUE|FALSE)", done.stdout)]
    assert [(*row[:3], verdict) for row, verdict in zip(table, allowed, strict=True)] == table


def _traffic(source: Any, destination: Any, port: int) -> dict[str, Any]:
    protocol = "UDP" if port == 53 else "TCP"
    return {
        "Source": _peer(source), "Destination": _peer(destination),
        "Protocol": protocol, "ResolvedPort": port, "ResolvedPortName": "",
    }  # fmt: skip


def _peer(peer: Any) -> dict[str, Any]:
    if isinstance(peer, str):
        return {"IP": peer}
    namespace, labels = peer
    namespace_labels = {"kubernetes.io/metadata.name": namespace}
    return {
        "IP": "10.0.0.1",
        "Internal": {"Namespace": namespace, "NamespaceLabels": namespace_labels, "PodLabels": labels},
    }
