"""The command `inject`: a filter from standard input to standard output, and one line for each mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.commands import CliRunner

from kafka_sidecar.proxy.cli.main import app

MANIFEST = b"""\
apiVersion: v1
kind: Pod
metadata:
  name: caf\xc3\xa9
spec:
  containers:
    - name: app\r
      image: app:1
      env:
        - name: KAFKA_BOOTSTRAP_SERVERS
          value: kafka:9092  # brokers
"""
IMAGE = ["--image", "registry.example.com/kafka-sidecar:0.1.0"]


def run(*arguments: str, given: bytes = MANIFEST) -> tuple[int, bytes, str]:
    done = CliRunner().invoke(app, ["inject", *arguments], input=given)
    return done.exit_code, done.stdout_bytes, done.stderr


def test_standard_input_is_changed_to_standard_output_and_back() -> None:
    code, injected, noted = run(*IMAGE)
    assert (code, noted) == (0, "kafka-sidecar: Pod café: injected\n")
    code, removed, noted = run("--remove", given=injected)
    assert (code, noted) == (0, "kafka-sidecar: Pod café: removed\n")
    assert yaml.safe_load(removed) == yaml.safe_load(MANIFEST)
    assert b"# brokers" in removed


def test_a_file_is_read_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_bytes(MANIFEST)
    assert run(*IMAGE, str(file), given=b"")[:2] == run(*IMAGE)[:2]
    assert file.read_bytes() == MANIFEST


def test_flags_set_the_container() -> None:
    _, injected, _ = run(
        *IMAGE, "--config-map", "kafka", "--port", "29092", "--admin-port", "29190", "--pull-policy", "Always",
        "--cpu", "1", "--cpu-limit", "2", "--memory", "1Gi", "--memory-limit", "2Gi",
        "--env", "BROKERS", "--env", "KAFKA",
    )  # fmt: skip
    spec = yaml.safe_load(injected)["spec"]
    container = spec["initContainers"][0]
    assert container["imagePullPolicy"] == "Always"
    assert container["ports"][0]["containerPort"] == 29190
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"memory": "2Gi", "cpu": "2"},
    }
    assert container["args"][:2] == ["run", "--config"]
    assert [item["name"] for item in spec["containers"][0]["env"]] == ["BROKERS", "KAFKA", "KAFKA_BOOTSTRAP_SERVERS"]
    assert spec["containers"][0]["env"][0]["value"] == "127.0.0.1:29092"


def test_a_plain_container_is_an_ordinary_one() -> None:
    spec = yaml.safe_load(run(*IMAGE, "--plain", given=MANIFEST.replace(b"v1", b"v1", 1))[1])["spec"]
    assert "initContainers" not in spec
    assert [container["name"] for container in spec["containers"]] == ["kafka-sidecar", "app"]


def test_a_manifest_without_pods_is_written_as_it_is() -> None:
    given = b"kind: ConfigMap\napiVersion: v1\n"
    assert run(*IMAGE, given=given) == (0, given, "kafka-sidecar: no workload was changed\n")


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ([], "--image: write the sidecar's image, such as registry.example.com/kafka-sidecar:0.1.0, in place of ''"),
        ([*IMAGE, "--bootstrap-servers", "kafka"], '--bootstrap-servers: write host:port, such as "127.0.0.1:9092"'),
        ([*IMAGE, "--config-map", "No"], "--config-map: write the name of a ConfigMap, in place of 'No'"),
        ([*IMAGE, "--env", "A=B"], "--env: write the name of a variable, such as KAFKA_BOOTSTRAP_SERVERS"),
        ([*IMAGE, "--port", "0"], "--port: write a port from 1 to 65535, in place of '0'"),
        ([*IMAGE, "--admin-port", "19092"], "--admin-port: choose another than that of --port, 19092"),
        ([*IMAGE, "--pull-policy", "Daily"], "--pull-policy: write Always, IfNotPresent or Never"),
        ([*IMAGE, "--cpu", "lots"], "--cpu: write a quantity, such as 100m, in place of 'lots'"),
        ([*IMAGE, "no/such/file"], "no/such/file: cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_is_a_line_and_code_2(flags: list[str], line: str) -> None:
    code, written, noted = run(*flags)
    assert (code, written) == (2, b"")
    assert noted.startswith(f"kafka-sidecar: {line}")
    assert noted.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (b"\xff", "standard input: write it in UTF-8"),
        (b"a: ]\n", "standard input: line 1: invalid YAML: "),
        (b"a:\n  {{ if .Values.a }}\n  b: 1\n", "standard input: line 3: invalid YAML: "),
        (b"a: *b", "standard input: line 1: invalid YAML: found undefined alias"),
        (b"a: \x00", "standard input: invalid YAML: "),
    ],
)
def test_what_is_not_a_manifest_is_a_line_and_code_2(given: bytes, line: str) -> None:
    code, written, noted = run(*IMAGE, given=given)
    assert (code, written) == (2, b"")
    assert noted.startswith(f"kafka-sidecar: {line}")
    assert noted.count("\n") == 1
    assert noted.endswith("render templates first\n") == (b"{{" in given)
