"""A dry run that asks policies: the answers are those that a replay would get."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.dead_letters import letter_record
from support.letter_cluster import FakeCluster

from kafka_sidecar.dead_letters.letters import Choice, OutgoingRecord
from kafka_sidecar.policies.plans import ignore_failure
from kafka_sidecar.proxy.cli.dead_letters.asking import PolicyAsker
from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError
from kafka_sidecar.proxy.cli.dead_letters.replay import Order, PartitionReplay, Tally
from kafka_sidecar.proxy.config.loading import PLACEHOLDER, Config, load


def config_of(folder: Path, text: str) -> Config:
    file = folder / "sidecar.yaml"
    file.write_text(text)
    return load(file, {}, PLACEHOLDER)


def record(value: bytes | None, topic: str = "orders") -> OutgoingRecord:
    return OutgoingRecord(topic, 0, b"k", value, (), 7)


async def asked(config: Config, cluster: FakeCluster, *records: OutgoingRecord) -> list[str | None]:
    found = await PolicyAsker(config, 0, ignore_failure).ask(cluster, records)  # type: ignore[arg-type]
    return [None if one is None else f"{one.error} {one.message}" for one in found]


async def test_policies_of_the_file_accept_some_and_reject_others(tmp_path: Path, cluster: FakeCluster) -> None:
    config = config_of(tmp_path, "topics: [{name: orders, policy: json}]")
    found = await asked(config, cluster, record(b"{}"), record(b"{"), record(b"1"), record(None, "free"), record(b"x"))
    assert [one is None for one in found] == [True, False, True, True, False]
    assert (found[1] or "").startswith("INVALID_RECORD json: ")
    assert cluster.requests == []


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_a_policy_that_rejects_nothing_yet_rejects_nothing_here(
    tmp_path: Path, cluster: FakeCluster, mode: str
) -> None:
    config = config_of(tmp_path, f"topics: [{{name: orders, policy: json, mode: '{mode}'}}]")
    assert await asked(config, cluster, record(b"{")) == [None]


async def test_a_policy_that_is_set_on_the_topic_wins(tmp_path: Path, cluster: FakeCluster) -> None:
    config = config_of(tmp_path, "topic_configs: {topic: stored}\ntopics: [{name: orders, policy: json}]")
    cluster.topic_configs["orders"] = {"record.validation.policy": "require_header:trace"}
    (found,) = await asked(config, cluster, record(b"{}"))
    assert (found or "").startswith("INVALID_RECORD require_header: ")


async def test_what_is_set_on_topics_is_said_to_be_unknown_if_the_sidecar_does_not_show_it(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    config = config_of(tmp_path, "topic_configs: {topic: stored}\ntopics: [{name: orders, policy: json}]")
    asker = PolicyAsker(config, 0, ignore_failure)
    cluster.topic_configs["orders"] = ClusterError("configs of orders: TOPIC_AUTHORIZATION_FAILED")
    assert await asker.ask(cluster, [record(b"{}")]) == [None]  # type: ignore[arg-type]
    assert asker.trouble == "configs of orders: TOPIC_AUTHORIZATION_FAILED"


async def test_a_string_that_no_policy_understands_rejects_all(tmp_path: Path, cluster: FakeCluster) -> None:
    config = config_of(tmp_path, "topic_configs: {topic: stored}\ntopics: [{name: orders, policy: json}]")
    cluster.topic_configs["orders"] = {"record.validation.policy": "nonsense"}
    found = await asked(config, cluster, record(b"{}"), record(b"{"))
    assert all((one or "").startswith("UNKNOWN_SERVER_ERROR record.validation.policy of orders: ") for one in found)


PLUGIN = """
from kafka_sidecar.policies.contract import InvalidRecordError, RecordValidationPolicy, UnavailableError, Unresolved

class Slow(RecordValidationPolicy):
    def configure(self, configs):
        self.known = {}

    def validate(self, topic, record):
        value = bytes(record.value)
        if value == b"down":
            raise UnavailableError("no registry")
        if value == b"bug":
            raise RuntimeError("secret")
        if value not in self.known:
            raise Unresolved(value)
        if self.known[value] is not None:
            raise InvalidRecordError(self.known[value])

    async def resolve(self, key):
        self.known[key] = None if key == b"good" else "it is bad"
"""


async def test_a_policy_of_ones_own_fetches_what_it_needs_and_one_that_fails_rejects_only_its_records(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    (tmp_path / "own_of_asking.py").write_text(PLUGIN)
    config = config_of(
        tmp_path,
        "policies: {slow: {type: 'own_of_asking:Slow', class_path: .}}\ntopics: [{name: orders, policy: slow}]",
    )
    values = (b"good", b"bad", b"bug", b"down", b"good")
    assert await asked(config, cluster, *map(record, values)) == [
        None, "INVALID_RECORD slow: it is bad", "UNKNOWN_SERVER_ERROR the policy slow failed",
        "REQUEST_TIMED_OUT the policy slow cannot decide now: no registry", None,
    ]  # fmt: skip


async def test_a_dry_run_counts_answers_by_reason_and_sends_nothing(tmp_path: Path, cluster: FakeCluster) -> None:
    config = config_of(tmp_path, "topics: [{name: orders, policy: json}]")
    cluster.letters["dlq", 0] = [letter_record(value) for value in (b"{}", b"{", b"1", b"[", b"{}")]
    tally = Tally()
    order = Order(Choice(), "g", is_dry=True, asker=PolicyAsker(config, 0, ignore_failure))
    await PartitionReplay(cluster, order, "dlq", 0, tally).run()  # type: ignore[arg-type]
    outcomes = sorted((row.outcome, count) for row, count in tally.rows.items())
    assert (tally.sent, tally.refused) == (3, 2)
    assert outcomes[-1] == ("would be accepted", 3)
    assert {outcome for outcome, _ in outcomes[:-1]} == {"INVALID_RECORD"}
    assert (cluster.batches, cluster.requests, cluster.offsets) == ([], [], {})
