"""What the Helm chart renders, started: the container of each value file in front of a broker, as kubelets run it."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from artefacts.container import command
from confluent_kafka import KafkaError, KafkaException, Producer
from harness.cluster import Cluster
from harness.helm import ROOT, SCENARIOS, Scenario
from harness.kubelet import POD_NAME, Container, Image, Objects
from harness.versions import NEWEST
from integration.front import logged
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually, headers_of
from support.pods import NAME, container_of, pod_of

Running = Callable[[Scenario], AbstractContextManager[Container]]

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
# In CI one of each kind; `make chart` starts all.
IN_CI = ("gateway-policies-1.37.0", "sidecar-1.37.0")
each_scenario = pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, marks=[] if one.name in IN_CI else pytest.mark.matrix, id=one.name)
        for one in SCENARIOS
        if one.values.stem != "gateway-tls"  # its Secrets are made by others: tests/integration/test_tls.py has TLS
    ],
)
pytestmark = pytest.mark.integration
PLAYED = ROOT / "build" / "image" / "played"
TOPICS = count()
PODS = count(random.randrange(200))  # other test processes have pods of their own


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(NEWEST) as cluster:
        yield cluster


@pytest.fixture(params=["program", pytest.param("image", marks=[pytest.mark.matrix, pytest.mark.image])])
def image(request: pytest.FixtureRequest) -> Image | None:
    """In what containers run: what is installed here, or the image as `make image-test` has built it."""
    if request.param == "program":
        return None
    if not PLAYED.exists() or os.geteuid() != 0:
        pytest.skip("needs root, and the image: make image-test")
    return partial(command, PLAYED.parent / "base", PLAYED)


@pytest.fixture
def running(cluster: Cluster, image: Image | None, tmp_path: Path) -> Running:
    @contextmanager
    def start(scenario: Scenario) -> Iterator[Container]:
        manifests = scenario.manifests()
        pod = pod_of(manifests)
        address = f"127.{random.randrange(20, 250)}.{random.randrange(250)}.{next(PODS) % 250 + 1}"
        container = Container(pod, container_of(pod), Objects(manifests), tmp_path, address, cluster.bootstrap, image)
        try:
            container.start()
            eventually(lambda: container.probe("readiness"), bool, "ready")
            yield container
        finally:
            container.kill()

    return start


def client_port(scenario: Scenario) -> int:
    """Where clients connect, by what the manifests say to them."""
    manifests = scenario.manifests()
    if scenario.is_sidecar:
        (application,) = [one for one in pod_of(manifests)["containers"] if one["name"] != NAME]
        return int(application["env"][0]["value"].removeprefix("127.0.0.1:"))
    (service,) = [
        one for one in manifests if one["kind"] == "Service" and one["metadata"]["name"] + "-admin" in names(manifests)
    ]
    return int(service["spec"]["ports"][0]["port"])


def names(manifests: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["name"] for one in manifests}


def ended_by_the_sidecar(container: Container) -> list[dict[str, Any]]:
    """Clients themselves close connections to bootstrap servers once they know the brokers."""
    lines = container.program.lines("connection ended")
    return [line for line in lines if line["cause"] != "client_closed"]


def new_topic(cluster: Cluster, prefix: str) -> str:
    name = f"{prefix}-{next(TOPICS)}"
    create_topic(cluster.direct, name, 1)
    return name


def config_files(scenario: Scenario) -> dict[str, str]:
    (found,) = [one["data"] for one in scenario.manifests() if "kafka-sidecar.yaml" in one.get("data", {})]
    return dict(found)


def with_topics(files: dict[str, str], topics: list[dict[str, str]]) -> dict[str, str]:
    config = yaml.safe_load(files["kafka-sidecar.yaml"])
    return files | {"kafka-sidecar.yaml": yaml.safe_dump(config | {"topics": topics})}


class Client:
    """A producer of an application, the same from beginning to end of a test."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}, logger=SILENT)

    def is_accepted(self, topic: str, value: bytes, headers: dict[str, bytes] | None = None) -> bool:
        """Whether the record is written; false if it is rejected as invalid."""
        results = list[KafkaError | None]()
        self._producer.produce(
            topic, value, headers=dict(headers or {}), on_delivery=lambda error, _: results.append(error)
        )
        assert self._producer.flush(LIMIT_S) == 0
        (error,) = results
        if error is not None and error.code() != KafkaError.INVALID_RECORD:
            raise KafkaException(error)
        return error is None


