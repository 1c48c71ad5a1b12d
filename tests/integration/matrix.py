"""The compatibility matrix as a table: which client does what, against which brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed

import confluent_kafka
from harness.versions import BROKERS, JAVA_CLIENTS, NEWEST, as_numbers
from integration.fronts import PLAIN, SECURED, Front
from integration.scenarios import aiokafka_client, java_tools, kafka_python, librdkafka
from integration.scenarios.security import PLAINTEXT
from integration.scenarios.target import Target

NODES = (1, 3)

_NO_SHARE_GROUPS = {
    "3.9": "share groups came with Kafka 4.0",
    "4.0": "Kafka 4.0 has an early form of share groups that later clients do not speak",
}
_OLD_HEARTBEAT = "the preview of KIP-848 in Kafka 3.9 knows only version 0 of the heartbeat"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What one client does; ``unavailable`` says on which broker lines it cannot, and why, whoever is in between."""

    client: str
    name: str
    run: Callable[[Target], None]
    unavailable: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario against one cluster, through a sidecar that is reached in one way."""

    scenario: Scenario
    broker: str
    nodes: int
    front: Front = PLAIN

    @property
    def reason(self) -> str | None:
        """Why this cannot work even directly, or None if it can."""
        return self.scenario.unavailable.get(line(self.broker))

    @property
    def is_core(self) -> bool:
        """Whether every change is tested with it: the newest broker, on three nodes, of old clients some."""
        if self.front is not PLAIN:  # test_tls.py and test_sasl_ssl.py are run with every change
            return False
        is_old = self.scenario.client.startswith("Java") and self.scenario.client != f"Java {JAVA_CLIENTS[0]}"
        return self.broker == NEWEST and self.nodes == 3 and (not is_old or self.scenario.name in CORE_OF_OLD_CLIENTS)

    def __str__(self) -> str:
        front = "" if self.front is PLAIN else f"-{self.front}"
        return f"{self.broker}-{self.nodes}n{front}-{self.scenario.client}-{self.scenario.name}".replace(" ", "_")


def line(version: str) -> str:
    """
    >>> line("4.0.2")
    '4.0'
    """
    return version.rpartition(".")[0]


# name, function, where it cannot work
_TOOLS: tuple[tuple[str, Callable[[java_tools.Tools], None], Mapping[str, str]], ...] = (
    ("console producer and consumer", java_tools.console, {}),
    ("performance tools", java_tools.performance, {}),
    ("verifiable producer and consumer", java_tools.verifiable, {}),
    ("topics tool", java_tools.topics, {}),
    ("configs and ACLs tools", java_tools.configs, {}),
    ("consumer groups tool", java_tools.groups, {}),
    ("cluster, quorum, features, log dirs and client metrics tools", java_tools.cluster, {}),
    ("offsets and delete-records tools", java_tools.offsets, {}),
    ("reassignment, election and transactions tools", java_tools.partitions, {}),
)
_TOOLS_OF_KAFKA_4: tuple[tuple[str, Callable[[java_tools.Tools], None], Mapping[str, str]], ...] = (
    ("console share consumer", java_tools.console_share, _NO_SHARE_GROUPS),
    ("verifiable share consumer", java_tools.verifiable_share, _NO_SHARE_GROUPS),
    ("share groups, groups and streams groups tools", java_tools.share_groups, _NO_SHARE_GROUPS),
)

# name, class and method in tests/jvm/java
_JAVA = (
    ("producer, every codec", "ProducerScenarios", "codecs"),
    ("producer, acks 0, 1 and all", "ProducerScenarios", "acks"),
    ("producer, records of nearly 1 MB", "ProducerScenarios", "large"),
    ("idempotent producer", "ProducerScenarios", "idempotent"),
    ("transactional producer", "ProducerScenarios", "transactional"),
    ("classic consumer group", "GroupScenarios", "classic"),
    ("KIP-848 consumer group", "GroupScenarios", "consumer"),
    ("KIP-848 consumer group by pattern", "GroupScenarios", "consumerPattern"),
    ("Admin: topics", "AdminScenarios", "topics"),
    ("Admin: configs, quotas, credentials, ACLs", "AdminScenarios", "configs"),
    ("Admin: cluster, partitions, transactions", "AdminScenarios", "cluster"),
    ("Admin: groups", "GroupAdminScenarios", "groups"),
    ("Admin: offsets", "GroupAdminScenarios", "offsets"),
)
_JAVA_OF_KAFKA_4: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("share consumer", "share", _NO_SHARE_GROUPS),
    ("KIP-848 consumer group by the broker's pattern", "brokerPattern", {"3.9": "came with Kafka 4.0"}),
    ("Admin: groups of every kind, fenced brokers", "listGroups", {"3.9": "fenced brokers are listed since Kafka 4.0"}),
    ("Admin: resources with configs", "configResources", dict.fromkeys(("3.9", "4.0"), "came with Kafka 4.1")),
)

_LIBRDKAFKA: tuple[tuple[str, Callable[[Target], None], Mapping[str, str]], ...] = (
    ("producer, every codec", librdkafka.codecs, {}),
    ("producer, acks 0, 1 and all", librdkafka.acks, {}),
    ("idempotent producer", librdkafka.idempotent, {}),
    ("transactional producer", librdkafka.transactional, {}),
    ("classic consumer group", librdkafka.classic_group, {}),
    ("KIP-848 consumer group", librdkafka.consumer_group, {"3.9": _OLD_HEARTBEAT}),
    ("Admin: topics, records", librdkafka.admin_topics, {}),
    ("Admin: configs, ACLs", librdkafka.admin_configs, {}),
    ("Admin: cluster, groups, offsets", librdkafka.admin_groups, {}),
)
_AIOKAFKA = (
    ("producer, every codec", aiokafka_client.codecs),
    ("producer, acks 0, 1 and all", aiokafka_client.acks),
    ("idempotent producer", aiokafka_client.idempotent),
    ("transactional producer", aiokafka_client.transactional),
    ("classic consumer group", aiokafka_client.group),
    ("Admin: topics, configs, groups, cluster", aiokafka_client.admin),
)
_KAFKA_PYTHON = (
    ("producer, gzip, lz4 and zstd", kafka_python.codecs),
    ("producer, acks 0, 1 and all", kafka_python.acks),
    ("idempotent producer", kafka_python.idempotent),
    ("transactional producer", kafka_python.transactional),
    ("classic consumer group", kafka_python.group),
    ("Admin: topics, configs, groups, cluster", kafka_python.admin),
    ("Admin: metadata quorum", kafka_python.admin_quorum),
)

CORE_OF_OLD_CLIENTS = frozenset(
    {"console producer and consumer", "transactional producer", "classic consumer group", "share consumer"}
)


def _tool(version: str, run: Callable[[java_tools.Tools], None]) -> Callable[[Target], None]:
    def with_properties(target: Target) -> None:
        host = target.java[version]
        if target.security == PLAINTEXT:
            run(java_tools.Tools(target, host))
            return
        with target.client_properties() as properties:
            run(java_tools.Tools(target, host, properties))

    return with_properties


def _java(version: str, main: str, method: str) -> Callable[[Target], None]:
    def run(target: Target) -> None:
        with target.client_properties() as properties:
            target.java[version].run(main, method, target.bootstrap, target.prefix, target.nodes, properties)

    return run


def _java_scenarios(version: str) -> Iterator[Scenario]:
    client = f"Java {version}"
    is_new = as_numbers(version) >= (4,)
    for name, run, where_not in _TOOLS + (_TOOLS_OF_KAFKA_4 if is_new else ()):
        yield Scenario(client, name, _tool(version, run), where_not)
    for name, main, method in _JAVA:
        pattern = is_new and method == "consumerPattern"
        where_not = {"3.9": "the client joins without topics, which the preview of KIP-848 rejects"} if pattern else {}
        yield Scenario(client, name, _java(version, main, method), where_not)
    for name, method, where_not in _JAVA_OF_KAFKA_4 if is_new else ():
        yield Scenario(client, name, _java(version, "Kafka4Scenarios", method), where_not)


def _scenarios() -> Iterator[Scenario]:
    for version in JAVA_CLIENTS:
        yield from _java_scenarios(version)
    client = f"librdkafka {confluent_kafka.libversion()[0]}"
    for name, run, where_not in _LIBRDKAFKA:
        yield Scenario(client, name, run, where_not)
    for name, run in _AIOKAFKA:
        yield Scenario(f"aiokafka {installed('aiokafka')}", name, run)
    for name, run in _KAFKA_PYTHON:
        yield Scenario(f"kafka-python {installed('kafka-python')}", name, run)


SCENARIOS: tuple[Scenario, ...] = tuple(_scenarios())
# Options of tools differ between versions: only the newest ones are given files with secrets.
SECURED_SCENARIOS = tuple(
    one for one in SCENARIOS if not one.client.startswith("Java") or one.client == f"Java {JAVA_CLIENTS[0]}"
)
SECURED_CELLS = tuple(Cell(scenario, NEWEST, 1, front) for front in SECURED for scenario in SECURED_SCENARIOS)
CELLS: tuple[Cell, ...] = (
    *(Cell(scenario, broker, nodes) for broker in BROKERS for nodes in reversed(NODES) for scenario in SCENARIOS),
    *SECURED_CELLS,
)
