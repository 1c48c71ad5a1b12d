"""The sidecar's rules and Kafka's ACLs with the same words: each operation has the same outcome at a broker and at a
sidecar that logs in as a super user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
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
from harness import sasl
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually

from kafka_sidecar.proxy.sasl.users import create_verifier, format_user

pytestmark = pytest.mark.integration

ALICE, PASSWORD = "alice", "pw-of-alice"
# Topic -> operations that alice is allowed; those after ! are denied.
TOPICS: dict[str, list[str]] = {
    "t-none": [],
    "t-read": ["READ"],
    "t-write": ["WRITE"],
    "t-describe": ["DESCRIBE"],
    "t-delete": ["DELETE"],
    "t-alter": ["ALTER"],
    "t-configs": ["ALTER_CONFIGS"],
    "t-show": ["DESCRIBE_CONFIGS"],
    "t-all": ["ALL"],
    "t-mixed": ["ALL", "!WRITE"],
    "t-quiet": ["ALL", "!DESCRIBE"],
    "t-created": ["CREATE"],
}
GROUPS: dict[str, list[str]] = {
    "g-none": [], "g-read": ["READ"], "g-mixed": ["ALL", "!READ"], "g-describe": ["DESCRIBE"], "g-delete": ["DELETE"],
}  # fmt: skip
TRANSACTIONS: dict[str, list[str]] = {"x-none": [], "x-write": ["WRITE"], "x-describe": ["DESCRIBE"]}
Settings = dict[str, Any]
READING: Settings = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "enable.partition.eof": True}
Operation = Callable[[Settings, str], None]


def rules() -> str:
    """For the sidecar."""
    lines = [f"  - {{principals: ['User:{ALICE}'], topics: [p-*], operations: [write]}}"]
    for kind, resources in (("topics", TOPICS), ("groups", GROUPS), ("transactional_ids", TRANSACTIONS)):
        for name, operations in resources.items():
            for one in operations:
                permission = "deny" if one.startswith("!") else "allow"
                operation = one.removeprefix("!").lower()
                lines.append(
                    f"  - {{principals: ['User:{ALICE}'], {kind}: [{name}], operations: [{operation}], "
                    f"permission: {permission}}}"
                )
    return "authorization:\n  default: deny\n  rules:\n" + "\n".join(f"  {line}" for line in lines) + "\n"


def acls() -> list[AclBinding]:
    """For the brokers."""
    made = [_acl(ResourceType.TOPIC, "p-", "WRITE", ResourcePatternType.PREFIXED)]
    of_kind = {
        ResourceType.TOPIC: TOPICS, ResourceType.GROUP: GROUPS, ResourceType.TRANSACTIONAL_ID: TRANSACTIONS,
    }  # fmt: skip
    for kind, resources in of_kind.items():
        made += [_acl(kind, name, one, ResourcePatternType.LITERAL) for name, some in resources.items() for one in some]
    return made


def _acl(kind: ResourceType, name: str, operation: str, pattern: ResourcePatternType) -> AclBinding:
    permission = AclPermissionType.DENY if operation.startswith("!") else AclPermissionType.ALLOW
    wanted = AclOperation[operation.removeprefix("!")]
    return AclBinding(kind, name, pattern, f"User:{ALICE}", "*", wanted, permission)


@pytest.fixture(scope="module", name="sites")
def _sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Settings]]:
    """Settings of alice's clients, at a broker and at the sidecar."""
    work = tmp_path_factory.mktemp("authorization")
    (work / "password").write_text(sasl.PASSWORD)
    (work / "users").write_text(format_user(ALICE, "SCRAM-SHA-256", create_verifier("SCRAM-SHA-256", PASSWORD)))
    settings = work / "sidecar.yaml"
    login = f"mechanism: SCRAM-SHA-256, username: {sasl.USER}, password_file: {work / 'password'}"
    settings.write_text(
        f"brokers: {{security_protocol: SASL_PLAINTEXT, sasl: {{{login}}}}}\n"
        f"clients: {{sasl: {{mechanisms: [SCRAM-SHA-256], users_file: {work / 'users'}}}}}\n{rules()}"
    )
    authorizer = {"super.users": f"User:ANONYMOUS;User:{sasl.USER}", "allow.everyone.if.no.acl.found": "false"}
    with Cluster.start(NEWEST, 1, {**sasl.sasl_properties(), **authorizer}) as cluster:
        sasl.add_scram_user(cluster.direct)
        sasl.add_scram_user(cluster.direct, ALICE, PASSWORD)
        for name in (*TOPICS, "p-one"):
            if name != "t-created":
                create_topic(cluster.direct, name, 1)
        admin = AdminClient({"bootstrap.servers": cluster.direct})  # which its futures do not keep
        for name in GROUPS:  # which then exist
            direct = {"bootstrap.servers": cluster.direct, "logger": SILENT}
            eventually(partial(outcome, commit, direct, name), lambda found: found == "allowed", f"{name} exists")
        for future in admin.create_acls(acls()).values():
            future.result(LIMIT_S)
        with Sidecar.start(cluster.bootstrap, work / "sidecar.log", ["--config", str(settings)]) as sidecar:
            yield {name: _alice(at) for name, at in (("broker", cluster.bootstrap), ("sidecar", sidecar.bootstrap))}


def _alice(bootstrap: str) -> Settings:
    return {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": ALICE, "sasl.password": PASSWORD, "logger": SILENT,
    }  # fmt: skip


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


def commit(at: Settings, group: str) -> None:
    admin = AdminClient(at)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("t-read", 0, 0)])
    found = admin.alter_consumer_group_offsets([wanted])[group].result(LIMIT_S)
    for one in found.topic_partitions:
        if one.error is not None:
            raise KafkaException(one.error)


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


def outcome(operation: Operation, at: Settings, name: str) -> str:
    try:
        operation(at, name)
    except KafkaException as error:
        return str(error.args[0].name())
    return "allowed"


@pytest.mark.parametrize(("operation", "name"), ROWS)
def test_the_sidecar_decides_as_kafka(sites: dict[str, Settings], operation: Operation, name: str) -> None:
    expected = outcome(operation, sites["broker"], name)
    assert outcome(operation, sites["sidecar"], name) == expected