@each_scenario
def test_a_policy_of_the_config_map_is_enforced_and_changed_while_a_client_is_connected(
    scenario: Scenario, running: Running, cluster: Cluster
) -> None:
    topic = new_topic(cluster, "orders")
    files = config_files(scenario)
    topics = yaml.safe_load(files["kafka-sidecar.yaml"]).get("topics", [])
    with running(scenario) as container:
        client = Client(f"{container.address}:{client_port(scenario)}")
        assert client.is_accepted(topic, b"{}")
        assert client.is_accepted(topic, b"not JSON") == (not topics)
        container.update(with_topics(files, [{"name": "*", "policy": "json"}]))
        eventually(lambda: client.is_accepted(topic, b"not JSON"), lambda accepted: not accepted, "rejected")
        container.update(with_topics(files, []))
        eventually(lambda: client.is_accepted(topic, b"not JSON"), bool, "accepted again")
        assert container.probe("liveness")
        assert ended_by_the_sidecar(container) == []


@each_scenario
def test_a_pod_that_is_deleted_accepts_connections_until_its_hook_has_ended_and_then_drains(
    scenario: Scenario, running: Running
) -> None:
    with running(scenario) as container:
        hook = container.begin_to_end()
        if hook is not None:
            with socket.create_connection((container.address, client_port(scenario)), 1):
                assert hook.poll() is None, "clients still come while the hook runs"
            assert hook.wait(30) == 0
        assert container.end() == 0


@pytest.mark.matrix
@pytest.mark.parametrize("version", ["1.28.0", "1.37.0"])
def test_everything_by_reference_arrives(version: str, running: Running, cluster: Cluster) -> None:
    scenario = BY_NAME[f"gateway-settings-{version}"]
    topic = new_topic(cluster, "references")
    with running(scenario) as container:
        assert Client(f"{container.address}:9092").is_accepted(topic, b"a record")
        (record,) = logged(cluster.direct, topic)
        assert dict(headers_of(record)) == {"gateway": POD_NAME.encode(), "token": b"abc"}
        assert '"level":"info"' not in container.program.output().replace(" ", ""), "the level of envFrom"


def test_code_beside_the_configuration_is_run_and_replaced(running: Running, cluster: Cluster) -> None:
    scenario = BY_NAME["gateway-policies-1.37.0"]
    topic = new_topic(cluster, "parcels")
    files = config_files(scenario)
    with running(scenario) as container:
        client = Client(f"{container.address}:9092")
        assert client.is_accepted(topic, b"{}", {"country": b"DE"})
        assert not client.is_accepted(topic, b"{}", {"country": b"XX"})
        container.update(files | {"country.py": files["country.py"].replace("not in", "in")})  # the code alone
        eventually(lambda: client.is_accepted(topic, b"{}", {"country": b"XX"}), bool, "accepted by the new code")


def test_an_invalid_config_map_changes_nothing(running: Running, cluster: Cluster) -> None:
    scenario = BY_NAME["sidecar-1.37.0"]
    topic = new_topic(cluster, "orders")
    files = config_files(scenario)
    with running(scenario) as container:
        client = Client(f"{container.address}:{client_port(scenario)}")
        container.update(with_topics(files, [{"name": "orders*", "policy": "no-such-policy"}]))
        rejected = "configuration rejected, the previous one stays applied"
        eventually(lambda: rejected in container.program.output(), bool, rejected)
        assert not client.is_accepted(topic, b"not JSON")
        assert container.probe("readiness")


@pytest.mark.parametrize("image", ["program"], indirect=True)
def test_the_pod_of_helm_test_succeeds_in_front_of_a_gateway(
    running: Running, cluster: Cluster, tmp_path: Path, image: None
) -> None:
    scenario = BY_NAME["gateway-policies-1.37.0"]
    manifests = scenario.manifests()
    (pod,) = [one["spec"] for one in manifests if one["kind"] == "Pod"]
    outputs = []
    with running(scenario) as gateway:
        for container in [*pod["initContainers"], *pod["containers"]]:
            arguments = [text.replace("orders-kafka-sidecar:", f"{gateway.address}:") for text in container["args"]]
            folder = tmp_path / container["name"]
            folder.mkdir()
            run = Container(
                pod, container | {"args": arguments}, Objects(manifests), folder, gateway.address, cluster.bootstrap
            )
            assert run.run() == 0, run.program.output()
            outputs.append(run.program.output())
    assert outputs[0].endswith("kafka-sidecar.yaml: valid\n")
    assert outputs[1] == f"broker 1 at {gateway.address}:10001: reached\n"
