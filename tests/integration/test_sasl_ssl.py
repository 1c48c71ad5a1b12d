"""TLS with SCRAM on both sides: clients log in to the sidecar, the sidecar to the brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, Producer
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
from harness.tls import BROKERS_CA, CLIENTS_CA, from_clients, ssl_listener
from harness.tool_host import ToolError, ToolHost
from harness.versions import NEWEST
from integration.scenarios.java_tools import Tools
from integration.scenarios.target import LIMIT_S, SILENT, Target, create_topic, eventually

from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

pytestmark = pytest.mark.integration

MECHANISM, USER, PASSWORD = "SCRAM-SHA-512", "alice", "pw-of-alice"
BOB, OF_BOB = "bob", "bob-at-brokers"  # who has a user of his own there
VALUES = [f"value {number}" for number in range(20)]


@dataclass(frozen=True, slots=True)
class Site:
    cluster: Cluster
    sidecar: Sidecar
    ca: Path


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    work = tmp_path_factory.mktemp("sasl-ssl")
    verifier = create_verifier(MECHANISM, PASSWORD)
    (work / "users").write_text("\n".join(format_user(user, MECHANISM, verifier) for user in (USER, BOB)))
    (work / "password").write_text(sasl.PASSWORD)
    (work / "bob").write_text("pw-of-bob")
    config = from_clients(work)
    config["clients"]["sasl"] = {"mechanisms": [MECHANISM], "users_file": str(work / "users")}
    config["brokers"] = {
        "security_protocol": "SASL_SSL",
        "tls": {"ca": str(BROKERS_CA.write(work, "brokers-ca"))},
        "sasl": {"mechanism": MECHANISM, "username": sasl.USER, "password_file": str(work / "password")},
        "logins": [
            {"principals": [f"User:{BOB}"], "mechanism": MECHANISM, "username": OF_BOB,
             "password_file": str(work / "bob")},
        ],
    }  # fmt: skip
    (work / "sidecar.yaml").write_text(yaml.safe_dump(config))
    with Cluster.start(NEWEST, 1, {**ssl_listener(work), **sasl.sasl_properties("SASL_SSL")}) as cluster:
        sasl.add_scram_user(cluster.direct)
        sasl.add_scram_user(cluster.direct, OF_BOB, "pw-of-bob")
        arguments = ["--config", str(work / "sidecar.yaml")]
        with Sidecar.start(cluster.bootstrap, work / "sidecar.log", arguments) as sidecar:
            yield Site(cluster, sidecar, CLIENTS_CA.write(work, "sidecar-ca"))


def librdkafka(site: Site, password: str, ca: Path | None = None, user: str = USER) -> dict[str, Any]:
    return {
        "bootstrap.servers": site.sidecar.bootstrap, "security.protocol": "SASL_SSL", "logger": SILENT,
        "ssl.ca.location": str(ca or site.ca), "sasl.mechanism": MECHANISM, "sasl.username": user,
        "sasl.password": password,
    }  # fmt: skip


def java_config(site: Site, folder: Path, password: str, ca: Path | None = None) -> Path:
    lines = {
        "security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca or site.ca),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{sasl.MODULES[MECHANISM]} username="{USER}" password="{password}";',
    }  # fmt: skip
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


def test_librdkafka_writes_and_reads(site: Site) -> None:
    create_topic(site.cluster.direct, "rd", 1)
    settings = librdkafka(site, PASSWORD)
    producer = Producer(settings)
    errors: list[KafkaError | None] = []
    for value in VALUES:
        producer.produce("rd", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * len(VALUES)
    consumer = Consumer({**settings, "group.id": "rd", "auto.offset.reset": "earliest"})
    consumer.subscribe(["rd"])
    read = [str(one.value(), "utf-8") for one in consumer.consume(len(VALUES), LIMIT_S)]  # type: ignore[arg-type]
    consumer.close()
    assert read == VALUES
    assert site.cluster.leaks() == []


def test_java_writes_and_reads(site: Site, java_tools: Tools, tmp_path: Path) -> None:
    create_topic(site.cluster.direct, "jv", 1)
    config = java_config(site, tmp_path, PASSWORD)
    java_tools.run("ConsoleProducer", "--topic", "jv", "--command-config", config, stdin="\n".join(VALUES) + "\n")
    printed = java_tools.run(
        "ConsoleConsumer", "--topic", "jv", "--from-beginning", "--max-messages", len(VALUES), "--command-config",
        config, "--timeout-ms", 20000,
    )  # fmt: skip
    assert [line for line in printed.splitlines() if line in VALUES] == VALUES


def test_a_client_is_the_user_of_the_brokers_that_its_principal_has(site: Site) -> None:
    create_topic(site.cluster.direct, "of-bob", 1)
    admin = AdminClient({"bootstrap.servers": site.cluster.direct})
    own = AclBinding(
        ResourceType.TOPIC, "of-bob", ResourcePatternType.LITERAL, f"User:{OF_BOB}", "*", AclOperation.ALL,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([own])[own].result(LIMIT_S)

    def sent_by(user: str) -> str:
        errors: list[KafkaError | None] = []
        producer = Producer({**librdkafka(site, PASSWORD, user=user), "message.timeout.ms": 8000})
        producer.produce("of-bob", b"x", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(LIMIT_S) == 0
        return errors[0].name() if errors[0] is not None else "stored"

    eventually(lambda: sent_by(USER), lambda found: found == "TOPIC_AUTHORIZATION_FAILED", "the ACL applies")
    assert sent_by(BOB) == "stored"


def test_a_wrong_password_and_an_unknown_ca_are_the_clients_own_errors(
    site: Site, java_tools: Tools, tmp_path: Path
) -> None:
    stranger = BROKERS_CA.write(tmp_path, "other-ca")
    for password, ca, java_error, error in (
        ("wrong", None, "SaslAuthenticationException", KafkaError._AUTHENTICATION),
        (PASSWORD, stranger, "onConsumeCertificate", KafkaError._SSL),
    ):
        with pytest.raises(ToolError, match=java_error):
            java_tools.run("TopicCommand", "--list", "--command-config", java_config(site, tmp_path, password, ca))
        seen: list[int] = []
        settings = librdkafka(site, password, ca)
        producer = Producer({**settings, "error_cb": lambda error, seen=seen: seen.append(error.code())})
        for _ in range(50):
            producer.poll(0.1)
            if error in seen:
                break
        assert error in seen
    text = site.sidecar.log.read_text()
    assert PASSWORD not in text
    assert sasl.PASSWORD not in text


@pytest.fixture(name="java_tools")
def _java_tools(site: Site, java: Mapping[str, ToolHost]) -> Tools:
    host = java[NEWEST]
    return Tools(Target(site.sidecar.bootstrap, "sasl-ssl", 1, {NEWEST: host}), host)
