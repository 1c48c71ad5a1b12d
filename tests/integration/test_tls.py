"""Brokers with TLS and listeners with TLS, four clients, and every way in which a handshake fails."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from harness.certificates import Issued
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tls import BROKERS_CA, CLIENTS_CA, from_clients, ssl_listener, to_brokers
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.scenarios.security import Security
from integration.scenarios.target import SILENT, create_topic, eventually
from integration.secured import Exchange, aiokafka, java_tools, kafka_python, librdkafka, sidecar

pytestmark = pytest.mark.integration
VALUES = [f"value {number}" for number in range(20)]
CLIENTS = (
    "java", "librdkafka", *(pytest.param(name, marks=pytest.mark.matrix) for name in ("aiokafka", "kafka_python")),
)  # fmt: skip


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that requires a client certificate."""
    with Cluster.start(NEWEST, 1, ssl_listener(tmp_path_factory.mktemp("broker"), "required")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def plain() -> Iterator[Cluster]:
    with Cluster.start(NEWEST) as cluster:
        yield cluster


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, java: Mapping[str, ToolHost], tmp_path: Path) -> Exchange:
    others = {"librdkafka": librdkafka, "aiokafka": aiokafka, "kafka_python": kafka_python}
    return others.get(request.param) or java_tools(java[NEWEST], tmp_path)


def trusting(folder: Path, own: str | None = None) -> Security:
    """A client that trusts the CA of the sidecar, with a certificate of it if ``own`` is given."""
    issued = None if own is None else CLIENTS_CA.issue(own).write(folder, own)
    return Security(CLIENTS_CA.write(folder, "sidecar-ca"), issued)


def exchanged(cluster: Cluster, running: Sidecar, topic: str, client: Exchange, security: Security) -> None:
    create_topic(cluster.direct, topic, 1)
    assert client(running.bootstrap, topic, security, VALUES) == VALUES
    assert cluster.leaks() == []


def test_plaintext_in_and_tls_with_a_certificate_out(secured: Cluster, client: Exchange, tmp_path: Path) -> None:
    with sidecar(secured, tmp_path, to_brokers(tmp_path, own="sidecar-to-broker")) as running:
        exchanged(secured, running, f"out-{tmp_path.name}", client, Security())


def test_tls_in_and_plaintext_out(plain: Cluster, client: Exchange, tmp_path: Path) -> None:
    with sidecar(plain, tmp_path, from_clients(tmp_path)) as running:
        exchanged(plain, running, f"in-{tmp_path.name}", client, trusting(tmp_path))


def test_tls_with_certificates_on_both_sides(secured: Cluster, client: Exchange, tmp_path: Path) -> None:
    sections = to_brokers(tmp_path, own="sidecar-to-broker"), from_clients(tmp_path, client_certificates="required")
    with sidecar(secured, tmp_path, *sections) as running:
        exchanged(secured, running, f"both-{tmp_path.name}", client, trusting(tmp_path, "app"))


def test_large_messages_over_tls_with_certificates_on_both_sides(
    secured: Cluster, client: Exchange, tmp_path: Path
) -> None:
    """li 61: what its producers do, over TLS."""
    topic, values = f"large-{tmp_path.name}"[:200].replace("[", "-").replace("]", "-"), ["small", "x" * 9000, "last"]
    create_topic(secured.direct, topic, 1, {"max.message.bytes": "2000"})
    large = {"large_messages": {"topics": [{"name": "large-*"}]}}
    sections = from_clients(tmp_path, client_certificates="required"), to_brokers(tmp_path, own="sidecar"), large
    with sidecar(secured, tmp_path, *sections) as running:
        assert client(running.bootstrap, topic, trusting(tmp_path, "app"), values) == values
    assert secured.leaks() == []


def details(running: Sidecar, message: str) -> list[str]:
    return [line["detail"] for line in running.program.lines(message)]


def logged(running: Sidecar, message: str, text: str) -> None:
    """Wait for the line that names the remedy."""
    eventually(lambda: details(running, message), lambda found: any(text in one for one in found), text)


def failures(bootstrap: str, security: Security, wanted: str = "_TRANSPORT") -> str:
    """The errors that librdkafka reports until it has reported the wanted one."""
    found: list[str] = []

    def note(error: KafkaError) -> None:
        found.append(f"{error.name()}: {error.str()}")

    producer = Producer({"bootstrap.servers": bootstrap, "logger": SILENT, **security.librdkafka, "error_cb": note})
    deadline = time.monotonic() + 15
    while wanted not in str(found) and time.monotonic() < deadline:
        producer.poll(0.1)
    return str(found)


