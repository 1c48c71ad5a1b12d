"""Brokers that require SASL: clients log in through the sidecar, or it logs in for them and for itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from harness import admin_pages, sasl
from harness.cluster import Cluster
from harness.sasl import CLIENT_ID, CLIENT_SECRET, MECHANISMS, PASSWORD, USER, TokenEndpoint
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.sasl_clients import CLIENTS, target_of
from integration.scenarios.target import SILENT, create_topic, eventually
from support.signed_tokens import Signer, key_set

from kafka_sidecar.proxy.security.sasl.scram import HASHES
from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

pytestmark = pytest.mark.integration

LIFETIME_S = 6.0  # a login is renewed when 0.3 s of it are left, or earlier
VALUES = [b"value-%d" % number for number in range(20)]
BY_PASSWORD = MECHANISMS[:3]
# kafka-python goes on trying for half a minute.
REJECTED = [client for client in CLIENTS if client != "kafka-python"]


def pairs(clients: Iterable[str], mechanisms: Sequence[str]) -> list[object]:
    """Each client with each mechanism in the matrix, with one of them for every change; so each mechanism is used."""
    return [
        pytest.param(client, one, marks=[] if number % len(mechanisms) == at else pytest.mark.matrix)
        for number, client in enumerate(clients)
        for at, one in enumerate(mechanisms)
    ]


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster whose sessions live for seconds, an OAuth server, and Kafka's tools."""

    cluster: Cluster
    tokens: TokenEndpoint
    tools: ToolHost
    secrets: Path

    def topic(self, name: str) -> str:
        create_topic(self.cluster.direct, name, 1)
        return name

    def login(self, mechanism: str) -> str:
        """The section with which the sidecar logs in."""
        credentials = f"username: {USER}, password_file: {self.secrets / 'password'}"
        if mechanism == "OAUTHBEARER":
            secret = f"client_secret_file: {self.secrets / 'client-secret'}"
            credentials = f"token_endpoint: '{self.tokens.url}', client_id: {CLIENT_ID}, {secret}"
        return (
            f"brokers: {{security_protocol: SASL_PLAINTEXT, sasl: {{mechanism: {mechanism}, {credentials}}}}}\n"
            "audit: {topic: audited, auditor_reporting_interval_ms: 500, auditor_reporting_delay_ms: 100}\n"
            "topic_configs: {topic: __topic_configs}\n"
        )

    def start(self, work: Path, settings: str) -> Sidecar:
        path = work / "sidecar.yaml"
        path.write_text(settings)
        return Sidecar.start(self.cluster.bootstrap, work / "sidecar.log", ["--config", str(path)])


