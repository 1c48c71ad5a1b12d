"""The image, its steps played in a clean root, run as a pod would run it: `make image-test`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest
from artefacts.container import command
from artefacts.dockerfile import ROOT
from artefacts.table import Measured, components, write_tables
from confluent_kafka import KafkaError, Message, Producer
from harness import admin_pages
from harness.ports import free_ports
from harness.processes import Program

NEEDED = ("debootstrap", "unshare")
CANNOT = os.geteuid() != 0 or not all(map(shutil.which, NEEDED))
pytestmark = [
    pytest.mark.image,
    pytest.mark.skipif(CANNOT, reason=f"building an image without a builder needs root, {' and '.join(NEEDED)}"),
]

WORK = ROOT / "build" / "image"
STARTS = 9


@pytest.fixture(scope="module")
def base() -> Path:
    """The root that stands in for the base image; kept, because it takes a minute."""
    if not (WORK / "base" / "usr/local/bin/python").is_symlink():
        subprocess.run([Path(__file__).with_name("base.sh"), WORK / "base"], check=True)
    return WORK / "base"


@pytest.fixture(scope="module")
def image(base: Path) -> Path:
    shutil.rmtree(WORK / "played", ignore_errors=True)
    player = [sys.executable, "-m", "artefacts.player", base, WORK / "played", "VERSION=0.1.0"]
    subprocess.run(list(map(str, player)), check=True, cwd=ROOT / "tests")
    return WORK / "played"


@pytest.fixture
def kafka() -> Iterator[str]:
    """Three mock brokers."""
    keeper = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3, "log_level": 0})
    yield ",".join(f"{broker.host}:{broker.port}" for broker in keeper.list_topics(timeout=10).brokers.values())
    keeper.flush(0)  # they exist as long as it does


class Container:
    """A sidecar in the image, with a configuration that a ConfigMap would mount."""

    def __init__(self, base: Path, image: Path, brokers: str, work: Path) -> None:
        self.config = work / "config"
        listen, *_, admin = free_ports(102)
        self.bootstrap, self.admin = f"127.0.0.1:{listen}", f"http://127.0.0.1:{admin}"
        self.set_policy("json")
        env = {
            "KAFKA_SIDECAR__BOOTSTRAP_SERVERS": brokers,
            "KAFKA_SIDECAR__LISTEN": self.bootstrap,
            "KAFKA_SIDECAR__ADMIN__LISTEN": f"127.0.0.1:{admin}",
        }
        arguments = ["run", "--config", "/etc/kafka-sidecar/kafka-sidecar.yaml"]
        mounts = {"/etc/kafka-sidecar": self.config}
        self.program = Program(command(base, image, arguments, mounts, env), work / "log")

    def set_policy(self, policy: str) -> None:
        """Changes the file as the kubelet does: by a link that is replaced."""
        self.config.mkdir(exist_ok=True)
        (version := self.config / f"..{time.monotonic_ns()}").mkdir()
        (version / "kafka-sidecar.yaml").write_text(f"topics: [{{name: orders, policy: '{policy}'}}]\n")
        (new := self.config / "..data_tmp").symlink_to(version.name)
        new.rename(self.config / "..data")
        if not (link := self.config / "kafka-sidecar.yaml").is_symlink():
            link.symlink_to("..data/kafka-sidecar.yaml")

    @property
    def pid(self) -> int:
        """The process that is 1 in the container."""
        return int(Path(f"/proc/{self.program.pid}/task/{self.program.pid}/children").read_text().split()[0])

    def status(self) -> dict[str, str]:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}

    def page(self, path: str) -> str:
        return admin_pages.get(self.admin + path).text

    def responds(self, path: str) -> bool:
        try:
            return bool(self.page(path))
        except OSError:
            return False

    def wait_for(self, path: str) -> None:
        self.program.wait_for(lambda: self.responds(path), path)

    def terminate(self) -> int:
        os.kill(self.pid, signal.SIGTERM)
        return self.program.popen.wait(20)


@contextmanager
def running(base: Path, image: Path, brokers: str, work: Path) -> Iterator[Container]:
    container = Container(base, image, brokers, work)
    try:
        yield container
    finally:
        container.program.kill()


def send(bootstrap: str, value: bytes) -> KafkaError | None:
    """The error of one record, None if it was written."""
    errors: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        errors.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce("orders", value, on_delivery=delivered)
    assert producer.flush(20) == 0
    return errors[0]


def test_it_runs_without_root_rights_capabilities_or_a_writable_root(
    base: Path, image: Path, kafka: str, tmp_path: Path
) -> None:
    with running(base, image, kafka, tmp_path) as container:
        container.wait_for("/readyz")
        status = container.status()
        assert (status["Uid"].split(), status["Gid"].split(), status["Groups"]) == (["10001"] * 4, ["10001"] * 4, "")
        assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert (status["NoNewPrivs"], status["NSpid"].split()[-1]) == ("1", "1")
        mounts = [line.split() for line in Path(f"/proc/{container.pid}/mounts").read_text().splitlines()]
        options = {target: set(words.split(",")) for _, target, _, words, *_ in mounts}
        assert "ro" in options["/"] & options["/etc/kafka-sidecar"]
        assert [target for target, words in options.items() if "rw" in words and target not in ("/proc", "/dev")] == [
            "/tmp"
        ]
        assert '"build": "compiled"' in container.program.output()
        assert container.terminate() == 0


def test_a_policy_of_the_configmap_is_enforced_and_changed_live(
    base: Path, image: Path, kafka: str, tmp_path: Path
) -> None:
    with running(base, image, kafka, tmp_path) as container:
        container.wait_for("/readyz")
        assert send(container.bootstrap, b"{}") is None
        rejected = send(container.bootstrap, b"{")
        assert rejected is not None
        assert rejected.name() == "INVALID_RECORD"
        container.set_policy('cel:"size(value) > 0"')
        container.program.wait_for(lambda: '"configuration applied"' in container.program.output(), "reloaded")
        assert send(container.bootstrap, b'{"a": 1}') is None
        assert send(container.bootstrap, b"{}") is not None


def test_sigterm_ends_process_1_while_it_still_starts(base: Path, image: Path, tmp_path: Path) -> None:
    """Process 1 ignores signals without a handler, so this tests the handler that entry.py sets first of all."""
    with running(base, image, "127.0.0.1:1", tmp_path) as container:
        program = container.program
        caught = 1 << (signal.SIGTERM - 1)
        program.wait_for(
            lambda: container_has_python(container) and int(container.status()["SigCgt"], 16) & caught > 0, "caught"
        )
        assert (container.terminate(), program.output()) == (0, "")


def container_has_python(container: Container) -> bool:
    """Whether process 1 has become the sidecar."""
    try:
        return container.status()["Uid"].split()[0] == "10001"
    except (OSError, IndexError):
        return False


def test_the_tables_of_the_documentation_are_measured(base: Path, image: Path, kafka: str, tmp_path: Path) -> None:
    live, ready, rss = [], [], []
    for number in range(STARTS):
        (work := tmp_path / str(number)).mkdir()
        start = time.monotonic()
        with running(base, image, kafka, work) as container:
            container.wait_for("/livez")
            live.append(time.monotonic() - start)
            container.wait_for("/readyz")
            ready.append(time.monotonic() - start)
            rss.append(int(re.findall(r"\d+", container.status()["VmRSS"])[0]))
            assert container.terminate() == 0
    layer = (image / "layer").resolve()
    packed = subprocess.run(
        f"tar --create --directory {layer} . | gzip | wc --bytes", shell=True, check=True, stdout=-1
    )
    unpacked = int(subprocess.check_output(["du", "--bytes", "--summarize", layer]).split()[0])
    sbom = json.loads((layer / "opt/kafka-sidecar/sbom.cdx.json").read_text())
    assert len(components(sbom)) > 30
    write_tables(Measured(unpacked, int(packed.stdout), median(live), median(ready), int(median(rss))), sbom)
