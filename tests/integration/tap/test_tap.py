"""A tap in front of a real broker shows what Kafka's own tools and librdkafka send and get."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer, ShareConsumer
from harness import json_lines
from harness.cluster import Cluster
from harness.sidecar import COMMAND, NODE_PORTS, Sidecar
from harness.tls import BROKERS_CA, CLIENTS_CA
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.lent import plain_cluster
from integration.scenarios.target import SILENT, create_topic
from integration.tap.reader import TapReader, refusal, tapping, until
from integration.together.broker_admin import configure_share_group

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = f"""\
workers: %s
nodes: {{ports: {NODE_PORTS}}}
topics:
  - {{name: "checked*", policy: json}}
tap: {{allow_keys: true, allow_values: %s, max_open: 16}}
"""
HOSTILE = "app-\x1b[2J\x07"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with plain_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def sidecar(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("tap")
    config = folder / "kafka-sidecar.yaml"
    config.write_text(CONFIG % (1, "true"))
    with Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)]) as sidecar:
        yield sidecar


def producer(sidecar: Sidecar, **settings: object) -> Producer:
    return Producer(
        {"bootstrap.servers": sidecar.bootstrap, "client.id": HOSTILE, "linger.ms": 20, **settings}, logger=SILENT
    )


def consume(sidecar: Sidecar, topic: str, number: int) -> list[bytes | None]:
    settings = {
        "bootstrap.servers": sidecar.bootstrap, "group.id": f"of-{topic}", "auto.offset.reset": "earliest",
        "client.id": "reads",
    }  # fmt: skip
    consumer = Consumer(settings, logger=SILENT)
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    try:
        while len(values) < number:
            if (message := consumer.poll(30)) is not None and message.error() is None:
                values.append(message.value())
    finally:
        consumer.close()
    return values


@pytest.mark.parametrize("codec", CODECS)
def test_records_in_each_codec_are_shown_as_produced_and_as_fetched(sidecar: Sidecar, codec: str) -> None:
    topic = f"codec-{codec}"
    create_topic(sidecar.bootstrap, topic, 1)
    with tapping(sidecar, "records", topic=topic, show="keys,values") as tap:
        sends = producer(sidecar, **{"compression.type": codec})
        for number in range(3):
            value = f"{number}".encode() * 200
            sends.produce(topic, value, key=b"k\xff", headers=[("trace", b"1234"), ("none", None)])
        sends.flush(30)
        produced = tap.wait(3, "record", direction="produced")
        assert [line["offset"] for line in produced] == [0, 1, 2]
        assert {line["compression"] for line in produced} == {codec}
        assert {line["client_id"] for line in produced} == {HOSTILE}
        consume(sidecar, topic, 3)
        fetched = tap.wait(3, "record", direction="fetched", client_id="reads")
    for lines in (produced, fetched):
        assert [line["value"] for line in lines] == [f"{number}" * 200 for number in range(3)]
        assert {line["key"] for line in lines} == {"k\\xff"}
        assert lines[0]["headers"] == [
            {"name": "trace", "value_bytes": 4, "value": "1234"}, {"name": "none", "value_bytes": -1},
        ]  # fmt: skip
    assert [line["offset"] for line in fetched] == [0, 1, 2]


def test_what_java_sends_is_shown_with_hashes_in_place_of_keys_and_no_values(
    sidecar: Sidecar, java: Mapping[str, ToolHost]
) -> None:
    create_topic(sidecar.bootstrap, "of-java", 1)
    with tapping(sidecar, "records", topic="of-*") as tap:
        java[NEWEST].run(
            "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", sidecar.bootstrap, "--topic", "of-java",
            "--property", "parse.key=true", stdin="secret\tvalue-a\nsecret\tvalue-b\nother\tvalue-c\n",
        )  # fmt: skip
        lines = tap.wait(3, "record", direction="produced")
    first, second, third = (line["key_hash"] for line in lines)
    assert first == second != third
    assert [(line["key_bytes"], line["value_bytes"]) for line in lines] == [(6, 7), (6, 7), (5, 7)]
    assert not re.search("secret|value-", json.dumps(lines))


def test_transactions_are_shown_and_their_markers_are_not(sidecar: Sidecar) -> None:
    create_topic(sidecar.bootstrap, "in-transactions", 1)
    with tapping(sidecar, "records", topic="in-transactions") as tap:
        sends = producer(sidecar, **{"transactional.id": "t", "linger.ms": 0})
        sends.init_transactions(30)
        for ends in (sends.abort_transaction, sends.commit_transaction):
            sends.begin_transaction()
            sends.produce("in-transactions", b"x")
            sends.flush(30)
            ends(30)
        produced = tap.wait(2, "record", direction="produced")
        consume(sidecar, "in-transactions", 1)
        fetched = tap.wait(1, "record", direction="fetched")
    assert [line["transactional"] for line in produced] == [True, True]
    # librdkafka reads what is committed: after the aborted record and its marker.
    assert [line["offset"] for line in fetched] == [2]


def test_a_large_message_is_shown_cut_to_what_a_terminal_can_show(sidecar: Sidecar) -> None:
    create_topic(sidecar.bootstrap, "large", 1)
    with tapping(sidecar, "records", topic="large", show="values", direction="produced") as tap:
        sends = producer(sidecar)
        sends.produce("large", b"y" * 900_000)
        sends.flush(30)
        (line,) = tap.wait(1, "record")
    assert (line["value_bytes"], line["value"], line["value_is_cut"], line["offset"]) == (900_000, "y" * 1024, True, 0)


def test_a_rejection_is_shown_with_its_id_and_its_record_with_the_error(sidecar: Sidecar) -> None:
    create_topic(sidecar.bootstrap, "checked", 1)
    with tapping(sidecar, "rejections", topic="checked") as tap, tapping(sidecar, "records", topic="checked") as sent:
        sends = producer(sidecar)
        sends.produce("checked", b"no json")
        sends.flush(30)
        (line,) = tap.wait(1, "rejection")
        (record,) = sent.wait(1, "record")
    assert (line["policy"], line["reason"], line["outcome"], line["client_id"]) == (
        "json", "not_json", "rejected", HOSTILE,
    )  # fmt: skip
    found = subprocess.run(
        [COMMAND, "explain", line["id"], "--admin", sidecar.admin], capture_output=True, text=True, check=True
    )
    assert "not_json" in found.stdout
    assert (record["error_code"], record["offset"]) == (87, None)


def test_requests_have_their_topics_errors_and_whose_time_it_was(sidecar: Sidecar) -> None:
    create_topic(sidecar.bootstrap, "asked", 1)
    create_topic(sidecar.bootstrap, "checked-requests", 1)
    with tapping(sidecar, "requests", api=["Produce", "Metadata"], topic=["asked", "checked-requests"]) as tap:
        sends = producer(sidecar)
        sends.produce("asked", b"x")
        sends.produce("checked-requests", b"{}")
        sends.flush(30)
        relayed = tap.wait(1, "request", api="Produce", topics=["asked"])[0]
        checked = tap.wait(1, "request", api="Produce", topics=["checked-requests"])[0]
        sends.produce("checked-requests", b"no json")
        sends.flush(30)
        rejected = tap.wait(1, "request", api="Produce", error_code=87)[0]
        assert tap.of("request", api="Metadata")
    assert {line["api"] for line in tap.of("request")} == {"Produce", "Metadata"}
    assert (relayed["sidecar_ms"], relayed["error_code"], relayed["answered_by"]) == (0.0, 0, "broker")
    assert checked["answered_by"] == "broker"
    assert checked["sidecar_ms"] > 0
    assert checked["broker_ms"] > 0
    assert rejected["answered_by"] == "sidecar"


def test_connections_are_shown_when_they_open_and_close(sidecar: Sidecar) -> None:
    with tapping(sidecar, "connections") as tap:
        sends = producer(sidecar)
        sends.list_topics(timeout=30)
        opened = tap.wait(1, "connection", event="opened")[0]
        del sends
        closed = tap.wait(1, "connection", event="closed", session=opened["session"])[0]
    assert (closed["client_id"], closed["cause"]) == (HOSTILE, "client_closed")
    assert closed["client"] == opened["client"]


def test_the_command_prints_escaped_lines_and_ends_after_its_count(sidecar: Sidecar, tmp_path: Path) -> None:
    create_topic(sidecar.bootstrap, "printed", 1)
    printed = tmp_path / "printed"
    words = [
        str(COMMAND),
        "tap",
        "records",
        "--topic",
        "printed",
        "--count",
        "2",
        "--show-values",
        "--admin",
        sidecar.admin,
    ]
    with printed.open("w") as out, subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        assert command.stderr.readline().startswith("tapping records")
        sends = producer(sidecar)
        for number in range(3):
            sends.produce("printed", f"v\x1b]0;title\x07{number}".encode(), headers=[("h\r\n", b"")])
        sends.flush(30)
        assert command.wait(60) == 0
    lines = printed.read_text().splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert "app-\\x1b[2J\\x07" in lines[0]
    assert "produced printed-0@0" in lines[0]


def test_the_command_says_that_the_sidecar_has_stopped_and_ends_with_one(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "kafka-sidecar.yaml"
    config.write_text(CONFIG % (1, "false"))
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        assert refusal(sidecar, "kind=records&show=values") == (
            403, "values are not shown here: set tap.allow_values: true in the configuration of the sidecar",
        )  # fmt: skip
        words = [str(COMMAND), "tap", "requests", "--admin", sidecar.admin]
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as command:
            assert command.stderr is not None
            assert command.stderr.readline().startswith("tapping requests")
            sidecar.stop()
            assert command.wait(60) == 1
            assert command.stderr.read() == "kafka-sidecar: the sidecar has ended the tap: it has stopped\n"
        opened = json_lines.read(sidecar.log, "tap opened")
    assert [line["detail"] for line in opened] == ["requests"]


def test_records_that_a_share_group_acquires_are_shown_once_as_fetched(cluster: Cluster, sidecar: Sidecar) -> None:
    create_topic(sidecar.bootstrap, "shared", 1)
    configure_share_group(cluster.direct, "of-shared")
    sends = producer(sidecar)
    for number in range(5):
        sends.produce("shared", f"value-{number}".encode(), key=b"secret")
    sends.flush(30)
    settings = {
        "bootstrap.servers": sidecar.bootstrap, "group.id": "of-shared", "client.id": "shares", "logger": SILENT,
        "share.acknowledgement.mode": "implicit",
    }  # fmt: skip
    got: list[int | None] = []
    with tapping(sidecar, "records", topic="shared") as tap, tapping(sidecar, "requests", api="ShareFetch") as asked:
        with ShareConsumer(settings) as consumer:
            consumer.subscribe(["shared"])
            until(lambda: len(got_of(consumer, got)) >= 5, "five records")
        lines = tap.wait(5, "record", direction="fetched", client_id="shares")
        requests = asked.wait(1, "request", api="ShareFetch", client_id="shares")
    assert sorted(line["offset"] for line in lines) == got == [0, 1, 2, 3, 4]
    assert {(line["key_bytes"], line["value_bytes"]) for line in lines} == {(6, 7)}
    assert {line["answered_by"] for line in requests} == {"broker"}
    assert not re.search("secret|value-", json.dumps(tap.lines))


def got_of(consumer: ShareConsumer, got: list[int | None]) -> list[int | None]:
    """The offsets so far, with those of the next records."""
    got += [message.offset() for message in consumer.poll(0.5)]
    return got


def test_a_tap_by_tls_needs_the_ca_and_the_token(cluster: Cluster, tmp_path: Path) -> None:
    chain, key = CLIENTS_CA.issue("admin").write(tmp_path, "admin")
    ca, other_ca = CLIENTS_CA.write(tmp_path, "ca"), BROKERS_CA.write(tmp_path, "other-ca")
    token, other_token = tmp_path / "token", tmp_path / "other-token"
    token.write_text("t" * 32)
    other_token.write_text("u" * 32)
    config = tmp_path / "kafka-sidecar.yaml"
    admin = {"tls": {"certificate": str(chain), "key": str(key)}, "token_file": str(token)}
    config.write_text(CONFIG % (1, "false") + yaml.safe_dump({"admin": admin}))
    create_topic(cluster.bootstrap, "by-tls", 1)
    with Sidecar(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        at = sidecar.admin.replace("http:", "https:")

        def tap(its_ca: Path, its_token: Path) -> list[str]:
            words = ["tap", "records", "--topic", "by-tls", "--direction", "produced", "--count", "1", "--json"]
            return [str(COMMAND), *words, "--admin", at, "--ca", str(its_ca), "--token-file", str(its_token)]

        trusted = ssl.create_default_context(cafile=str(ca))
        sidecar.program.wait_for(lambda: is_ready(at, trusted), "ready", 60)
        for words, why in ((tap(other_ca, token), "certificate"), (tap(ca, other_token), "token")):
            refused = subprocess.run(words, capture_output=True, text=True, timeout=60)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert why in refused.stderr
        with subprocess.Popen(tap(ca, token), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
            assert command.stderr is not None
            assert command.stderr.readline().startswith("tapping records")
            sends = producer(sidecar)
            sends.produce("by-tls", b"value")
            sends.flush(30)
            printed, _ = command.communicate(timeout=60)
        assert command.returncode == 0
    shown = [line for line in map(json.loads, printed.splitlines()) if line["kind"] == "record"]
    assert [(line["offset"], line["value_bytes"]) for line in shown] == [(0, 5)]


def is_ready(admin: str, trusted: ssl.SSLContext) -> bool:
    try:
        with urllib.request.urlopen(f"{admin}/readyz", timeout=2, context=trusted) as response:
            return bool(response.status == 200)
    except OSError:
        return False


def test_all_workers_are_tapped_and_one_that_is_started_again_too(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "kafka-sidecar.yaml"
    config.write_text(CONFIG % (2, "true"))
    create_topic(cluster.bootstrap, "of-workers", 1)
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:

        def workers() -> dict[int, int]:
            return {line["worker"]: line["pid"] for line in json_lines.read(sidecar.log, "worker serving")}

        def send_until_both(tap: TapReader) -> None:
            def both() -> bool:
                sends = producer(sidecar)
                sends.produce("of-workers", b"x")
                sends.flush(30)
                return {line["session"] % 2 for line in tap.of("record")} == {0, 1}

            until(both, "lines of both workers")

        with tapping(sidecar, "records", topic="of-workers", direction="produced") as tap:
            send_until_both(tap)
            before = workers()
            os.kill(before[1], signal.SIGKILL)
            tap.lines.clear()
            until(lambda: workers()[1] != before[1], "a new worker")
            send_until_both(tap)
