"""What `kafka-sidecar inject` writes is valid for the versions of Kubernetes that it is for."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from chart.test_rendered import SCHEMAS
from harness.helm import KUBECONFORM, ROOT

from kafka_sidecar.deploy.container import Sidecar
from kafka_sidecar.deploy.inject import inject

pytestmark = pytest.mark.chart
MANIFESTS = sorted((ROOT / "tests" / "deploy" / "manifests").iterdir())
OTHER_KINDS = "serving.knative.dev/v1/Service,argoproj.io/v1alpha1/Rollout"  # of no schema here


@pytest.mark.parametrize("kubernetes", ["1.28.0", "1.37.0"])
def test_kubernetes_accepts_every_injected_manifest_with_no_unknown_field(kubernetes: str, tmp_path: Path) -> None:
    is_plain = kubernetes == "1.28.0"
    sidecar = Sidecar("image:1", config_map="kafka", bootstrap_servers={"value": "kafka:9092"}, is_plain=is_plain)
    for manifest in MANIFESTS:
        text = manifest.read_bytes().decode()
        documents = yaml.safe_load_all(inject(text, sidecar).text)
        resources = [one for one in documents if isinstance(one, dict)]  # kubeconform reads no merge keys
        (tmp_path / f"{manifest.name}.yaml").write_text(yaml.safe_dump_all(resources))
    version = ("-kubernetes-version", kubernetes)
    done = subprocess.run(
        [KUBECONFORM, "-strict", "-summary", *version, "-skip", OTHER_KINDS, "-schema-location", SCHEMAS, tmp_path],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
