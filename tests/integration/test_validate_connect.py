"""`validate --connect` before brokers with TLS, logins and ACLs: each mistake is one line with its remedy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from harness import sasl
from harness.certificates import authority
from harness.cluster import Cluster
from harness.ports import free_ports
from harness.sidecar import COMMAND
from harness.tls import BROKERS_CA
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, create_topic

pytestmark = pytest.mark.integration

RIGHTS = {
    "orders": ["DESCRIBE"],
    "payments": ["DESCRIBE"],
    "orders.dlq": ["WRITE", "DESCRIBE_CONFIGS"],
    "audited": ["WRITE"],
    "readonly": ["DESCRIBE"],
    "to-create": ["CREATE", "WRITE", "DESCRIBE"],
    "not-to-create": ["WRITE", "DESCRIBE"],
    "configs": ["READ", "WRITE"],
    "missing": ["DESCRIBE"],
}
EXISTING = ("orders", "payments", "orders.dlq", "audited", "readonly", "configs", "hidden")


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster that wants TLS and a login, and whose user `app` may do what `RIGHTS` says."""

    cluster: Cluster
    folder: Path

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.cluster.bootstrap,
            "brokers": {
                "security_protocol": "SASL_SSL",
                "tls": {"ca": str(self.folder / "ca.crt")},
                "sasl": {
                    "mechanism": "SCRAM-SHA-256", "username": sasl.USER, "password_file": str(self.folder / "password"),
                },
            },
            **more,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    exit_code: int
    lines: list[str]

    def of(self, result: str) -> list[str]:
        return [line for line in self.lines if line.startswith(result)]


def run(folder: Path, settings: Mapping[str, Any], *flags: str) -> Run:
    path = folder / "sidecar.yaml"
    path.write_text(yaml.safe_dump(dict(settings)))
    made = subprocess.run(
        [COMMAND, "validate", path, "--connect", *flags], capture_output=True, text=True, timeout=60, check=False
    )
    return Run(made.returncode, (made.stdout + made.stderr).splitlines())


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    keystore = BROKERS_CA.issue("broker").write_both(folder, "broker")
    BROKERS_CA.write(folder, "ca")
    authority("Another CA").write(folder, "other-ca")
    (folder / "password").write_text(sasl.PASSWORD)
    at = "listener.name.sidecar.ssl."
    properties = {
        **sasl.sasl_properties("SASL_SSL"), f"{at}keystore.type": "PEM", f"{at}keystore.location": keystore,
        "super.users": "User:ANONYMOUS", "allow.everyone.if.no.acl.found": "false",
    }  # fmt: skip
    with Cluster.start(NEWEST, 1, properties) as cluster:
        sasl.add_scram_user(cluster.direct)
        for topic in EXISTING:
            create_topic(cluster.direct, topic, 1)
        acls = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{sasl.USER}", "*",
                AclOperation[operation], AclPermissionType.ALLOW,
            )
            for topic, operations in RIGHTS.items()
            for operation in operations
        ]  # fmt: skip
        admin = AdminClient({"bootstrap.servers": cluster.direct})  # while its futures are waited for
        for future in admin.create_acls(acls).values():
            future.result(LIMIT_S)
        yield Site(cluster, folder)


def topics_of(site: Site) -> set[str]:
    return set(AdminClient({"bootstrap.servers": site.cluster.direct}).list_topics(timeout=LIMIT_S).topics)


ALL = {
    "topics": [{"name": "orders", "policy": "json", "dead_letters": "{topic}.dlq"}, {"name": "pay*", "policy": "json"}],
    "dead_letters": {"create": {"partitions": 1}},
    "audit": {"topic": "audited", "access": "denied", "access_topic": "to-create"},
    "topic_configs": {"topic": "configs"},
}


