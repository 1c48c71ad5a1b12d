"""What `validate --connect` says of brokers and services that are not as they should be."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness.ports import free_ports
from support import oracle
from support.commands import CliRunner
from support.fake_broker import Answer, FakeBroker, Request, fixed, hang_up, stall
from support.http_registry import running as running_registry
from support.in_process import config
from support.secured_broker import PASSWORD, secured
from typer.testing import Result

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.cli.connect.brokers import _check
from kafka_sidecar.proxy.cli.connect.checks import check_all, summary
from kafka_sidecar.proxy.cli.connect.report import Check, failed, ok
from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

HOSTILE = "evil\x1b[2J\nname"


async def lines(*brokers: FakeBroker | str, within_s: float = 10.0, **settings: Any) -> list[str]:
    checks: list[Check] = await asyncio.to_thread(check_all, config(*brokers, **settings), within_s)
    return [one.line for one in checks]


def of_cluster(cluster_id: str, **topics: int) -> Answer:
    """Metadata with the error codes of topics."""

    async def answer(broker: FakeBroker, request: Request) -> bytes:
        made = oracle.response(
            request.key, request.version, cluster_id=cluster_id, controller_id=1,
            brokers=[{"node_id": one.node_id, "host": one.host, "port": one.port} for one in broker.cluster],
            topics=[{"name": name, "error_code": code, "partitions": []} for name, code in topics.items()],
        )  # fmt: skip
        return oracle.response_frame(made, request.correlation_id)

    return answer


async def test_a_broker_of_the_cluster_that_no_server_names_is_tried_too() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as other:
        one.cluster = [one, other]
        found = await lines(one)
        assert f"ok       bootstrap {one.address}: answers: no TLS" in found
        assert f"ok       broker 2 {other.address}: answers: no TLS" in found
        assert {request.key for request in one.requests} == {ApiKey.API_VERSIONS, ApiKey.METADATA}


async def test_a_broker_of_the_cluster_that_is_down_fails_though_a_server_answers() -> None:
    async with FakeBroker(1) as one:
        down = FakeBroker(2)
        down.port = free_ports(1)[0]
        one.cluster = [one, down]
        (line,) = [line for line in await lines(one) if line.startswith("failed")]
        assert line.startswith(f"failed   broker 2 127.0.0.1:{down.port}: refused the connection; is it up")


def test_a_broker_that_refuses_the_certificate_has_that_remedy_alone() -> None:
    """With TLS 1.3 it refuses after the sidecar's handshake: the first read fails."""
    refused = ssl.SSLError(1, "")
    refused.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    line = _check("bootstrap", ("kafka", 9093), refused, BrokerAccess(), 1.0).line
    remedy = "the broker requires a client certificate of a CA that it trusts: set brokers.tls.certificate to one"
    assert line == f"failed   bootstrap kafka:9093: {remedy}"


async def test_a_broker_that_says_its_versions_in_version_0_alone_is_asked_in_that() -> None:
    """As brokers before Kafka 2.4 and librdkafka's mock: UNSUPPORTED_VERSION, without a list."""

    def answer(versions: list[dict[str, int]]) -> Answer:
        async def old(_: FakeBroker, request: Request) -> bytes:
            error, listed = (0, versions) if request.version == 0 else (35, [])
            made = oracle.response(ApiKey.API_VERSIONS, 0, error_code=error, api_keys=listed)
            return oracle.response_frame(made, request.correlation_id)

        return old

    async with FakeBroker(1) as broker:
        known = [{"api_key": key, "min_version": 0, "max_version": 12} for key in (0, 1, 3)]
        broker.answers[ApiKey.API_VERSIONS] = answer(known)
        assert f"ok       bootstrap {broker.address}: answers: no TLS" in await lines(broker)
        broker.answers[ApiKey.API_VERSIONS] = answer([{"api_key": 3, "min_version": 0, "max_version": 8}])
        found = await lines(broker, topics=[{"name": "orders"}])
        assert f"ok       bootstrap {broker.address}: answers: no TLS" in found
        assert (
            f"failed   versions {broker.address}: Metadata 0 to 8, 12 is needed; use brokers of Kafka 3.9 or newer"
            in found
        )
        assert "skipped  topic orders: the broker is too old (topics (entry 1))" in found


