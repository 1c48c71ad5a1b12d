"""Kafka's main classes in JVMs of their own, and what all brokers of one version share.

A broker is formatted and has its classes loaded once per version: the class data archive and the bootstrap records are
kept beside the jars. It halves the CPU of each later start.
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import connections
from harness.broker_properties import Ports, properties
from harness.ports import free_ports
from harness.processes import Program
from harness.versions import CACHE, jars

# A broker of the tests lives for seconds: quick to start and small, rather than fast in the long run.
OPTIONS = ("-Xms64m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_LOG_LEVELS = {
    "defaultLogLevel": "warn",
    f"log.{connections.LOGGER}": "debug",
    "log.kafka.server.KafkaRaftServer": "info",
}
_LOGGING = tuple(
    f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in {**_LOG_LEVELS, "showDateTime": "true"}.items()
)
STARTED = "Kafka Server started"
OF_A_NODE = "meta.properties"
# On a machine that many clusters start on at once.
START_LIMIT_S = 180


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files that every node of one version starts from."""

    storage: Path  # what formatting writes for any node: bootstrap records, with the feature levels of the version
    classes: Path  # for -XX:SharedArchiveFile; a JVM that does not fit it starts without

    @property
    def exists(self) -> bool:
        return self.storage.exists()

    @classmethod
    def of(cls, version: str) -> Prepared:
        """Where they are, whether made or not."""
        folder = CACHE / version / "prepared"
        return cls(folder / "storage", folder / "classes.jsa")


def java(version: str, *arguments: str | Path, classes: Path | None = None) -> list[str | Path]:
    """The command that runs a main class of one Kafka version. ``classes``: a folder with more classes."""
    path = (
        jars(version) if classes is None else f"{jars(version)}:{classes}"
    )  # jars first, as in the archive of classes
    return ["java", *OPTIONS, *shared_classes(version), *_LOGGING, "-cp", path, *arguments]


def shared_classes(version: str) -> list[str]:
    """The option that takes classes from the archive, if there is one."""
    archive = Prepared.of(version).classes
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def prepared(version: str) -> Prepared:
    """Made by the first process that asks, about 10 s; the others wait for it."""
    files = Prepared.of(version)
    jars(version)
    with (CACHE / f".preparing-{version}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not files.exists:
            work = Path(tempfile.mkdtemp(prefix="kafka-"))
            try:
                _prepare(version, work, files)
            finally:
                shutil.rmtree(work)
    return files


def _prepare(version: str, work: Path, files: Prepared) -> None:
    config, data, archive = work / "server.properties", work / "data", work / files.classes.name
    ports = Ports(*free_ports(4))
    write(config, properties(version, 1, ports, {1: ports}, data, {}))
    format_command = java(version, "kafka.tools.StorageTool", "format", f"--cluster-id={new_id()}", "--config", config)
    subprocess.run(format_command, check=True, capture_output=True, timeout=START_LIMIT_S)
    storage = shutil.copytree(data, work / files.storage.name, ignore=shutil.ignore_patterns(OF_A_NODE))
    broker = Program(java(version, f"-XX:ArchiveClassesAtExit={archive}", "kafka.Kafka", config), work / "broker.log")
    broker.wait_for(lambda: STARTED in broker.output(), STARTED, START_LIMIT_S)
    broker.stop(START_LIMIT_S)
    files.storage.parent.mkdir(exist_ok=True)
    shutil.copy(archive, files.classes)
    shutil.move(storage, files.storage)


def format_storage(version: str, data: Path, cluster_id: str, node_id: int) -> None:
    """What `kafka-storage format` writes, without a JVM."""
    shutil.copytree(prepared(version).storage, data)
    write(
        data / OF_A_NODE,
        {"version": 1, "cluster.id": cluster_id, "node.id": node_id, "directory.id": new_id()},
    )


def write(file: Path, config: dict[str, object]) -> None:
    """Java properties."""
    file.write_text("".join(f"{key}={value}\n" for key, value in config.items()))


def new_id() -> str:
    """A random UUID as Kafka writes it; none begins with a hyphen."""
    return "A" + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")[1:]
