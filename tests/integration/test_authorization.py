"""The sidecar's rules and Kafka's ACLs with the same words: each operation has the same outcome at a broker and at a
sidecar that logs in as a super user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from operator import eq
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from harness.tool_host import ToolError, ToolHost
from harness.versions import NEWEST
from integration.alice import (
    ALICE,
    GROUPS,
    GROUPS_OF_TOPICS,
    OPEN,
    PASSWORD,
    TOPICS,
    TRANSACTIONS,
    Operation,
    Settings,
    commit,
    outcome,
    started,
)
from integration.dialogues import COMPARED, Pair, differences
from integration.raw import Raw
from integration.scenarios.java_tools import Tools
from integration.scenarios.security import Login, Security
from integration.scenarios.target import LIMIT_S, Target, eventually

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

pytestmark = pytest.mark.integration

READING: Settings = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}


@pytest.fixture(scope="module", name="sites")
def _sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Settings]]:
    with started(tmp_path_factory.mktemp("authorization")) as sites:
        yield sites


def metadata(at: Settings, topic: str) -> None:
    found = AdminClient(at).list_topics(topic, timeout=LIMIT_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)


def listed(at: Settings, topic: str) -> None:
    """Whether the topic is in the list of all."""
    if topic not in AdminClient(at).list_topics(timeout=LIMIT_S).topics:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))


def produce(at: Settings, topic: str) -> None:
    errors: list[KafkaError | None] = []
    producer = Producer({**at, "message.timeout.ms": 8000})
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    if errors[0] is not None:
        raise KafkaException(errors[0])


def fetch(at: Settings, topic: str) -> None:
    consumer = Consumer({**at, **READING, "group.id": "g-read"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        read_one(consumer)
    finally:
        consumer.close()


def read_one(consumer: Consumer) -> None:
    """Until a record, the end of the partition or an error."""
    message = consumer.poll(3)
    error = message.error() if message is not None else None
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)


def offsets(at: Settings, topic: str) -> None:
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    admin = AdminClient(at)
    for future in admin.list_offsets({TopicPartition(topic, 0): latest}).values():
        future.result(LIMIT_S)


def partitions(at: Settings, topic: str) -> None:
    wanted = NewPartitions(topic, 5)
    admin = AdminClient(at)
    admin.create_partitions([wanted], validate_only=True)[topic].result(LIMIT_S)


def alter_config(at: Settings, topic: str) -> None:
    entry = ConfigEntry("retention.ms", "100000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient(at)
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)


def describe_config(at: Settings, topic: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient(at)
    admin.describe_configs([resource])[resource].result(LIMIT_S)


def create(at: Settings, topic: str) -> None:
    admin = AdminClient(at)
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(LIMIT_S)


def delete_records(at: Settings, topic: str) -> None:
    wanted = TopicPartition(topic, 0, 0)
    admin = AdminClient(at)
    admin.delete_records([wanted])[wanted].result(LIMIT_S)


def join(at: Settings, group: str) -> None:
    consumer = Consumer({**at, **READING, "group.id": group, "session.timeout.ms": 6000})
    try:
        consumer.subscribe(["t-read"])
        read_one(consumer)
    finally:
        consumer.close()


def committed(at: Settings, group: str) -> None:
    admin = AdminClient(at)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("t-read", 0), TopicPartition("t-none", 0)])
    found = admin.list_consumer_group_offsets([wanted])[group].result(LIMIT_S)
    errors = {one.topic: one.error.name() if one.error is not None else None for one in found.topic_partitions}
    assert errors == {"t-read": None, "t-none": "TOPIC_AUTHORIZATION_FAILED"}


def describe_group(at: Settings, group: str) -> None:
    admin = AdminClient(at)
    admin.describe_consumer_groups([group])[group].result(LIMIT_S)


def delete_group(at: Settings, group: str) -> None:
    """The second of two that may finds no group."""
    admin = AdminClient(at)
    try:
        admin.delete_consumer_groups([group])[group].result(LIMIT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise


def listed_group(at: Settings, group: str) -> None:
    """Whether a group, which a super user has made, is in the list of all."""
    admin = AdminClient(at)
    found = admin.list_consumer_groups().result(LIMIT_S)
    if group not in {one.group_id for one in found.valid}:
        raise KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND))


def begin_transaction(at: Settings, name: str) -> None:
    producer = Producer({**at, "transactional.id": name})
    producer.init_transactions(LIMIT_S)


def write_in_transaction(at: Settings, topic: str) -> None:
    producer = Producer({**at, "transactional.id": "x-write", "message.timeout.ms": 8000})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"x", partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    if errors[0] is not None:
        raise KafkaException(errors[0])
    producer.commit_transaction(LIMIT_S)


def idempotent(at: Settings, topic: str) -> None:
    produce({**at, "enable.idempotence": True}, topic)


def create_acl(at: Settings, user: str) -> None:
    wanted = AclBinding(
        ResourceType.TOPIC, "t-none", ResourcePatternType.LITERAL, f"User:{user}", "*", AclOperation.ALL,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin = AdminClient(at)
    admin.create_acls([wanted])[wanted].result(LIMIT_S)


def describe_acls(at: Settings, user: str) -> None:
    everything: Any = None
    wanted = AclBindingFilter(
        ResourceType.ANY, everything, ResourcePatternType.ANY, f"User:{user}", everything, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    admin = AdminClient(at)
    admin.describe_acls(wanted).result(LIMIT_S)


def alter_user(at: Settings, user: str) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin = AdminClient(at)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"new")])[user].result(LIMIT_S)


def alter_broker(at: Settings, broker: str) -> None:
    entry = ConfigEntry("log.cleaner.threads", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, broker, incremental_configs=[entry])
    admin = AdminClient(at)
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)


def describe_broker(at: Settings, broker: str) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, broker)
    admin = AdminClient(at)
    admin.describe_configs([resource])[resource].result(LIMIT_S)


def elect(at: Settings, topic: str) -> None:
    admin = AdminClient(at)
    found = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(LIMIT_S)
    for error in found.values():
        if error is not None:
            raise KafkaException(error)


ON_TOPICS = (
    metadata, listed, produce, fetch, offsets, partitions, alter_config, describe_config, create, delete_records,
    write_in_transaction, idempotent,
)  # fmt: skip
ON_GROUPS = (join, commit, committed, describe_group, listed_group, delete_group)
ROWS: list[tuple[Operation, str]] = [(operation, name) for operation in ON_TOPICS for name in (*TOPICS, "p-one")]
ROWS += [(operation, name) for operation in ON_GROUPS for name in GROUPS]
ROWS += [(begin_transaction, name) for name in TRANSACTIONS]
ROWS += [(operation, ALICE) for operation in (create_acl, describe_acls, alter_user)]
ROWS += [(operation, "1") for operation in (alter_broker, describe_broker)]
ROWS += [(elect, "t-all")]


@pytest.mark.parametrize(("operation", "name"), ROWS)
def test_the_sidecar_decides_as_kafka(sites: dict[str, Settings], operation: Operation, name: str) -> None:
    expected = outcome(operation, sites["broker"], name)
    assert outcome(operation, sites["sidecar"], name) == expected


@pytest.fixture(scope="module", name="pair")
def _pair(sites: dict[str, Settings]) -> Iterator[Pair]:
    with Pair(sites) as pair:
        yield pair


@pytest.mark.parametrize("key", COMPARED)
def test_random_requests_have_the_answer_of_the_broker(pair: Pair, key: ApiKey) -> None:
    assert next(differences(pair, key, range(6)), None) is None


def test_a_share_group_is_answered_for_topics_of_which_a_broker_does_not_find_the_offsets(pair: Pair) -> None:
    """Asked for __consumer_offsets with rights, a broker never answers."""
    topics = tuple(
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0, 1))
        for name in ("__consumer_offsets", "t-none")
    )
    groups = tuple(
        DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
        for group in ("g-none", "g-describe", "g-mixed")
    )
    for version in (0, 1):
        broker, sidecar = pair.ask(DescribeShareGroupOffsetsRequest(groups=groups), version)
        assert sidecar == broker


def test_an_id_that_a_client_has_put_beside_a_name_opens_nothing(sites: dict[str, Settings]) -> None:
    with Raw(sites["direct"]["bootstrap.servers"]) as direct:
        topics = direct.ask(MetadataRequest(topics=None), 12, MetadataResponse).topics
    (closed,) = (topic.topic_id for topic in topics if topic.name == "t-none")
    both = (MetadataRequestTopic(topic_id=closed, name="t-read"),)
    partition = FetchPartition(partition=0, partition_max_bytes=1000)
    fetch = FetchRequest(session_epoch=-1, topics=(FetchTopic(topic_id=closed, partitions=(partition,)),))
    with Raw(sites["sidecar"]["bootstrap.servers"]).log_in(ALICE, PASSWORD) as alice:
        for version in (10, 11, 12):
            alice.ask(MetadataRequest(topics=both), version, MetadataResponse)
            (found,) = alice.ask(fetch, 13, FetchResponse).responses
            assert found.partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module", name="described")
def _described(sites: dict[str, Settings]) -> Iterator[None]:
    """The groups have members, and the transaction is open."""
    members = []
    for group, topics in GROUPS_OF_TOPICS.items():
        member = Consumer({**sites["direct"], "group.id": group, "group.protocol": "consumer"})
        member.subscribe(topics)
        eventually(partial(assigned, member), partial(eq, len(topics)), f"the partitions of {group}")
        members.append(member)
    producer = Producer({**sites["direct"], "transactional.id": OPEN})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    for topic in GROUPS_OF_TOPICS["n-hidden"]:
        producer.produce(topic, b"x", partition=0)
    producer.flush(LIMIT_S)
    yield
    producer.abort_transaction(LIMIT_S)
    for member in members:
        member.close()


def assigned(member: Consumer) -> int:
    member.poll(0.1)
    return len(member.assignment())


def shown(host: ToolHost, at: Settings, tool: str, *arguments: str) -> list[str]:
    """What a tool of alice's prints, by words, without what is measured; or the error that it has."""
    security = Security(login=Login("SCRAM-SHA-256", ALICE, PASSWORD))
    target = Target(at["bootstrap.servers"], "authorization", 1, {host.version: host}, security)
    with target.client_properties() as properties:
        try:
            printed = Tools(target, host, properties).run(tool, *arguments)
        except ToolError as error:
            printed = str(error)
    if failures := re.findall(r"\w+AuthorizationException", printed):
        return sorted(set(failures))
    return [line.split()[-1] for line in printed.splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("ConsumerGroupCommand", ("--describe", "--members", "--verbose", "--group", "n-shown"), "t-describe:0"),
        ("ConsumerGroupCommand", ("--describe", "--members", "--group", "n-hidden"), "TopicAuthorizationException"),
        ("TransactionsCommand", ("describe", "--transactional-id", OPEN), "t-describe-0"),
    ],
)
@pytest.mark.usefixtures("described")
def test_descriptions_show_the_topics_that_a_broker_shows(
    sites: dict[str, Settings], java: Mapping[str, ToolHost], tool: str, arguments: tuple[str, ...], expected: str
) -> None:
    at_broker = shown(java[NEWEST], sites["broker"], tool, *arguments)
    assert expected in at_broker
    assert shown(java[NEWEST], sites["sidecar"], tool, *arguments) == at_broker