def java_failure(host: ToolHost, folder: Path, bootstrap: str, security: Security) -> str:
    """What Kafka's tools print."""
    settings = folder / "failing.properties"
    limits = {"request.timeout.ms": "1000", "default.api.timeout.ms": "1500"}
    settings.write_text("".join(f"{key}={value}\n" for key, value in {**security.java, **limits}.items()))
    command = ("--bootstrap-server", bootstrap, "--list", "--command-config", settings)
    answer = host.start("org.apache.kafka.tools.TopicCommand", *command, limit_s=15).result(40)
    assert answer.code != 0
    return answer.out + answer.err


REQUIRED = "the broker requires a client certificate of a CA that it trusts: set brokers.tls.certificate"
AT_ONCE = {"connections": {"broker_wait": "0s"}}
UNTRUSTED = "the broker's certificate is not from a trusted CA: set brokers.tls.ca to the CA of the brokers"


def test_a_broker_of_another_ca_is_named_with_the_remedy(secured: Cluster, tmp_path: Path) -> None:
    with sidecar(secured, tmp_path, to_brokers(tmp_path, CLIENTS_CA), AT_ONCE, ready=False) as running:
        logged(running, "metadata request failed", UNTRUSTED)
        failures(running.bootstrap, Security(), "_ALL_BROKERS_DOWN")
        logged(running, "broker unreachable", UNTRUSTED)


def test_a_broker_that_requires_a_certificate_is_named_with_the_remedy(secured: Cluster, tmp_path: Path) -> None:
    with sidecar(secured, tmp_path, to_brokers(tmp_path), AT_ONCE, ready=False) as running:
        logged(running, "metadata request failed", REQUIRED)
        failures(running.bootstrap, Security(), "_ALL_BROKERS_DOWN")
        logged(running, "connection ended", REQUIRED)


def test_tls_at_a_port_without_it_is_named_with_the_remedy(plain: Cluster, tmp_path: Path) -> None:
    with sidecar(plain, tmp_path, to_brokers(tmp_path), ready=False) as running:
        logged(running, "metadata request failed", "does it speak TLS at this port?")


def test_plaintext_at_a_brokers_tls_port_is_named_with_the_remedy(secured: Cluster, tmp_path: Path) -> None:
    with sidecar(secured, tmp_path, AT_ONCE, ready=False) as running:
        logged(running, "metadata request failed", "set brokers.security_protocol to SSL")
        failures(running.bootstrap, Security(), "_ALL_BROKERS_DOWN")
        logged(running, "connection ended", "set brokers.security_protocol to SSL")


@pytest.mark.parametrize(
    ("case", "error", "said", "remedy"),
    [
        (
            "another CA",
            "_SSL",
            "SSL handshake failed",
            "the client does not trust the certificate of clients.tls",
        ),
        ("no certificate", "certificate required", "post-handshake", "the client presented no certificate"),
        (
            "expired",
            "certificate expired",
            "post-handshake",
            "the client's certificate is not valid at this time: renew it",
        ),
        (
            "plaintext",
            "_ALL_BROKERS_DOWN",
            "",
            "the client does not speak TLS: set its security.protocol to SSL or SASL_SSL",
        ),
    ],
)
def test_a_client_that_fails_has_an_error_and_the_log_its_remedy(
    plain: Cluster, java: Mapping[str, ToolHost], tmp_path: Path, case: str, error: str, said: str, remedy: str
) -> None:
    ca, expired = CLIENTS_CA.write(tmp_path, "sidecar-ca"), CLIENTS_CA.issue("app", days=-1)
    security = {
        "another CA": Security(BROKERS_CA.write(tmp_path, "another")),
        "no certificate": Security(ca),
        "expired": Security(ca, expired.write(tmp_path, "expired")),
        "plaintext": Security(),
    }[case]
    with sidecar(plain, tmp_path, from_clients(tmp_path, client_certificates="required")) as running:
        assert error in failures(running.bootstrap, security, error)
        logged(running, "connection ended", remedy)
        assert said in java_failure(java[NEWEST], tmp_path, running.bootstrap, security)


def test_a_client_with_tls_at_a_listener_without_it_has_its_remedy_in_the_log(plain: Cluster, tmp_path: Path) -> None:
    with sidecar(plain, tmp_path, {}) as running:
        failures(running.bootstrap, trusting(tmp_path))
        logged(running, "connection ended", "a TLS handshake came to a listener without TLS")


def renew(folder: Path, name: str, issued: Issued) -> None:
    """One file after the other, as most programs do it."""
    for suffix, text in ((".key", issued.key_pem()), (".crt", issued.pem)):
        replaced = folder / f"{name}{suffix}.next"
        replaced.write_text(text)
        replaced.replace(folder / f"{name}{suffix}")


