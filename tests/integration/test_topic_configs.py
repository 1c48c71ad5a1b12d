"""`record.validation.policy` as a topic config: set, shown and forgotten with Kafka's own tools through sidecars."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ConfigResource, NewTopic
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolError, ToolHost
from harness.versions import JAVA_CLIENTS, as_numbers
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, create_topic, eventually

pytestmark = pytest.mark.integration

POLICY = "record.validation.policy"
NEEDS_HEADER = "require_header:trace-id"
KEPT_IN = "__kafka_sidecar_topic_configs"
# Who comes from the tests is nobody special, and may do everything but what an ACL says otherwise.
AUTHORIZED = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster, two sidecars in front, and Kafka's tools."""

    cluster: Cluster
    one: Sidecar
    other: Sidecar
    tools: ToolHost

    def configs(self, sidecar: Sidecar, *args: object) -> str:
        """kafka-configs.sh"""
        return self.tools.run("kafka.admin.ConfigCommand", "--bootstrap-server", sidecar.bootstrap, *args)

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


@pytest.fixture(scope="module", params=JAVA_CLIENTS)
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


def test_kafka_topics_itself_lets_nobody_name_a_config_that_kafka_does_not_have(site: Site) -> None:
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
    place = "kafka.admin" if as_numbers(site.tools.version) < (4,) else "org.apache.kafka.tools"
    for rule in (
        ("--allow-principal", "User:ANONYMOUS"),
        ("--deny-principal", "User:ANONYMOUS", "--operation", "AlterConfigs"),
    ):
        site.tools.run(
            f"{place}.AclCommand", "--bootstrap-server", site.cluster.direct, "--add", "--topic", topic, *rule
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
