"""``kafka-sidecar interceptor test``: what becomes of records, failures in full, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import CliRunner
from typer.testing import Result

from kafka_sidecar.proxy.cli.interceptor_runs import Failures
from kafka_sidecar.proxy.cli.main import app

CONFIG = """
bootstrap_servers: localhost:9092
interceptors:
  - {type: "mine:Mine", name: mine, class_path: "FOLDER", topics: [orders, hidden]}
  - {type: add_header, topics: [orders], headers: {tenant: acme}}
  - {type: "mine:Hides", name: hides, class_path: "FOLDER", topics: [hidden]}
  - {type: "mine:Waits", name: waits, class_path: "FOLDER", topics: [waiting]}
"""
MINE = """
from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints, ProducerInterceptor, Unresolved


class Mine(ProducerInterceptor, ConsumerInterceptor):
    def on_send(self, record):
        record.headers.add("client", (record.context.client_id or "").encode())
        return record.replace(value=b"%d" % int(record.value or b"0"))

    def on_acknowledgement(self, metadata, exception):
        if metadata.serialized_value_size == 3:
            raise RuntimeError("three digits")

    def on_consume(self, records):
        return [record for record in records if record.value != b"7"]


class Waits(ConsumerInterceptor):
    known = ()

    def on_consume(self, records):
        if b"7" not in self.known:
            raise Unresolved(b"7")
        return records if records.count() == 1 else []

    async def resolve(self, key):
        if self.known == ():
            self.known = []
            raise OSError
        self.known.append(key)


class Hides(ConsumerInterceptor):
    def hints(self):
        return Hints(fail_closed=True)

    def on_consume(self, records):
        return [None for record in records]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    path = tmp_path / "sidecar.yaml"
    path.write_text(CONFIG.replace("FOLDER", str(tmp_path)))
    return path


def run(config: Path, lines: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["interceptor", "test", "-", "--config", str(config), *words], input=lines)


def test_each_record_is_shown_after_on_send_and_after_on_consume(config: Path) -> None:
    result = run(config, '{"key": "k", "value": "05"}\n\n{"value": 7}\n', "--topic", "orders", "--client-id", "app")
    added = '"headers": [["client", "app"], ["tenant", "acme"]]}'
    assert result.output.splitlines() == [
        '1: on_send: {"key": "k", "value": "5", ' + added,
        "1: on_consume: unchanged",
        '3: on_send: {"key": null, "value": "7", ' + added,
        "3: on_consume: dropped",
    ]
    assert result.exit_code == 0


def test_a_failure_is_shown_in_full_with_the_line_of_code_and_the_others_go_on(config: Path, tmp_path: Path) -> None:
    result = run(config, '{"value": "card 4111"}\n{"value": 100}\n', "--topic", "orders")
    place = f"({tmp_path / 'mine.py'}, line"
    text = "invalid literal for int() with base 10: b'card 4111'"
    tenant = '"headers": [["tenant", "acme"]]}'
    assert result.output.splitlines() == [
        f"1: on_send: mine failed: ValueError: {text} {place} 8)",
        '1: on_send: {"key": null, "value": "card 4111", ' + tenant,
        "1: on_consume: unchanged",
        f"2: on_acknowledgement: mine failed: RuntimeError: three digits {place} 12)",
        '2: on_send: {"key": null, "value": "100", "headers": [["client", ""], ["tenant", "acme"]]}',
        "2: on_consume: unchanged",
    ]
    assert result.exit_code == 1


def test_what_an_interceptor_with_fail_closed_fails_on_is_withheld_from_consumers(config: Path) -> None:
    lines = run(config, '{"value": 1, "headers": {"h": {"base64": "/w=="}}}\n', "--topic", "hidden").output.splitlines()
    assert lines[0] == '1: on_send: {"key": null, "value": "1", "headers": [["h", {"base64": "/w=="}], ["client", ""]]}'
    assert lines[1] == (
        "1: on_consume: hides failed: ContractTypeError: on_consume() returned NoneType: return ConsumerRecord objects"
    )
    assert lines[2] == "1: on_consume: withheld from consumers"


def test_a_topic_without_interceptors_is_an_error(config: Path) -> None:
    result = run(config, "{}\n", "--topic", "other")
    assert result.exit_code == 2
    assert result.output == f"kafka-sidecar: other: no interceptor in {config} is called for its records\n"


@pytest.mark.parametrize(("line", "remedy"), [("[]", "is not an object"), ('{"valu": 1}', "valu: not a field")])
def test_an_invalid_line_is_named(line: str, remedy: str, config: Path) -> None:
    result = run(config, f"{{}}\n{line}\n", "--topic", "orders")
    assert result.exit_code == 2
    assert f"kafka-sidecar: -:2: {remedy}" in result.output


def test_a_slow_and_a_disabled_interceptor_are_lines_of_the_output() -> None:
    failures = Failures()
    failures.slow("mine", "on_send", 0.25)
    failures.disabled("mine", 3, 60.0)
    assert failures.take() == [
        "on_send: mine took 0.250 s, which is over its budget",
        "mine is disabled for 60 s after 3 failures in a row",
    ]
    assert failures.count == 0


def test_what_an_interceptor_waits_for_is_fetched(config: Path) -> None:
    lines = run(config, '{"value": "1"}\n{"value": "2"}\n', "--topic", "waiting").output.splitlines()
    assert [line.partition(" (")[0] for line in lines] == [
        "1: on_consume: waits failed: Unresolved: b'7'",
        "1: on_consume: unchanged",
        "2: on_consume: unchanged",
    ]