@pytest.fixture(scope="module", name="site")
def _site(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    secrets = tmp_path_factory.mktemp("secrets")
    (secrets / "password").write_text(PASSWORD)
    (secrets / "client-secret").write_text(CLIENT_SECRET)
    properties = sasl.sasl_properties(reauthentication_ms=int(LIFETIME_S * 1000))
    with Cluster.start(NEWEST, 1, properties) as cluster, sasl.token_endpoint() as tokens:
        sasl.add_scram_user(cluster.direct)
        yield Site(cluster, tokens, java[NEWEST], secrets)


@pytest.fixture(scope="module", name="relay")
def _relay(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar without credentials."""
    with site.start(tmp_path_factory.mktemp("relay"), "") as sidecar:
        yield sidecar


@pytest.fixture(scope="module", name="members")
def _members(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Sidecar]]:
    """By mechanism, sidecars that log in."""
    with ExitStack() as stack:
        yield {
            mechanism: stack.enter_context(site.start(tmp_path_factory.mktemp("member"), site.login(mechanism)))
            for mechanism in MECHANISMS
        }


@pytest.fixture(scope="module", name="gateway")
def _gateway(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar with users of its own, which logs in to the brokers with its own password."""
    work = tmp_path_factory.mktemp("gateway")
    lines = (format_user("alice", name, create_verifier(name, "pw-of-alice")) for name in HASHES)
    (work / "users").write_text("\n".join(lines))
    users = f"clients: {{sasl: {{mechanisms: [{', '.join(BY_PASSWORD)}], users_file: {work / 'users'}}}}}\n"
    with site.start(work, users + site.login("SCRAM-SHA-256")) as sidecar:
        yield sidecar


@pytest.fixture(scope="module", name="by_token")
def _by_token(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Signer, Sidecar]]:
    """A sidecar whose clients log in with tokens of an authorization server."""
    work, signer = tmp_path_factory.mktemp("by-token"), Signer("k1")
    (work / "keys").write_text(key_set(signer))
    tokens = f"mechanisms: [OAUTHBEARER], jwks_file: {work / 'keys'}, expected_audience: kafka, expected_issuer: idp"
    with site.start(work, f"clients: {{sasl: {{{tokens}}}}}\n{site.login('SCRAM-SHA-256')}") as sidecar:
        yield signer, sidecar


def metric(sidecar: Sidecar, line: str) -> float:
    lines = admin_pages.get(f"{sidecar.admin}/metrics").text.splitlines()
    return sum(float(one.rpartition(" ")[2]) for one in lines if one.startswith(line))


def state(sidecar: Sidecar) -> dict[str, object]:
    found: dict[str, object] = json.loads(admin_pages.get(f"{sidecar.admin}/readyz?verbose").text)
    return found


@pytest.mark.parametrize(("client", "mechanism"), pairs(CLIENTS, MECHANISMS))
def test_a_client_logs_in_through_the_sidecar(site: Site, relay: Sidecar, client: str, mechanism: str) -> None:
    topic = site.topic(f"through-{client}-{mechanism}")
    read = CLIENTS[client](target_of(relay.bootstrap, site.tools), topic, VALUES, mechanism, USER, PASSWORD)
    assert read == VALUES
    assert site.cluster.leaks() == []


@pytest.mark.parametrize(("client", "mechanism"), pairs(CLIENTS, MECHANISMS))
def test_the_sidecar_logs_in_for_clients_that_do_not(
    site: Site, members: Mapping[str, Sidecar], client: str, mechanism: str
) -> None:
    topic, target = site.topic(f"for-{client}-{mechanism}"), target_of(members[mechanism].bootstrap, site.tools)
    assert CLIENTS[client](target, topic, VALUES, None, "", "") == VALUES
    assert site.cluster.leaks() == []


def test_sessions_outlive_their_lifetime_without_the_clients_noticing(
    site: Site, members: Mapping[str, Sidecar]
) -> None:
    failures: list[tuple[str, object]] = []

    def renewed(mechanism: str) -> float:
        return metric(members[mechanism], 'kafka_sidecar_broker_logins_total{result="renewed"}')

    def producer_of(mechanism: str) -> Producer:
        return Producer(
            {
                "bootstrap.servers": members[mechanism].bootstrap, "logger": SILENT, "retries": 0,
                "error_cb": lambda error: failures.append((mechanism, error)),
                "on_delivery": lambda error, _: failures.append((mechanism, error)) if error else None,
            }
        )  # fmt: skip

    topics = {mechanism: site.topic(f"lives-{mechanism}") for mechanism in members}
    producers = {mechanism: producer_of(mechanism) for mechanism in members}
    before = {mechanism: renewed(mechanism) for mechanism in members}
    ends = time.monotonic() + 2.5 * LIFETIME_S
    while time.monotonic() < ends:
        for mechanism, producer in producers.items():
            producer.produce(topics[mechanism], b"x")
            producer.flush(10)
        time.sleep(0.1)
    assert failures == []
    assert [mechanism for mechanism in members if renewed(mechanism) < before[mechanism] + 2] == []


def test_the_sidecars_own_clients_log_in(site: Site, members: Mapping[str, Sidecar]) -> None:
    for mechanism, sidecar in members.items():
        topic = site.topic(f"own-{mechanism}")
        config = (
            "org.apache.kafka.tools.ConfigCommand",
            "--bootstrap-server",
            sidecar.bootstrap,
            "--entity-type",
            "topics",
        )
        policy = "record.validation.policy=require_header:id"
        site.tools.run(*config, "--alter", "--entity-name", topic, "--add-config", policy)
        assert policy in site.tools.run(*config, "--describe", "--entity-name", topic)
        with pytest.raises(RuntimeError, match="INVALID_RECORD"):
            CLIENTS["librdkafka"](target_of(sidecar.bootstrap, site.tools), topic, VALUES, None, "", "")
    time.sleep(1.5 * LIFETIME_S)
    for sidecar in members.values():
        eventually(partial(metric, sidecar, "kafka_sidecar_audit_events_sent_total"), bool, "audit events are sent")
        assert state(sidecar)["broker_login"] == "ok"
        assert metric(sidecar, "kafka_sidecar_audit_send_failures_total") == 0


@pytest.mark.parametrize(("client", "mechanism"), pairs(REJECTED, BY_PASSWORD))
def test_a_clients_wrong_password_is_the_brokers_error(site: Site, relay: Sidecar, client: str, mechanism: str) -> None:
    with pytest.raises(Exception, match=r"(?i)authenticat|_ALL_BROKERS_DOWN|unable to bootstrap"):
        CLIENTS[client](target_of(relay.bootstrap, site.tools), "none", VALUES, mechanism, USER, "wrong")


@pytest.mark.parametrize(("client", "mechanism"), pairs(CLIENTS, BY_PASSWORD))
def test_a_client_logs_in_to_the_sidecar_itself(site: Site, gateway: Sidecar, client: str, mechanism: str) -> None:
    topic = site.topic(f"gateway-{client}-{mechanism}")
    target = target_of(gateway.bootstrap, site.tools)
    assert CLIENTS[client](target, topic, VALUES, mechanism, "alice", "pw-of-alice") == VALUES
    if client in REJECTED:
        with pytest.raises(Exception, match=r"(?i)authenticat|_ALL_BROKERS_DOWN|unable to bootstrap"):
            CLIENTS[client](target, topic, VALUES, mechanism, "alice", PASSWORD)
    assert "pw-of-alice" not in gateway.log.read_text()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_logs_in_to_the_sidecar_with_a_token(
    site: Site, by_token: tuple[Signer, Sidecar], client: str
) -> None:
    signer, sidecar = by_token
    topic = site.topic(f"token-{client}")
    target = target_of(sidecar.bootstrap, site.tools)
    signed = signer.token("alice", 600, aud="kafka", iss="idp")
    assert CLIENTS[client](target, topic, VALUES, "OAUTHBEARER", "alice", signed) == VALUES
    if client in REJECTED:
        stranger = Signer(signer.key_id).token("alice", 600, aud="kafka", iss="idp")
        with pytest.raises(Exception, match=r"(?i)authenticat|_ALL_BROKERS_DOWN|unable to bootstrap"):
            CLIENTS[client](target, topic, VALUES, "OAUTHBEARER", "alice", stranger)
    assert signed not in sidecar.log.read_text()


@pytest.mark.parametrize(
    "mechanism", [BY_PASSWORD[0], *(pytest.param(one, marks=pytest.mark.slow) for one in BY_PASSWORD[1:])]
)
def test_a_wrong_password_of_the_sidecar_is_one_line_with_the_remedy_and_the_client_is_disconnected(
    site: Site, mechanism: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong-secret")
    path = tmp_path / "sidecar.yaml"
    path.write_text(site.login(mechanism).replace(str(site.secrets / "password"), str(wrong)))
    with Sidecar(site.cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(path)]) as sidecar:
        eventually(sidecar.log.read_text, lambda text: "login failed" in text, "the failure is logged")
        producer = Producer({"bootstrap.servers": sidecar.bootstrap, "logger": SILENT})
        with pytest.raises(KafkaException, match="_TRANSPORT"):
            producer.list_topics(timeout=3)
        assert not sidecar.is_ready()
        log = sidecar.log.read_text()
        assert f"correct brokers.sasl (username app, password_file {wrong}), or what the brokers accept" in log
        assert "wrong-secret" not in log
        wrong.write_text(PASSWORD)
        sidecar.wait()
        assert producer.list_topics(timeout=10).brokers


def test_a_client_that_knows_only_the_node_finds_it_after_a_restart(site: Site, tmp_path: Path) -> None:
    settings = f"nodes: {{state_file: {tmp_path / 'nodes.json'}}}\n"
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER}
    common = {**login, "sasl.password": PASSWORD, "logger": SILENT}
    with site.start(tmp_path, settings) as sidecar:
        producer = Producer({**common, "bootstrap.servers": sidecar.bootstrap})
        node = next(iter(producer.list_topics(timeout=20).brokers.values()))
        sidecar.restart()
        assert Producer({**common, "bootstrap.servers": f"{node.host}:{node.port}"}).list_topics(timeout=20).brokers
