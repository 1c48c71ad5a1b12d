"""Alice, who may do some things: by ACLs at a broker, and by rules with the same words at a sidecar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from harness import sasl
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually

from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

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
# A group with members and an open transaction, whose topics alice may describe in part.
GROUPS_OF_TOPICS = {"n-shown": ["t-describe"], "n-hidden": ["t-describe", "t-none"]}
OPEN = "x-open"
DESCRIBED_GROUPS = GROUPS | {name: ["DESCRIBE"] for name in GROUPS_OF_TOPICS}
DESCRIBED_TRANSACTIONS = TRANSACTIONS | {OPEN: ["DESCRIBE"]}
Settings = dict[str, Any]
Operation = Callable[[Settings, str], None]


def rules() -> str:
    """For the sidecar."""
    lines = [f"  - {{principals: ['User:{ALICE}'], topics: [p-*], operations: [write]}}"]
    of_kind = {"topics": TOPICS, "groups": DESCRIBED_GROUPS, "transactional_ids": DESCRIBED_TRANSACTIONS}
    for kind, resources in of_kind.items():
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
        ResourceType.TOPIC: TOPICS, ResourceType.GROUP: DESCRIBED_GROUPS,
        ResourceType.TRANSACTIONAL_ID: DESCRIBED_TRANSACTIONS,
    }  # fmt: skip
    for kind, resources in of_kind.items():
        made += [_acl(kind, name, one, ResourcePatternType.LITERAL) for name, some in resources.items() for one in some]
    return made


def _acl(kind: ResourceType, name: str, operation: str, pattern: ResourcePatternType) -> AclBinding:
    permission = AclPermissionType.DENY if operation.startswith("!") else AclPermissionType.ALLOW
    wanted = AclOperation[operation.removeprefix("!")]
    return AclBinding(kind, name, pattern, f"User:{ALICE}", "*", wanted, permission)


def commit(at: Settings, group: str) -> None:
    admin = AdminClient(at)
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("t-read", 0, 0)])
    found = admin.alter_consumer_group_offsets([wanted])[group].result(LIMIT_S)
    for one in found.topic_partitions:
        if one.error is not None:
            raise KafkaException(one.error)


def outcome(operation: Operation, at: Settings, name: str) -> str:
    try:
        operation(at, name)
    except KafkaException as error:
        return str(error.args[0].name())
    return "allowed"


@contextmanager
def started(work: Path) -> Iterator[dict[str, Settings]]:
    """Settings of alice's clients, at a broker and at the sidecar, and of a super user's. ``work``: a folder."""
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
            found = {name: _alice(at) for name, at in (("broker", cluster.bootstrap), ("sidecar", sidecar.bootstrap))}
            yield {**found, "direct": {"bootstrap.servers": cluster.direct, "logger": SILENT}}


def _alice(bootstrap: str) -> Settings:
    return {
        "bootstrap.servers": bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": ALICE, "sasl.password": PASSWORD, "logger": SILENT,
    }  # fmt: skip