def test_all_that_a_start_needs_is_there_and_nothing_is_changed(site: Site, tmp_path: Path) -> None:
    before = topics_of(site)
    made = run(tmp_path, site.settings(**ALL))
    assert (made.exit_code, made.of("failed"), made.of("warning")) == (0, [], [])
    text = "\n".join(made.lines)
    assert f"bootstrap {site.cluster.bootstrap}: answers: TLSv1.3, logged in (SCRAM-SHA-256)" in text
    assert f"cluster {site.cluster.id}: 1 broker" in text
    assert "Produce 3 to 13" in text
    assert "topic orders.dlq: 1 partition, User:app has Write" in text
    assert "topic to-create: does not exist: the sidecar creates it when it needs it (audit.access_topic)" in text
    assert made.lines[-1].endswith("valid; 8 ok")
    assert topics_of(site) == before


def test_the_same_for_programs(site: Site, tmp_path: Path) -> None:
    made = run(tmp_path, site.settings(**ALL), "--json")
    found = json.loads("\n".join(made.lines))
    assert (made.exit_code, found["valid"], found["works"]) == (0, True, True)
    assert {one["what"] for one in found["checks"]} == {"bootstrap", "versions", "cluster", "topic"}
    assert {one["result"] for one in found["checks"]} == {"ok"}


def sasl_with(site: Site, **changed: Any) -> dict[str, Any]:
    made = site.settings()
    made["brokers"] = {**made["brokers"], **changed}
    return made


def wrong_password(site: Site) -> dict[str, Any]:
    (site.folder / "wrong").write_text("guess")
    login = {**site.settings()["brokers"]["sasl"], "password_file": str(site.folder / "wrong")}
    return sasl_with(site, sasl=login)


def wrong_ca(site: Site) -> dict[str, Any]:
    return sasl_with(site, tls={"ca": str(site.folder / "other-ca.crt")})


def no_tls(site: Site) -> dict[str, Any]:
    return sasl_with(site, security_protocol="SASL_PLAINTEXT", tls={})


def no_broker(site: Site) -> dict[str, Any]:
    return {**site.settings(), "bootstrap_servers": f"127.0.0.1:{free_ports(1)[0]}"}


@pytest.mark.parametrize(
    ("settings", "why", "remedy"),
    [
        (wrong_password, "the broker rejects the login", "correct brokers.sasl (username app, password_file"),
        (wrong_ca, "the broker's certificate is not from a trusted CA", "set brokers.tls.ca to the CA of the brokers"),
        (no_tls, "the broker does not speak Kafka: not Kafka: ", "does brokers.security_protocol say how?"),
        (no_broker, "refused the connection", "is it up, is the port right"),
    ],
)  # fmt: skip
def test_a_broker_that_cannot_be_used_is_one_line_with_the_remedy(
    site: Site, tmp_path: Path, settings: Any, why: str, remedy: str
) -> None:
    made = run(tmp_path, {**settings(site), "audit": {"topic": "audited"}})
    (line,) = made.of("failed")
    assert (made.exit_code, why in line, remedy in line) == (1, True, True), line
    assert [line.split(": ")[0] for line in made.of("skipped")] == ["skipped  topic audited"]


GRANT = "kafka-acls.sh --add --allow-principal User:app"
MISTAKES: dict[str, dict[str, Any]] = {
    "failed   topic missing: does not exist; create it, or correct topics (entry 1)": {
        "topics": [{"name": "missing", "policy": "json"}],
    },
    "failed   right hidden: User:app may not describe it, whether it exists or not (topics (entry 1)); "
    f"{GRANT} --operation Describe --topic hidden": {
        "topics": [{"name": "hidden", "policy": "json"}],
    },
    f"failed   right readonly: User:app lacks Write (audit.topic); {GRANT} --operation Write --topic readonly": {
        "audit": {"topic": "readonly"},
    },
    "failed   right not-to-create: does not exist, and User:app may not create it (audit.topic); "
    f"{GRANT} --operation Create --operation Write --topic not-to-create, or create it": {
        "audit": {"topic": "not-to-create"},
    },
    "failed   topic missing: does not exist; create it, or set dead_letters.create, or correct "
    "topics (entry 1).dead_letters": {
        "topics": [{"name": "orders", "policy": "json", "dead_letters": "missing"}],
    },
    "failed   topic to-create: cannot be created as configured: ": {
        "audit": {"topic": "to-create", "replication_factor": 3},
    },
    "warning  right orders: User:app lacks DescribeConfigs: Kafka's defaults are assumed (large_messages.topics "
    f"(entry 1)); {GRANT} --operation DescribeConfigs --topic orders": {
        "large_messages": {"topics": [{"name": "orders"}]},
    },
}  # fmt: skip


