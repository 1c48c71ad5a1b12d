"""What `helm template` makes of the chart; needs `make helm-tools`."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml
from harness.helm import CHART, KUBECONFORM, RELEASE, ROOT, SCENARIOS, TOOLS, VERSIONS, Scenario, helm, render, template
from support.pages import page

pytestmark = pytest.mark.chart
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
SCHEMAS = f"{TOOLS}/schemas/{{{{.NormalizedKubernetesVersion}}}}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
CLOSABLE = (
    "--set", "networkPolicy.brokers.podSelector.app=kafka",
    "--set", "networkPolicy.applications.brokerCIDRs={10.0.0.0/8}",
    "--set", "networkPolicy.applications.namespaces={clients}",
)  # fmt: skip
BROKERS = ("--set", "config.bootstrap_servers=kafka-1:9092")


@each_scenario
def test_what_is_committed_is_what_the_chart_renders(scenario: Scenario) -> None:
    assert render(scenario) == scenario.golden.read_text(), "run `make chart-golden`"


def rejected(manifests: str, kubernetes: str) -> str:
    """What kubeconform says against them."""
    version = ("-kubernetes-version", kubernetes)
    done = subprocess.run(
        [KUBECONFORM, "-strict", "-summary", *version, "-schema-location", SCHEMAS],
        input=manifests, capture_output=True, text=True,
    )  # fmt: skip
    return "" if done.returncode == 0 and "Skipped: 0" in done.stdout else done.stdout + done.stderr


@each_scenario
def test_kubernetes_accepts_every_manifest_with_no_unknown_field(scenario: Scenario) -> None:
    assert rejected(scenario.golden.read_text(), scenario.kubernetes) == ""


@pytest.mark.parametrize("kubernetes", VERSIONS)
def test_alerts_and_dashboards_are_the_files_of_the_chart(kubernetes: str) -> None:
    flags = ("--set", "metrics.rules.enabled=true,metrics.rules.runbookURL=https://example.com/runbook")
    text = template(ROOT / CHART, kubernetes, *BROKERS, *flags, "--set", "metrics.dashboards.enabled=true")
    assert rejected(text, kubernetes) == ""
    manifests = [one for one in yaml.safe_load_all(text) if one]
    (rules,) = [one for one in manifests if one["kind"] == "PrometheusRule"]
    files = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / CHART / "alerts").glob("*.yaml"))]
    links = {rule["annotations"].pop("runbook_url") for group in rules["spec"]["groups"] for rule in group["rules"]}
    own = {
        rule["annotations"].pop("runbook_url") for one in files for group in one["groups"] for rule in group["rules"]
    }
    assert rules["spec"]["groups"] == [group for one in files for group in one["groups"]]
    assert links == {link.replace("docs/how-to/runbook.md", "https://example.com/runbook") for link in own}
    (dashboards,) = [one for one in manifests if one["metadata"]["name"].endswith("-dashboards")]
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    written = {path.name: path.read_text() for path in (ROOT / CHART / "dashboards").glob("*.json")}
    assert {name: json.loads(text) for name, text in dashboards["data"].items()} == {
        name: json.loads(text) for name, text in written.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_chart_has_no_lint(version: str) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", "--kube-version", version, ROOT / CHART, *BROKERS)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "config.bootstrap_servers is missing: list the brokers"),
        ([*BROKERS, "--set", "config.polices.a=1"], "additional properties 'polices' not allowed"),
        ([*BROKERS, "--set", "replicas=1"], "additional properties 'replicas' not allowed"),
        ([*BROKERS, "--set", "config.workers=auto"], "config.workers is auto: set a number"),
        ([*BROKERS, "--set", "networkPolicy.brokers.enabled=true"], "networkPolicy.brokers.podSelector is missing"),
    ],
    ids=lambda value: "" if isinstance(value, list) else value[:30],
)
def test_a_mistake_ends_the_installation_with_its_remedy(flags: list[str], said: str) -> None:
    with pytest.raises(AssertionError, match=said.replace("(", r"\(")):
        template(ROOT / CHART, VERSIONS[-1], *flags)


ADMIN = {
    "KAFKA_SIDECAR_ADMIN": "https://127.0.0.1:9190",
    "KAFKA_SIDECAR_ADMIN_CA": "/etc/kafka-sidecar-tls/admin/ca.crt",
    "KAFKA_SIDECAR__ADMIN__TOKEN_FILE": "/etc/kafka-sidecar-admin/token",
}


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ([], set()),
        (["--set", "tls.admin.secretName=cert"], {"KAFKA_SIDECAR_ADMIN", "KAFKA_SIDECAR_ADMIN_CA"}),
        (["--set", "tls.admin.secretName=cert", "--set", "tls.admin.ca="], {"KAFKA_SIDECAR_ADMIN"}),
        (["--set", "admin.tokenSecretName=token"], {"KAFKA_SIDECAR__ADMIN__TOKEN_FILE"}),
        (["--set", "tls.admin.secretName=cert", "--set", "admin.tokenSecretName=token"], set(ADMIN)),
    ],
)
def test_commands_in_the_container_find_its_admin_port_and_trust_it(flags: list[str], names: set[str]) -> None:
    manifests = yaml.safe_load_all(template(ROOT / CHART, VERSIONS[-1], *BROKERS, *flags))
    (deployment,) = [one for one in manifests if one and one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one["value"] for one in container["env"]}
    assert {name: found.get(name) for name in ADMIN} == {name: ADMIN[name] if name in names else None for name in ADMIN}
    places = {one["mountPath"] for one in container["volumeMounts"]}
    files = [ADMIN[name] for name in names if ADMIN[name].startswith("/")]
    assert all(any(file.startswith(f"{place}/") for place in places) for file in files)


def test_the_service_has_the_ports_of_all_workers() -> None:
    flags = ("--set", "config.workers=3", "--set", "config.nodes.ports=4", "--show-only", "templates/service.yaml")
    service, _ = yaml.safe_load_all(template(ROOT / CHART, VERSIONS[-1], *BROKERS, *flags))
    assert [port["port"] for port in service["spec"]["ports"]] == [9092, *range(10000, 10012)]


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        ("config.topics[0].name=orders", False),
        ("config.policies.a.type=json", False),
        ("config.connections.drain_timeout=10s", True),
        ("config.bootstrap_servers=kafka-2:9092", True),
        ("commonLabels.a=b", False),
    ],
)
def test_a_change_starts_pods_again_only_if_it_must(change: str, restarts: bool) -> None:
    before, after = (
        next(
            one
            for one in yaml.safe_load_all(template(ROOT / CHART, VERSIONS[-1], *BROKERS, *flags))
            if one["kind"] == "Deployment"
        )["spec"]["template"]["metadata"]["annotations"]
        for flags in ([], ["--set", change])
    )
    assert (before != after) == restarts


def rendered(*flags: str) -> set[tuple[str, str]]:
    """Kinds and suffixes of names."""
    manifests = yaml.safe_load_all(template(ROOT / CHART, VERSIONS[-1], *BROKERS, *CLOSABLE, *flags))
    prefix = f"{RELEASE}-kafka-sidecar"
    return {(one["kind"], one["metadata"]["name"].removeprefix(prefix)) for one in manifests if one}


def rows() -> list[tuple[set[tuple[str, str]], str, str]]:
    """Manifests, value and mode of each row of the table."""
    table = page("helm/kafka-sidecar/README.md").section("What is rendered")
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    return [
        (
            {(kind, suffix) for kind, suffix in re.findall(r"\b([A-Z]\w+[a-z])(?: `(-\w+)`)?(?=[:; ]|$)", cell)},
            value,
            mode,
        )
        for cell, value, mode in cells
    ]


@pytest.mark.parametrize(("manifests", "value", "mode"), rows())
def test_the_table_of_what_is_rendered_is_true(manifests: set[tuple[str, str]], value: str, mode: str) -> None:
    switches = re.findall(r"`(\S+\.(?:enabled|create))`", value)
    for each in ("gateway", "sidecar"):
        expected = manifests if mode in (each, "both") else set()
        with_it, without = (
            rendered("--set", ",".join([f"mode={each}", *(f"{switch}={state}" for switch in switches)]))
            for state in ("true", "false")
        )
        assert with_it - without == (expected if switches else set())
        assert expected <= with_it