async def test_servers_of_two_clusters_are_a_mistake() -> None:
    async with FakeBroker(1) as one, FakeBroker(2) as other:
        one.answers[ApiKey.METADATA], other.answers[ApiKey.METADATA] = of_cluster("aaa"), of_cluster("bbb")
        found = await lines(one, other)
        (line,) = [line for line in found if line.startswith("failed")]
        assert line.startswith("failed   cluster id: they are 2 clusters: aaa at ")
        assert line.endswith("; name servers of one cluster only")


async def test_a_cluster_that_the_audit_calls_otherwise_is_a_doubt() -> None:
    async with FakeBroker(1) as one:
        one.answers[ApiKey.METADATA] = of_cluster("aaa")
        found = await lines(one, audit={"cluster": "bbb"})
        assert [line for line in found if line.startswith("warning")] == [
            "warning  cluster aaa: audit.cluster is bbb; is that meant as a name?"
        ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (fixed(oracle.framed(b"\0\0\0\0\xff")), "failed   bootstrap "),
        (hang_up(), "closed the connection without a response"),
        (hang_up(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "an HTTP answer: this is not a broker's Kafka listener"),
        (hang_up(b"\x7f\xff\xff\xff"), "sent a frame of 2147483647 bytes"),
        (stall, "no answer within 0.2 s (connections.connect_timeout)"),
    ],
)  # fmt: skip
async def test_what_is_no_broker_is_one_line_whatever_it_sends(answer: Answer, why: str) -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.API_VERSIONS] = answer
        found = await lines(broker, connections={"connect_timeout": "200ms"}, audit={"topic": "audited"})
    assert len(found) == 2
    assert found[0].startswith(f"failed   bootstrap {broker.address}: ")
    assert why in found[0]
    assert found[1] == "skipped  topic audited: no broker lets the sidecar ask (audit.topic)"


async def test_a_listener_of_the_sidecar_itself_is_no_broker() -> None:
    port = free_ports(1)[0]
    found = await lines(f"localhost:{port}", listen=port)
    assert found[0].startswith(f"failed   bootstrap localhost:{port}: ")
    assert "is this sidecar itself" in found[0]


async def test_a_password_that_brokers_reject_is_the_settings_to_correct(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "wrong").write_text("guess")
    login = {"mechanism": "PLAIN", "username": "app", "password_file": tmp_path / "password"}
    async with FakeBroker(1) as broker:
        secured(broker)
        brokers = {"security_protocol": "SASL_PLAINTEXT", "sasl": login}
        assert (await lines(broker, brokers=brokers))[0].endswith("answers: no TLS, logged in (PLAIN)")
        brokers = {"security_protocol": "SASL_PLAINTEXT", "sasl": {**login, "password_file": tmp_path / "wrong"}}
        (line,) = await lines(broker, brokers=brokers)
        assert "the broker rejects the login: Invalid username or password; correct brokers.sasl (username app" in line
        assert "guess" not in line


async def test_topics_get_the_lines_of_their_errors_and_names_are_spelt() -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.METADATA] = of_cluster("aaa", orders=0, missing=3, broken=-1)
        topics = [{"name": name} for name in ("orders", "missing", "broken")]
        found = await lines(broker, topics=topics)
        assert found[-3:] == [
            "ok       topic orders: 0 partitions (topics (entry 1))",
            "failed   topic missing: does not exist; create it, or correct topics (entry 2)",
            "failed   topic broken: the broker answers with error -1 (topics (entry 3))",
        ]


async def test_a_time_limit_ends_everything() -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.METADATA] = stall
        found = await lines(broker, within_s=0.2)
        assert found == ["failed   time limit 0.2 s: not everything was tried; raise --within"]


