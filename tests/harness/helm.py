"""The Helm chart, rendered: each value file in its `ci/` for two versions of Kubernetes, and the committed results.

`make chart-golden` writes the results to tests/chart/golden, so that what needs no helm can be tested without it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART, EXAMPLE = Path("helm/kafka-sidecar"), Path("examples/orders-chart")
GOLDEN = ROOT / "tests" / "chart" / "golden"
TOOLS = ROOT / ".cache" / "tools"
HELM, KUBECONFORM = TOOLS / "bin" / "helm", TOOLS / "bin" / "kubeconform"
VERSIONS = ("1.28.0", "1.37.0")  # the last one without native sidecars, and a recent one
RELEASE, NAMESPACE = "orders", "shop"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One value file, rendered for one version of Kubernetes."""

    values: Path
    kubernetes: str

    @property
    def name(self) -> str:
        return f"{self.values.stem}-{self.kubernetes}"

    @property
    def golden(self) -> Path:
        return GOLDEN / f"{self.name}.yaml"

    @property
    def is_sidecar(self) -> bool:
        return str(yaml.safe_load(self.values.read_text()).get("mode")) == "sidecar"

    def manifests(self) -> list[Manifest]:
        """The committed result."""
        return [one for one in yaml.safe_load_all(self.golden.read_text()) if one]


SCENARIOS = [Scenario(path, version) for path in sorted((ROOT / CHART / "ci").glob("*.yaml")) for version in VERSIONS]


def render(scenario: Scenario) -> str:
    """What `helm template` prints; a sidecar's values are rendered in an application's chart."""
    if scenario.is_sidecar:
        values = {"kafka-sidecar": yaml.safe_load(scenario.values.read_text())}
        with example_chart() as chart:
            (chart / "ci.yaml").write_text(yaml.safe_dump(values))
            return template(chart, scenario.kubernetes, "--values", chart / "ci.yaml")
    return template(ROOT / CHART, scenario.kubernetes, "--values", scenario.values)


@contextmanager
def example_chart() -> Iterator[Path]:
    """A copy of the application's chart, with its dependency as `helm dependency build` fetches it."""
    with tempfile.TemporaryDirectory() as folder:
        for chart in (CHART, EXAMPLE):
            shutil.copytree(ROOT / chart, Path(folder) / chart)
        helm("dependency", "build", Path(folder) / EXAMPLE)
        yield Path(folder) / EXAMPLE


def template(chart: Path, kubernetes: str, *flags: str | Path) -> str:
    return helm("template", RELEASE, chart, "--namespace", NAMESPACE, "--kube-version", kubernetes, *flags)


def helm(*arguments: str | Path) -> str:
    """Raises CalledProcessError, with what it has written."""
    done = subprocess.run([HELM, *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise AssertionError(f"helm {arguments[0]}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for scenario in SCENARIOS:
        scenario.golden.write_text(render(scenario))
