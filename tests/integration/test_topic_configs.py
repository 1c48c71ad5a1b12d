"""`record.validation.policy` as a topic config: set, shown and forgotten with Kafka's own tools through sidecars."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from harness import admin_pages
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolError, ToolHost
from harness.versions import NEWEST, OLDEST, as_numbers
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, create_topic, eventually

pytestmark = pytest.mark.integration

POLICY = "record.validation.policy"
NEEDS_HEADER = "require_header:trace-id"
KEPT_IN = "__kafka_sidecar_topic_configs"
# A client of the tests has no special principal, and may do everything but what an ACL says otherwise.
AUTHORIZED = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, two sidecars in front, and Kafka's tools."""

    cluster: Cluster
    one: Sidecar
    other: Sidecar
    tools: ToolHost

    @property
    def package(self) -> str:
        """Where those of the tools are that have moved."""
        return "kafka.admin" if as_numbers(self.tools.version) < (4,) else "org.apache.kafka.tools"

    def configs(self, sidecar: Sidecar, *args: object) -> str:
        """kafka-configs.sh"""
        return self.tools.run(f"{self.package}.ConfigCommand", "--bootstrap-server", sidecar.bootstrap, *args)

    def topics(self, bootstrap: str, *args: object) -> str:
        """kafka-topics.sh"""
        return self.tools.run("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", bootstrap, *args)

    def alter(self, sidecar: Sidecar, topic: str, *args: object) -> str:
        return self.configs(sidecar, "--alter", "--entity-type", "topics", "--entity-name", topic, *args)

    def describe(self, sidecar: Sidecar, topic: str, *args: object) -> dict[str, str]:
        """Name -> "value sensitive=... synonyms=..." as the tool prints them."""
        out = self.configs(sidecar, "--describe", "--entity-type", "topics", "--entity-name", topic, *args)
        lines = (line.strip().partition("=") for line in out.splitlines() if "sensitive=" in line)
        return {name: value for name, _, value in lines}

    def topic(self, name: str) -> str:
        create_topic(self.cluster.direct, name, 1)
        return name