async def test_services_are_tried_beside_the_brokers(tmp_path: Path) -> None:
    closed = f"http://127.0.0.1:{free_ports(1)[0]}"
    async with FakeBroker(1) as broker:
        with running_registry() as registry:
            found = await lines(
                broker,
                schema_registries={"main": {"urls": registry.url}, "other": {"urls": closed}},
                large_messages={
                    "topics": [{"name": "big*", "store": "object"}], "object_store": f"file://{tmp_path / 'store'}",
                },
                otlp={"endpoint": closed},
            )  # fmt: skip
            assert f"ok       registry main: answers ({registry.url})" in found
            assert registry.bodies == []
    assert f"ok       object store file://{tmp_path / 'store'}: can be made or written to" in found
    assert not (tmp_path / "store").exists()
    assert any(line.startswith(f"failed   registry other: schema registry other: {closed}") for line in found)
    assert any(line.startswith(f"failed   collector {closed}: ") and "correct otlp.endpoint" in line for line in found)


async def test_keys_of_tokens_that_cannot_be_read_fail(tmp_path: Path) -> None:
    closed = f"http://127.0.0.1:{free_ports(1)[0]}/keys"
    async with FakeBroker(1) as broker:
        sasl = {"mechanisms": ["OAUTHBEARER"], "jwks_endpoint": closed, "expected_audience": ["kafka"]}
        found = await lines(broker, clients={"sasl": sasl})
    (line,) = [line for line in found if line.startswith("failed")]
    assert line.startswith(f"failed   token keys {closed}: ")
    assert line.endswith("; correct clients.sasl.jwks_endpoint")


def validate(path: Path, *flags: str) -> Result:
    return CliRunner().invoke(app, ["validate", str(path), *flags])


def test_a_file_that_is_valid_and_a_broker_that_is_down_exit_with_1(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(yaml.safe_dump({"bootstrap_servers": f"127.0.0.1:{free_ports(1)[0]}"}))
    assert validate(path).exit_code == 0
    made = validate(path, "--connect")
    assert made.exit_code == 1
    assert made.output.splitlines()[-1] == f"{path}: valid; 1 failed"
    found = json.loads(validate(path, "--connect", "--json").output)
    assert (found["valid"], found["works"], found["checks"][0]["result"]) == (True, False, "failed")


def test_a_file_that_is_invalid_exits_with_2_and_nothing_is_tried(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: 127.0.0.1:1\nlisten: x\n")
    made = validate(path, "--connect")
    assert (made.exit_code, "sidecar.yaml:2: listen" in made.output) == (2, True)
    path.write_text("bootstrap_servers: 127.0.0.1:1\n")
    made = validate(path, "--connect", "--within", "soon")
    assert (made.exit_code, made.output.startswith("kafka-sidecar: --within: write a duration")) == (2, True)


def test_without_connect_the_file_alone_is_checked_for_programs_too(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("{}")
    assert validate(path).exit_code == 2
    found = json.loads(validate(path, "--bootstrap-servers", "127.0.0.1:1", "--json").output)
    assert found == {"file": str(path), "valid": True, "warnings": []}


def test_checks_are_summed_up() -> None:
    assert summary([ok("a", "b", "c"), ok("a", "b", "c"), failed("a", "b", "c")]) == "2 ok, 1 failed"
    assert summary([]) == "nothing was tried"


async def test_what_a_broker_says_cannot_make_lines(tmp_path: Path) -> None:
    async with FakeBroker(1) as broker:
        broker.answers[ApiKey.METADATA] = of_cluster(HOSTILE)
        path = tmp_path / "sidecar.yaml"
        path.write_text(yaml.safe_dump({"bootstrap_servers": broker.address}))
        made = await asyncio.to_thread(validate, path, "--connect")
    assert made.exit_code == 0
    assert "cluster evil\\x1b[2J\\nname: 1 broker" in made.output
    assert "\x1b" not in made.output