def test_nothing_is_lost_while_all_certificates_are_renewed(secured: Cluster, tmp_path: Path) -> None:
    topic, sent, stop = "renewed", list[str](), threading.Event()
    create_topic(secured.direct, topic, 1)
    sections = to_brokers(tmp_path, own="sidecar-to-broker"), from_clients(tmp_path, client_certificates="required")
    security = trusting(tmp_path, "app")

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            sent.append((message.value() or b"").decode())

    def produce(bootstrap: str, lasting: bool) -> None:
        """One connection that stays open, or a new one for every few records."""
        settings = {"bootstrap.servers": bootstrap, **security.librdkafka, "enable.idempotence": True}
        producer = Producer(settings)
        number = 0
        while not stop.is_set():
            value = f"{lasting} {number}"
            producer.produce(topic, value, on_delivery=delivered)
            number += 1
            if number % 20 == 0:
                assert producer.flush(20) == 0
                producer = producer if lasting else Producer(settings)
            time.sleep(0.005)
        assert producer.flush(20) == 0
        counts.append(number)

    counts: list[int] = []
    with sidecar(secured, tmp_path, *sections) as running:
        threads = [threading.Thread(target=produce, args=(running.bootstrap, lasting)) for lasting in (True, False)]
        for thread in threads:
            thread.start()
        for days in (2, 3, 4):
            renew(tmp_path, "sidecar", CLIENTS_CA.issue("sidecar", days=days))
            renew(tmp_path, "sidecar-to-broker", CLIENTS_CA.issue("sidecar-to-broker", days=days))
            applied = 2 * (days - 1)
            eventually(lambda: running.program.output().count('"certificates applied"'), applied.__le__, "applied")
        (tmp_path / "sidecar.crt").write_text("broken")
        eventually(lambda: running.program.output(), lambda log: "certificates rejected" in log, "rejected")
        time.sleep(1)
        stop.set()
        for thread in threads:
            thread.join(60)
        assert sorted(sent) == sorted(set(sent))
        assert len(sent) == sum(counts)
        assert all(one.startswith("the client closed its connection") for one in details(running, "connection ended"))
        assert metric(running, 'tls_certificate_expiry_seconds{setting="certificate",side="client"}') == pytest.approx(
            4 * 86400, abs=120
        )
        assert metric(running, 'tls_last_reload_successful{side="client"}') == 0


def metric(running: Sidecar, series: str) -> float:
    done = subprocess.run(["curl", "-s", f"{running.admin}/metrics"], capture_output=True, text=True, check=True)
    line = next(one for one in done.stdout.splitlines() if one.startswith(f"kafka_sidecar_{series} "))
    return float(line.rpartition(" ")[2])


def test_stores_of_keytool_are_read(secured: Cluster, tmp_path: Path) -> None:
    """A PKCS12 trust store of Java, with Kafka's names and the password in a variable."""
    store, password = tmp_path / "trust.p12", tmp_path / "password"
    password.write_text("changeit")
    ca = str(BROKERS_CA.write(tmp_path, "ca"))
    command = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", ca, "-keystore", str(store)]
    subprocess.run([*command, "-storepass", "changeit"], check=True, capture_output=True)
    key_store = CLIENTS_CA.issue("sidecar-to-broker").write_pkcs12(tmp_path, "own", "changeit")
    kafka = {
        "security.protocol": "SSL", "ssl.truststore.location": str(store), "ssl.truststore.type": "PKCS12",
        "ssl.keystore.location": str(key_store), "ssl.endpoint.identification.algorithm": "https",
    }  # fmt: skip
    files = {"ca_password_file": str(password), "key_password_file": str(password)}
    with sidecar(secured, tmp_path, kafka, {"brokers": {"tls": files}}) as running:
        exchanged(secured, running, "keytool", librdkafka, Security())


def test_topic_configs_and_audit_use_the_same_tls(secured: Cluster, tmp_path: Path) -> None:
    audit = {
        "topic": "audit", "auditor_reporting_interval_ms": 1000, "auditor_reporting_delay_ms": 0,
        "auditor_bucket_ms": 1000,
    }  # fmt: skip
    own = {"topic_configs": {"topic": "configs"}, "audit": audit}
    with sidecar(secured, tmp_path, to_brokers(tmp_path, own="sidecar-to-broker"), own) as running:
        exchanged(secured, running, "audited", librdkafka, Security())
        eventually(lambda: metric(running, "audit_events_sent_total"), bool, "events are sent")
    assert secured.leaks() == []
