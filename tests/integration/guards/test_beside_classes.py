"""Guards of topics answer as a broker does that has Kafka's own policy classes (KIP-108, KIP-133)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost, compiled
from harness.versions import NEWEST, OLDEST
from integration.guards.asks import DONE, GOOD, Where
from integration.guards.rows import DEFAULTS, FRANZ, GUARD, POLICIES, ROWS, SARAMA, Row
from integration.scenarios.target import LIMIT_S, admin_client, eventually
from integration.validation.other_clients import is_missing

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True)
class Beside:
    """A plain cluster with a sidecar, and a cluster with classes."""

    plain: Cluster
    classes: Cluster
    sidecar: Sidecar
    java: ToolHost


@pytest.fixture(scope="module", params=[NEWEST, pytest.param(OLDEST, marks=pytest.mark.matrix)])
def beside(
    request: pytest.FixtureRequest, java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Beside]:
    """Brokers of the newest and of the oldest version, with the newest tools."""
    version = request.param
    work = tmp_path_factory.mktemp("guards")
    settings = work / "sidecar.yaml"
    settings.write_text(yaml.safe_dump({"topic_guards": [GUARD]}))
    with (
        Cluster.start(version, 1, DEFAULTS) as plain,
        Cluster.start(version, 1, {**DEFAULTS, **POLICIES}, classes=compiled(version)) as classes,
        Sidecar.start(plain.bootstrap, work / "sidecar.log", ["--config", str(settings)]) as sidecar,
    ):
        yield Beside(plain, classes, sidecar, java[NEWEST])
        assert plain.leaks() == []


def state(admin: AdminClient, prefix: str) -> dict[str, tuple[int, dict[str, str]]]:
    """The topics that a row may have made: number of partitions, and configs that are not defaults."""
    found = {
        name: len(topic.partitions) for name, topic in admin.list_topics(timeout=LIMIT_S).topics.items()
        if name.removeprefix("Bad-").startswith(prefix)
    }  # fmt: skip
    resources = {name: ConfigResource(ConfigResource.Type.TOPIC, name) for name in found}
    if not resources:
        return {}
    described = admin.describe_configs(list(resources.values()))
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    configs = {name: described[resource].result(LIMIT_S) for name, resource in resources.items()}
    return {
        name: (count, {key: one.value for key, one in configs[name].items() if one.source == own})
        for name, count in found.items()
    }


def make(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 3, 1, config=GOOD)])[topic].result(LIMIT_S)
    eventually(lambda: state(admin, topic), lambda found: topic in found, "the topic is there")


def numbered(at: int, row: Row) -> object:
    is_built = row.client in (FRANZ, SARAMA)
    missing = is_built and is_missing(row.client)
    marks = [pytest.mark.skipif(missing, reason=f"{row.client} cannot be built here")]
    marks += [pytest.mark.slow] if is_built else []
    return pytest.param(at, marks=marks, id=f"{row.client}: {row.request}")


@pytest.mark.parametrize("at", [numbered(at, row) for at, row in enumerate(ROWS)])
def test_answer_and_effect_are_those_of_a_broker_with_classes(beside: Beside, at: int) -> None:
    row, topic = ROWS[at], f"row.t{at}x"
    plain, classes = admin_client(beside.plain.direct), admin_client(beside.classes.direct)
    if row.exists:
        make(plain, topic)
        make(classes, topic)
    answers = [
        row.ask(Where(bootstrap, beside.java), topic) for bootstrap in (beside.sidecar.bootstrap, beside.classes.direct)
    ]
    assert answers == [row.answer, row.at_classes or row.answer]
    if row.at_classes:
        assert state(plain, topic) == ({topic: (3, GOOD)} if row.exists else {})
    else:
        is_made = row.exists or (DONE in row.answer and "alidate" not in row.request)
        eventually(
            lambda: (state(plain, topic), state(classes, topic)),
            lambda both: both[0] == both[1] and (topic in both[0]) == is_made,
            "the same effect",
        )


def test_the_message_of_a_refusal_says_what_a_class_would_have_to_say(beside: Beside) -> None:
    admin = admin_client(beside.sidecar.bootstrap)
    with pytest.raises(KafkaException) as error:
        admin.create_topics([NewTopic("row.said", 7, 1, config=GOOD)])["row.said"].result(LIMIT_S)
    message = error.value.args[0].str()
    assert message.startswith("row.said: partitions=7, allowed: 3 to 6 (topic_guards, entry 1) (kafka-sidecar explain ")


def test_both_clusters_are_asked_for_something_else_by_every_row() -> None:
    asked = [(row.client, row.request) for row in ROWS]
    assert len(set(asked)) == len(asked)
