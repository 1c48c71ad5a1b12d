"""Kafka's own command-line tools, each as its users call it."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.tool_host import ToolError, ToolHost
from harness.versions import as_numbers
from integration.scenarios.target import Target, eventually

TOOLS = "org.apache.kafka.tools"
# Main classes that moved between the versions: name -> (of the oldest clients, of the newest).
MOVED = {
    "ConsoleProducer": ("kafka.tools.ConsoleProducer", f"{TOOLS}.ConsoleProducer"),
    "BrokerApiVersionsCommand": ("kafka.admin.BrokerApiVersionsCommand", f"{TOOLS}.BrokerApiVersionsCommand"),
    "AclCommand": ("kafka.admin.AclCommand", f"{TOOLS}.AclCommand"),
    "ConfigCommand": ("kafka.admin.ConfigCommand", f"{TOOLS}.ConfigCommand"),
}
PLACES = {
    "ConsoleConsumer": f"{TOOLS}.consumer",
    "ConsoleShareConsumer": f"{TOOLS}.consumer",
    "ConsumerGroupCommand": f"{TOOLS}.consumer.group",
    "ShareGroupCommand": f"{TOOLS}.consumer.group",
    "ReassignPartitionsCommand": f"{TOOLS}.reassign",
    "StreamsGroupCommand": f"{TOOLS}.streams",
}


class Tools:
    """The tools of one version, pointed at one target.

    ``properties``: a file with how they connect.
    """

    def __init__(self, target: Target, host: ToolHost, properties: Path | None = None) -> None:
        self.target = target
        self.security = () if properties is None else ("--command-config", properties)
        self.is_old = as_numbers(host.version) < (4,)
        self._host = host

    def run(self, tool: str, *args: object, stdin: str = "") -> str:
        """What the tool printed; raises ToolError when it fails."""
        return self.run_bare(tool, "--bootstrap-server", self.target.bootstrap, *self.security, *args, stdin=stdin)

    def run_bare(self, tool: str, *args: object, stdin: str = "") -> str:
        """The same for a tool that wants the address elsewhere in its arguments."""
        main = MOVED[tool][not self.is_old] if tool in MOVED else f"{PLACES.get(tool, TOOLS)}.{tool}"
        return self._host.run(main, *args, stdin=stdin)

    def expect(self, pattern: str, tool: str, *args: object) -> str:
        """Calls the tool until it succeeds and prints what matches: a broker may not have heard the news yet."""

        def printed() -> str:
            try:
                return self.run(tool, *args)
            except ToolError as error:
                return f"failed: {error}"

        def matches(out: str) -> bool:
            return not out.startswith("failed: ") and re.search(pattern, out) is not None

        return eventually(printed, matches, f"{tool}: {pattern}")

    def named(self, suffix: str) -> str:
        return self.target.named(suffix)


def console(tools: Tools) -> None:
    topic = tools.target.topic("console", 2)
    lines = "".join(f"k{number}\tvalue {number}\n" for number in range(100))
    tools.run("ConsoleProducer", "--topic", topic, "--property", "parse.key=true", stdin=lines)
    printed = tools.run(
        "ConsoleConsumer", "--topic", topic, "--group", tools.named("group"), "--from-beginning", "--max-messages", 100,
        "--property", "print.key=true", "--timeout-ms", 20000,
    )  # fmt: skip
    assert sorted(line for line in printed.splitlines() if "\t" in line) == sorted(lines.splitlines())


def console_share(tools: Tools) -> None:
    topic, group = tools.target.topic("console-share", 2), tools.named("share")
    share = ["--entity-type", "groups", "--entity-name", group]
    tools.expect("", "ConfigCommand", "--alter", *share, "--add-config", "share.auto.offset.reset=earliest")
    tools.run("ConsoleProducer", "--topic", topic, stdin="".join(f"{number}\n" for number in range(20)))
    printed = tools.run(
        "ConsoleShareConsumer", "--topic", topic, "--group", group, "--max-messages", 20, "--timeout-ms", 10000
    )
    assert sorted(map(int, printed.split())) == list(range(20))


def performance(tools: Tools) -> None:
    topic = tools.target.topic("performance", 3)
    properties = [
        "--producer-props",
        f"bootstrap.servers={tools.target.bootstrap}",
        "compression.type=lz4",
        *tools.security,
    ]
    printed = tools.run_bare(
        "ProducerPerformance", "--topic", topic, "--num-records", 50_000, "--record-size", 200, "--throughput", -1,
        *properties,
    )  # fmt: skip
    assert "50000 records sent" in printed
    printed = tools.run("ConsumerPerformance", "--topic", topic, "--messages", 50_000, "--timeout", 20_000)
    read = int(printed.strip().splitlines()[-1].split(",")[4])
    assert read >= 50_000


def verifiable(tools: Tools) -> None:
    topic = tools.target.topic("verifiable", 3)
    printed = tools.run("VerifiableProducer", "--topic", topic, "--max-messages", 1000, "--acks", -1)
    [summary] = [event for event in _events(printed) if event["name"] == "tool_data"]
    assert [summary["sent"], summary["acked"]] == [1000, 1000]
    printed = tools.run(
        "VerifiableConsumer", "--topic", topic, "--group-id", tools.named("group"), "--max-messages", 1000,
        "--reset-policy", "earliest", "--verbose",
    )  # fmt: skip
    values = [event["value"] for event in _events(printed) if event["name"] == "record_data"]
    assert sorted(map(int, values)) == list(range(1000))


def verifiable_share(tools: Tools) -> None:
    topic = tools.target.topic("verifiable-share", 2)
    tools.run("VerifiableProducer", "--topic", topic, "--max-messages", 200)
    printed = tools.run(
        "VerifiableShareConsumer", "--topic", topic, "--group-id", tools.named("share"), "--max-messages", 200,
        "--offset-reset-strategy", "earliest", "--acknowledgement-mode", "sync",
    )  # fmt: skip
    acknowledged = sum(event["count"] for event in _events(printed) if event["name"] == "offsets_acknowledged")
    assert acknowledged >= 200


def _events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def topics(tools: Tools) -> None:
    topic = tools.named("topic")
    tools.run("TopicCommand", "--create", "--topic", topic, "--partitions", 2, "--config", "retention.ms=1234567")
    tools.expect("retention.ms=1234567", "TopicCommand", "--describe", "--topic", topic)
    tools.expect("", "TopicCommand", "--alter", "--topic", topic, "--partitions", 4)
    tools.expect("PartitionCount: 4", "TopicCommand", "--describe", "--topic", topic)
    tools.expect(re.escape(topic), "TopicCommand", "--list")
    tools.run("TopicCommand", "--delete", "--topic", topic)
    eventually(lambda: tools.run("TopicCommand", "--list"), lambda out: topic not in out.split(), "deleted")


def configs(tools: Tools) -> None:
    topic = tools.target.topic("configs")
    entities: list[tuple[list[object], str, str]] = [
        (["--entity-type", "topics", "--entity-name", topic], "max.message.bytes", "65536"),
        (["--entity-type", "brokers", "--entity-name", "1"], "log.cleaner.backoff.ms", "14000"),
        (["--entity-type", "clients", "--entity-name", tools.named("stranger")], "producer_byte_rate", "1000000"),
    ]
    for entity, name, value in entities:
        tools.expect("", "ConfigCommand", "--alter", *entity, "--add-config", f"{name}={value}")
        tools.expect(rf"{name}={value}", "ConfigCommand", "--describe", *entity)
        tools.expect("", "ConfigCommand", "--alter", *entity, "--delete-config", name)
    user = ["--entity-type", "users", "--entity-name", tools.named("user")]
    tools.expect(
        "", "ConfigCommand", "--alter", *user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]"
    )
    tools.expect("SCRAM-SHA-256", "ConfigCommand", "--describe", *user)
    tools.expect(
        "", "AclCommand", "--add", "--allow-principal", "User:stranger", "--operation", "Describe", "--topic", topic
    )
    tools.expect("User:stranger", "AclCommand", "--list", "--topic", topic)


def groups(tools: Tools) -> None:
    topic, group = tools.target.topic("groups", 2), tools.named("group")
    tools.run("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    tools.run(
        "ConsoleConsumer",
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        3,
        "--timeout-ms",
        20000,
    )
    tools.expect(re.escape(group), "ConsumerGroupCommand", "--list")
    tools.expect(re.escape(topic), "ConsumerGroupCommand", "--describe", "--group", group)
    tools.expect("Empty", "ConsumerGroupCommand", "--describe", "--group", group, "--state")
    reset = ["--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute"]
    assert topic in tools.run("ConsumerGroupCommand", *reset)
    tools.run("ConsumerGroupCommand", "--delete-offsets", "--group", group, "--topic", topic)
    assert "successful" in tools.run("ConsumerGroupCommand", "--delete", "--group", group)


def share_groups(tools: Tools) -> None:
    topic, group = tools.target.topic("share-groups"), tools.named("share")
    share = ["--entity-type", "groups", "--entity-name", group]
    tools.expect("", "ConfigCommand", "--alter", *share, "--add-config", "share.auto.offset.reset=earliest")
    tools.run("ConsoleProducer", "--topic", topic, stdin="a\n")
    read = ["--topic", topic, "--group", group, "--max-messages", 1, "--timeout-ms", 10000]
    assert "a" in tools.run("ConsoleShareConsumer", *read).split()
    tools.expect(re.escape(group), "ShareGroupCommand", "--list")
    tools.expect(re.escape(group), "GroupsCommand", "--list")
    tools.expect("Empty", "ShareGroupCommand", "--describe", "--group", group, "--state")
    tools.run("ShareGroupCommand", "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    tools.run("ShareGroupCommand", "--delete", "--group", group)
    tools.run("StreamsGroupCommand", "--list")


def cluster(tools: Tools) -> None:
    address = ("--bootstrap-server", tools.target.bootstrap)
    assert "Cluster ID" in tools.run_bare("ClusterTool", "cluster-id", *address, *tools.security)
    versions = tools.run("BrokerApiVersionsCommand")
    assert len(re.findall(r"^127\.0\.0\.1:\d+ \(id: \d+", versions, re.MULTILINE)) == tools.target.nodes
    assert "LeaderId" in tools.run("MetadataQuorumCommand", "describe", "--status")
    assert "Leader" in tools.run("MetadataQuorumCommand", "describe", "--replication")
    assert "metadata.version" in tools.run("FeatureCommand", "describe")
    assert '"broker":1' in tools.run("LogDirsCommand", "--describe")
    metric = ["--name", tools.named("metric")]
    tools.run(
        "ClientMetricsCommand", "--alter", *metric, "--metrics", "org.apache.kafka.producer.", "--interval", 60_000
    )
    tools.expect("60000", "ClientMetricsCommand", "--describe", *metric)
    tools.run("ClientMetricsCommand", "--delete", *metric)


def offsets(tools: Tools) -> None:
    topic = tools.target.topic("offsets")
    tools.run("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    assert f"{topic}:0:3" in tools.run("GetOffsetShell", "--topic", topic)
    assert f"{topic}:0:0" in tools.run("GetOffsetShell", "--topic", topic, "--time", "earliest")
    with _json_file({"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}) as file:
        assert "low_watermark: 2" in tools.run("DeleteRecordsCommand", "--offset-json-file", file)


def partitions(tools: Tools) -> None:
    """Reassignment and leader election, and the transactions tool."""
    topic = tools.target.topic("partitions")
    replicas = list(range(tools.target.nodes, 0, -1))
    plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": replicas}], "version": 1}
    with _json_file(plan) as file:
        tools.run("ReassignPartitionsCommand", "--reassignment-json-file", file, "--execute")
        tools.expect("is completed", "ReassignPartitionsCommand", "--reassignment-json-file", file, "--verify")
    tools.run("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    tools.run("TransactionsCommand", "list")
    tools.run("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", 0)


@contextmanager
def _json_file(content: object) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(content, file)
        file.flush()
        yield file.name