@pytest.mark.parametrize(("line", "more"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_a_missing_topic_or_right_is_one_line_with_the_remedy(
    site: Site, tmp_path: Path, line: str, more: dict[str, Any]
) -> None:
    made = run(tmp_path, site.settings(**more))
    (found,) = [*made.of("failed"), *made.of("warning")]
    assert found.startswith(line), found
    assert made.exit_code == (1 if line.startswith("failed") else 0)


def test_the_dead_letter_topics_of_a_pattern_are_those_of_the_topics_that_match_it(site: Site, tmp_path: Path) -> None:
    topics = [{"name": "*ments", "policy": "json", "dead_letters": "{topic}.dlq"}]
    made = run(tmp_path, site.settings(topics=topics))
    (line,) = made.of("failed")
    assert line.startswith("failed   right payments.dlq: User:app may not describe it")


def test_each_user_of_clients_logs_in(site: Site, tmp_path: Path) -> None:
    (site.folder / "guess").write_text("guess")
    users = tmp_path / "users"
    users.write_text(
        subprocess.run(
            [COMMAND, "scram-user", "alice"], input="pw\n", capture_output=True, text=True, check=True
        ).stdout
    )
    entry = {"principals": ["User:alice"], "mechanism": "SCRAM-SHA-512", "username": sasl.USER}
    settings = sasl_with(site, logins=[
        {**entry, "password_file": str(site.folder / "password")},
        {**entry, "principals": ["User:bob"], "password_file": str(site.folder / "guess")},
    ])  # fmt: skip
    made = run(tmp_path, {**settings, "clients": {"sasl": {"mechanisms": "SCRAM-SHA-512", "users_file": str(users)}}})
    assert "ok       login app of User:alice: accepted (SCRAM-SHA-512)" in made.lines
    (line,) = made.of("failed")
    assert line.startswith("failed   login app of User:bob: the broker rejects the login: ")
    assert "correct brokers.logins (username app" in line


def test_without_a_login_of_the_sidecar_what_needs_one_fails(site: Site, tmp_path: Path) -> None:
    plain = {"security_protocol": "SSL", "tls": {"ca": str(site.folder / "ca.crt")}}
    settings = {**site.settings(), "brokers": plain, "audit": {"topic": "audited"}, "topics": [{"name": "orders"}]}
    made = run(tmp_path, settings)
    assert any("clients have to log in themselves" in line for line in made.of("ok"))
    (line,) = made.of("failed")
    assert "topic audited: brokers want a login, and the sidecar has none (audit.topic); set brokers.sasl" in line
    assert [line.partition(":")[0] for line in made.of("skipped")] == ["skipped  topic orders"]


def test_a_broker_that_does_not_answer_ends_with_the_time_limit(site: Site, tmp_path: Path) -> None:
    site.cluster.node(1).stop()
    try:
        made = run(tmp_path, site.settings(connections={"connect_timeout": "20s"}), "--within", "1s")
    finally:
        site.cluster.node(1).cont()
    (line,) = made.of("failed")
    assert (made.exit_code, line) == (1, "failed   time limit 1 s: not everything was tried; raise --within")