@pytest.fixture(scope="module", params=[NEWEST, pytest.param(OLDEST, marks=pytest.mark.matrix)])
def site(
    request: pytest.FixtureRequest, java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Brokers and tools of the newest and of the oldest version."""
    work = tmp_path_factory.mktemp("topic-configs")
    settings = work / "sidecar.yaml"
    settings.write_text(f"topic_configs: {{topic: {KEPT_IN}}}\n")
    flags = ["--config", str(settings)]
    with (
        Cluster.start(request.param, 1, AUTHORIZED) as cluster,
        Sidecar.start(cluster.bootstrap, work / "one.log", flags) as one,
        Sidecar.start(cluster.bootstrap, work / "other.log", flags) as other,
    ):
        yield Site(cluster, one, other, java[request.param])
        assert cluster.leaks() == []


def send(sidecar: Sidecar, topic: str, headers: dict[str, str | bytes | None] | None = None) -> KafkaError | None:
    """A client's result for one record."""
    errors: list[KafkaError | None] = []
    client = Producer({"bootstrap.servers": sidecar.bootstrap, "logger": SILENT, "retries": 0})
    client.produce(topic, b"value", headers=headers, on_delivery=lambda error, _: errors.append(error))
    assert client.flush(LIMIT_S) == 0
    return errors[0]


def is_guarded(sidecar: Sidecar, topic: str) -> bool:
    """Whether a record without the header is refused, and one with it is not."""
    assert send(sidecar, topic, {"trace-id": "1"}) is None
    error = send(sidecar, topic)
    assert error is None or error.code() == KafkaError.INVALID_RECORD
    return error is not None


def shown(sidecar: Sidecar, topic: str) -> str | None:
    """The topic's policy as an AdminClient reads it."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = admin_client(sidecar.bootstrap)
    value: str | None = admin.describe_configs([resource])[resource].result(LIMIT_S)[POLICY].value
    return value


def test_a_policy_is_set_shown_and_deleted_with_kafka_configs(site: Site) -> None:
    topic = site.topic("orders")
    assert not is_guarded(site.one, topic)
    assert site.describe(site.one, topic, "--all")[POLICY] == "null sensitive=false synonyms={}"

    site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER},retention.ms=3600000")
    for sidecar in (site.one, site.other):
        dynamic = site.describe(sidecar, topic)
        assert dynamic[POLICY].startswith(f"{NEEDS_HEADER} sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:{POLICY}=")
        assert dynamic["retention.ms"].startswith("3600000 ")
        assert is_guarded(sidecar, topic)
    assert f"{POLICY}={NEEDS_HEADER}" in site.topics(site.other.bootstrap, "--describe", "--topic", topic)

    site.alter(site.other, topic, "--delete-config", POLICY)
    for sidecar in (site.one, site.other):
        assert POLICY not in site.describe(sidecar, topic)
        assert not is_guarded(sidecar, topic)


def test_every_sidecar_knows_within_a_second(site: Site) -> None:
    topic = site.topic("everywhere")
    admin = admin_client(site.other.bootstrap)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert POLICY in admin.describe_configs([resource])[resource].result(LIMIT_S)
    site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER}")
    answered_at = time.monotonic()
    while admin.describe_configs([resource])[resource].result(LIMIT_S)[POLICY].value != NEEDS_HEADER:
        assert time.monotonic() - answered_at < 1


def test_a_topic_is_made_with_its_policy_by_an_admin_client(site: Site) -> None:
    admin = admin_client(site.one.bootstrap)
    wanted = [
        NewTopic("made", 1, config={POLICY: NEEDS_HEADER, "retention.ms": "3600000"}),
        NewTopic("not-made", 1, config={POLICY: "no-such-policy"}),
    ]
    made = admin.create_topics(wanted)
    made["made"].result(LIMIT_S)
    with pytest.raises(KafkaException) as refused:
        made["not-made"].result(LIMIT_S)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG
    assert "unknown policy 'no-such-policy'" in refused.value.args[0].str()
    assert "not-made" not in admin.list_topics(timeout=LIMIT_S).topics
    eventually(lambda: send(site.other, "made", {"trace-id": "1"}), lambda error: error is None, "made has a leader")
    assert is_guarded(site.one, "made")
    assert is_guarded(site.other, "made")
    assert site.describe(site.other, "made")["retention.ms"].startswith("3600000 ")


def test_kafka_topics_itself_rejects_a_config_that_kafka_does_not_have(site: Site) -> None:
    # It looks the name up in its own list and asks no broker: so nothing between it and the broker can help.
    with pytest.raises(ToolError, match=f"Unknown topic config name: {POLICY}"):
        site.topics(site.one.bootstrap, "--create", "--topic", "never", "--config", f"{POLICY}={NEEDS_HEADER}")


def test_what_the_policies_or_the_broker_refuse_is_not_set(site: Site) -> None:
    topic = site.topic("refused")
    for setting, why in (
        (f"{POLICY}=no-such-policy", "InvalidConfigurationException: .*unknown policy 'no-such-policy'"),
        (f"{POLICY}={NEEDS_HEADER},retention.ms=soon", "InvalidConfigurationException: Invalid value soon"),
        (f"{POLICY}={NEEDS_HEADER},no.such.config=1", "InvalidConfigurationException: Unknown topic config name"),
    ):
        with pytest.raises(ToolError, match=why):
            site.alter(site.one, topic, "--add-config", setting)
    with pytest.raises(ToolError, match="UnknownTopicOrPartitionException"):
        site.alter(site.one, "no-such-topic", "--add-config", f"{POLICY}={NEEDS_HEADER}")
    assert shown(site.one, topic) is None
    assert not is_guarded(site.one, topic)


def test_only_who_may_alter_the_topic_may_set_its_policy(site: Site) -> None:
    topic = site.topic("protected")
    for rule in (
        ("--allow-principal", "User:ANONYMOUS"),
        ("--deny-principal", "User:ANONYMOUS", "--operation", "AlterConfigs"),
    ):
        site.tools.run(
            f"{site.package}.AclCommand", "--bootstrap-server", site.cluster.direct, "--add", "--topic", topic, *rule
        )
    with pytest.raises(ToolError, match="TopicAuthorizationException"):
        site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER}")
    assert shown(site.other, topic) is None
    assert not is_guarded(site.one, topic)


def test_a_policy_outlives_both_sidecars_and_the_broker(site: Site) -> None:
    topic = site.topic("lasting")
    site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER}")
    for sidecar in (site.one, site.other):
        sidecar.restart()
        assert is_guarded(sidecar, topic)
    site.cluster.node(1).kill()
    site.cluster.node(1).start()
    for sidecar in (site.one, site.other):
        eventually(partial(send, sidecar, topic, {"trace-id": "1"}), lambda error: error is None, "the broker is back")
        assert is_guarded(sidecar, topic)
    unset = partial(site.alter, site.one, topic, "--delete-config", POLICY)
    eventually(partial(succeeds, unset), bool, "the sidecar's own clients are back")
    eventually(partial(is_guarded, site.other, topic), lambda guarded: not guarded, "the other sidecar reads on")


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except ToolError:
        return False
    return True


@pytest.mark.parametrize("through", ["a sidecar", "a broker"])
def test_a_topic_that_is_deleted_and_made_again_has_no_policy(site: Site, through: str) -> None:
    bootstrap = site.one.bootstrap if through == "a sidecar" else site.cluster.direct
    topic = site.topic(f"again-through-{through[2:]}")
    site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER}")
    site.topics(bootstrap, "--delete", "--topic", topic)
    make = partial(site.topics, bootstrap, "--create", "--topic", topic)
    eventually(partial(succeeds, make), bool, f"{topic} is made again")
    for sidecar in (site.one, site.other):
        eventually(partial(shown, sidecar, topic), lambda value: value is None, "the policy is forgotten")
        eventually(partial(send, sidecar, topic), lambda error: error is None, "records pass")


def test_the_topic_that_keeps_them_is_compacted(site: Site) -> None:
    assert site.describe(site.one, KEPT_IN)["cleanup.policy"].startswith("compact ")


WHOLE = TopicPartition(KEPT_IN, 0, -1)
DENIED: dict[str, Callable[[AdminClient], Future[object]]] = {
    "DeleteTopics": lambda admin: admin.delete_topics([KEPT_IN])[KEPT_IN],
    "DeleteRecords": lambda admin: admin.delete_records([WHOLE])[WHOLE],
    "CreatePartitions": lambda admin: admin.create_partitions([NewPartitions(KEPT_IN, 2)])[KEPT_IN],
    "AlterConfigs": lambda admin: admin.alter_configs([retention(None)])[retention(None)],
    "IncrementalAlterConfigs": lambda admin: admin.incremental_alter_configs(
        [retention(AlterConfigOpType.SET)]
    )[retention(None)],
}  # fmt: skip


def retention(operation: AlterConfigOpType | None) -> ConfigResource:
    entry = ConfigEntry("retention.ms", "1", incremental_operation=operation)
    return ConfigResource(ConfigResource.Type.TOPIC, KEPT_IN, incremental_configs=[entry] if operation else None)


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
@pytest.mark.parametrize("api", DENIED)
def test_no_client_of_a_sidecar_changes_the_topic_that_stores_topic_configs(site: Site, api: str) -> None:
    before, admin = everything_of(site), admin_client(site.one.bootstrap)
    with pytest.raises(KafkaException) as denied:
        DENIED[api](admin).result(LIMIT_S)
    assert denied.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert everything_of(site) == before


def test_no_client_of_a_sidecar_writes_to_the_topic_that_stores_topic_configs(site: Site) -> None:
    error = send(site.one, KEPT_IN)
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_other_topics_of_a_denied_request_are_deleted(site: Site) -> None:
    topic = site.topic("beside")
    with pytest.raises(ToolError, match=r"TopicAuthorizationException: .*cannot be changed through kafka-sidecar"):
        site.topics(site.one.bootstrap, "--delete", "--topic", f"{topic}|{KEPT_IN}")
    direct = admin_client(site.cluster.direct)
    eventually(lambda: direct.list_topics(timeout=LIMIT_S).topics, lambda names: topic not in names, "it is deleted")
    assert KEPT_IN in direct.list_topics(timeout=LIMIT_S).topics


def everything_of(site: Site) -> tuple[int, int, str]:
    """Partitions, records and configs of the topic, at the broker."""
    direct = admin_client(site.cluster.direct)
    partitions = len(direct.list_topics(KEPT_IN, timeout=LIMIT_S).topics[KEPT_IN].partitions)
    first: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call] # confluent-kafka leaves it without types
    ((_, start),) = direct.list_offsets({TopicPartition(KEPT_IN, 0): first}).items()
    return partitions, start.result(LIMIT_S).offset, str(site.describe(site.one, KEPT_IN))


def delete(site: Site) -> None:
    direct = admin_client(site.cluster.direct)
    direct.delete_topics([KEPT_IN])[KEPT_IN].result(LIMIT_S)
    eventually(lambda: direct.list_topics(timeout=LIMIT_S).topics, lambda names: KEPT_IN not in names, "it is deleted")


def replace(site: Site) -> None:
    delete(site)
    create_topic(site.cluster.direct, KEPT_IN, 1, {"cleanup.policy": "compact"})


def empty(site: Site) -> None:
    # A compacted topic takes no DeleteRecords unless it is deleted from, too: two steps that an operator could make.
    def retain(policy: str) -> None:
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        topic = ConfigResource(ConfigResource.Type.TOPIC, KEPT_IN, incremental_configs=[entry])
        direct.incremental_alter_configs([topic])[topic].result(LIMIT_S)

    direct = admin_client(site.cluster.direct)
    retain("compact,delete")
    eventually(partial(works, lambda: direct.delete_records([WHOLE])[WHOLE].result(LIMIT_S)), bool, "it is emptied")
    retain("compact")


def works(call: Callable[[], object]) -> bool:
    try:
        call()
    except KafkaException:
        return False
    return True


def topic_configs_state(sidecar: Sidecar) -> tuple[int, str]:
    """What /readyz says about them."""
    page = admin_pages.get(f"{sidecar.admin}/readyz?verbose")
    return page.status, json.loads(page.text)["topic_configs"]


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (delete, "it no longer exists"),
        pytest.param(replace, "it was created again", marks=pytest.mark.slow),
        pytest.param(empty, "records were deleted", marks=pytest.mark.slow),
    ],
)
def test_a_lost_topic_leaves_the_policies_applied_and_sighup_writes_them_back(
    site: Site, lose: Callable[[Site], None], why: str
) -> None:
    topic = site.topic(f"kept-{lose.__name__}")
    site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER}")
    both = (site.one, site.other)
    for sidecar in both:
        eventually(partial(is_guarded, sidecar, topic), bool, "it is read")
    lose(site)
    for sidecar in both:
        _, reason = eventually(partial(topic_configs_state, sidecar), lambda state: state[0] == 503, "it is lost")
        assert why in reason
        assert is_guarded(sidecar, topic)
    if lose is delete:
        assert KEPT_IN not in admin_client(site.cluster.direct).list_topics(timeout=LIMIT_S).topics
    with pytest.raises(ToolError, match="Nothing was changed: the sidecar cannot read its topic configs"):
        site.alter(site.one, topic, "--add-config", f"{POLICY}={NEEDS_HEADER}")
    for sidecar in both:
        sidecar.program.send_signal(signal.SIGHUP)
        eventually(partial(topic_configs_state, sidecar), lambda state: state == (200, "ready"), "it is recovered")
        assert is_guarded(sidecar, topic)
    for sidecar in both:
        sidecar.restart()
        assert is_guarded(sidecar, topic)
