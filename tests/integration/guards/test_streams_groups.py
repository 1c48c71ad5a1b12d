"""Internal topics of streams groups (KIP-1071), which brokers create, are held to guards; a real Kafka Streams asks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import CACHE, NEWEST, ROOT, jars
from integration.scenarios.target import LIMIT_S, admin_client, create_topic

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PROGRAM = ROOT / "tests" / "jvm" / "streams" / "CountedRecords.java"
UP_S = 60
GUARDS = [
    {"topics": ["free-*"]},
    {"topics": ["many-*"], "partitions": {"min": 3}},
    {"topics": ["three-*"], "replication_factor": {"min": 3}},
    {"topics": ["kept-*-changelog"], "configs": {"cleanup.policy": {"values": ["delete"]}}},
    {"topics": ["seen-*"], "create": "deny", "mode": "shadow"},
    {"create": "deny"},
]


@dataclass(frozen=True, slots=True)
class Site:
    cluster: Cluster
    sidecar: Sidecar
    folder: Path
    admin: AdminClient

    def run(self, name: str, partitions: int = 0, *settings: str) -> str:
        """What Kafka Streams has to say, as an application of this name."""
        path = f"{jars(NEWEST)}:{CACHE / f'streams-{NEWEST}'}/*"
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", path, str(PROGRAM), self.sidecar.bootstrap]
        command += ["in", name, str(partitions), str(UP_S), str(self.folder / name), *settings]
        done = subprocess.run(command, capture_output=True, text=True, timeout=UP_S + 60, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout.strip()

    def internal(self, name: str) -> dict[str, int]:
        """The topics of an application, with their numbers of partitions."""
        found = self.admin.list_topics(timeout=LIMIT_S).topics
        return {topic.removeprefix(f"{name}-"): len(one.partitions) for topic, one in found.items() if name in topic}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    work = tmp_path_factory.mktemp("streams")
    settings = work / "sidecar.yaml"
    settings.write_text(yaml.safe_dump({"topic_guards": GUARDS}))
    with (
        Cluster.start(NEWEST, 1) as cluster,
        Sidecar.start(cluster.bootstrap, work / "sidecar.log", ["--config", str(settings)]) as sidecar,
    ):
        create_topic(cluster.direct, "in", 2)
        yield Site(cluster, sidecar, work, admin_client(cluster.direct))


COMPUTED = {"again-repartition": 2, "counts-changelog": 2}


def test_an_application_whose_topics_comply_runs(site: Site) -> None:
    assert site.run("free-app") == "running"
    assert site.internal("free-app") == COMPUTED


def test_an_application_that_may_create_no_topics_ends_with_the_message(site: Site) -> None:
    said = site.run("other-app")
    assert said.startswith("PolicyViolationException: other-app-")
    assert "it may not be created: ask those who operate the cluster (topic_guards, entry 6) (kafka-sidecar " in said
    assert site.internal("other-app") == {}


def test_numbers_that_the_broker_would_compute_are_compared(site: Site) -> None:
    said = site.run("many-app")
    assert "partitions=2, allowed: 3 at least (topic_guards, entry 2)" in said
    assert site.internal("many-app") == {}
    assert site.run("many-reported", 4) == "running"
    assert site.internal("many-reported") == {"again-repartition": 4, "counts-changelog": 4}


def test_replicas_that_the_broker_chooses_are_compared(site: Site) -> None:
    assert "replication.factor=1, allowed: 3 at least (topic_guards, entry 3)" in site.run("three-app")
    assert site.internal("three-app") == {}


def test_configs_are_compared(site: Site) -> None:
    said = site.run("kept-app")
    assert "kept-app-counts-changelog: cleanup.policy=compact, allowed: delete (topic_guards, entry 4)" in said


def test_topics_that_are_there_are_not_asked_about_again(site: Site) -> None:
    names = ["there-app-again-repartition", "there-app-counts-changelog"]
    for future in site.admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        future.result(LIMIT_S)
    assert site.run("there-app") == "running"


def test_in_shadow_it_is_only_reported(site: Site) -> None:
    assert site.run("seen-app") == "running"
    assert site.internal("seen-app") == COMPUTED
    assert '"topic": "seen-app-counts-changelog"' in site.sidecar.log.read_text()
