"""The commands as they are typed, against a cluster in memory: output, exit codes, mistakes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.commands import CliRunner
from support.dead_letters import AT, letter_record, record_of
from support.letter_cluster import FakeCluster
from typer.testing import Result

from kafka_sidecar.proxy.cli.dead_letters import cluster as cluster_module
from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError
from kafka_sidecar.proxy.cli.main import app

AT_SIDECAR = ("--bootstrap-servers", "sidecar:19092")


@pytest.fixture
def connected(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments that clients were made with."""
    given: list[dict[str, Any]] = []

    @asynccontextmanager
    async def connect(settings: dict[str, Any]) -> AsyncIterator[FakeCluster]:
        given.append(settings)
        yield cluster

    monkeypatch.setattr(cluster_module, "connect", connect)
    cluster.letters["dlq", 0] = [
        letter_record(b'{"secret": 1}', [("h", b"hidden"), ("n", None)]),
        letter_record(b"\xff\xfe", rejection_id="r-2", reason="other", rejected_at=AT + 1000),
        letter_record(None, rejection_id="r-3", client_id=None, mode="shadow"),
        record_of(b"mine", []),
    ]
    return given


def type_in(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["dead-letters", *arguments])


@pytest.mark.usefixtures("connected")
def test_list_has_a_row_for_each_group_and_one_for_what_is_no_letter() -> None:
    done = type_in("list", "dlq", *AT_SIDECAR)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["letters", "topic", "policy", "reason", "mode", "client", "first", "last", "example"]
    assert lines[1].split()[:6] == ["1", "orders", "json", "not_json", "enforce", "shop"]
    assert lines[2].split()[-1] == "dlq:0:2"
    assert "1 record is no dead letter of a sidecar" in lines[-1]
    assert lines[-1].endswith("such as dlq:0:3")


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("flags", "number"),
    [
        ([], 3), (["--topic", "refunds"], 0), (["--policy", "json", "--reason", "other"], 1),
        (["--rejection-id", "r-2", "--rejection-id", "r-3"], 2), (["--since", "2026-09-21T14:13:21"], 1),
        (["--until", "2026-09-21T14:13:21"], 2), (["--limit", "1"], 1),
    ],
)  # fmt: skip
def test_filters_choose_letters(flags: list[str], number: int) -> None:
    assert json.loads(type_in("list", "dlq", *AT_SIDECAR, "--json", *flags).stdout)["letters"] == number


@pytest.mark.usefixtures("connected")
def test_show_measures_what_a_record_contains_and_shows_it_if_asked() -> None:
    quiet = type_in("show", "dlq:0:0", *AT_SIDECAR)
    assert quiet.exit_code == 0, quiet.output
    for word in ("dlq:0:0", "not_json", "13 bytes", "h: 6 bytes", "n: null", "User:shop"):
        assert word in quiet.stdout
    assert not {"secret", "hidden"} & set(quiet.stdout.replace('"', " ").split())
    loud = type_in("show", "dlq:0:0", *AT_SIDECAR, "--values")
    assert '"{\\"secret\\": 1}"' in loud.stdout
    (found,) = json.loads(type_in("show", "dlq", "--rejection-id", "r-2", *AT_SIDECAR, "--values", "--json").stdout)
    assert (found["letter"], found["value_base64"], found["key"]) == ("dlq:0:1", "//4=", "k")
    (measured,) = json.loads(type_in("show", "dlq:0:2", *AT_SIDECAR, "--json").stdout)
    assert (measured["value_bytes"], measured["key_bytes"], measured.get("client_id")) == (None, 1, None)


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("arguments", [("list", "dlq"), ("show", "dlq:1:0"), ("show", "dlq:1:0", "--values")])
def test_names_of_others_take_no_line_of_their_own_and_move_no_cursor(
    cluster: FakeCluster, arguments: tuple[str, ...]
) -> None:
    hostile = "a\x1b[2J\u202e\x9b1m\nforged 99"
    cluster.letters["dlq", 1] = [
        letter_record(hostile.encode(), [(hostile, hostile.encode())], client_id=hostile, message=hostile)
    ]
    shown = type_in(*arguments, *AT_SIDECAR).stdout
    assert "forged 99" in shown
    assert all(line.isprintable() for line in shown.split("\n"))
    assert not any(line.startswith("forged") for line in shown.split("\n"))
    assert "a\\x1b[2J" in shown


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        ("dlq:0:99", 1, "there is no such letter"),
        ("dlq:7:0", 1, "there is no such letter"),
        ("dlq:0:3", 1, "this record is no dead letter of a sidecar"),
        ("none:0:0", 1, "topic none does not exist"),
        ("dlq", 2, "name one letter as TOPIC:PARTITION:OFFSET"),
        ("dlq:0", 2, "write TOPIC:PARTITION:OFFSET"),
    ],
)
def test_a_place_without_a_letter_is_one_line(place: str, code: int, message: str) -> None:
    done = type_in("show", place, *AT_SIDECAR)
    assert (done.exit_code, message in done.stderr, done.stderr.count("\n")) == (code, True, 1)


@pytest.mark.usefixtures("connected")
def test_replay_counts_and_its_exit_code_says_whether_all_were_accepted(cluster: FakeCluster) -> None:
    dry = type_in("replay", "dlq", *AT_SIDECAR, "--dry-run")
    assert (dry.exit_code, "2 would be sent, 0 rejected, 1 passed over" in dry.stdout) == (0, True)
    cluster.answer = lambda records: (87, [(1, "json: byte 7")], None) if len(records) > 1 else (0, [], None)
    first = type_in("replay", "dlq", *AT_SIDECAR)
    assert (first.exit_code, "1 accepted, 1 rejected, 1 passed over" in first.stdout) == (1, True)
    assert "INVALID_RECORD  json: byte N" in first.stdout
    assert "4 read, 1 accepted" in first.stderr
    second = type_in("replay", "dlq", *AT_SIDECAR, "--with-shadow", "--json")
    assert second.exit_code == 1
    third = type_in("replay", "dlq", *AT_SIDECAR, "--with-shadow", "--json")
    assert (third.exit_code, json.loads(third.stdout)["accepted"]) == (0, 1)
    assert cluster.stored == [b'{"secret": 1}', b"\xff\xfe", None]


@pytest.mark.usefixtures("connected")
def test_an_interrupt_is_one_line_and_what_was_done(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(records: Any) -> Any:
        raise KeyboardInterrupt

    cluster.answer = interrupted
    done = type_in("replay", "dlq", *AT_SIDECAR)
    assert done.exit_code == 130
    assert "kafka-sidecar: interrupted" in done.stderr
    assert "0 accepted" in done.stdout


def test_the_address_and_the_topics_may_be_those_of_the_sidecars_file(
    connected: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(
        "listen: 0.0.0.0:19100\nnodes: {advertised_host: sidecar}\n"
        "topics:\n  - {name: orders, policy: json, dead_letters: dlq}\n  - {name: others}\n"
    )
    assert json.loads(type_in("list", "--config", str(file), "--json").stdout)["letters"] == 3
    assert connected[0]["bootstrap_servers"] == ["127.0.0.1:19100"]


def test_a_login_is_that_of_kafkas_own_tools(connected: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# of a client\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism : PLAIN\n"
        'sasl.jaas.config=x.PlainLoginModule required username="a" password="b=c";\n'
    )
    assert type_in("list", "dlq", *AT_SIDECAR, "--command-config", str(file)).exit_code == 0
    assert connected[0]["sasl_plain_password"] == "b=c"


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "dlq"], "name the sidecar: --bootstrap-servers HOST:PORT"),
        (["list", *AT_SIDECAR], "name a dead letter topic"),
        (["list", "dlq", "--bootstrap-servers", "nowhere"], "--bootstrap-servers: "),
        (["list", "dlq", *AT_SIDECAR, "--since", "soon"], "--since: write a time as"),
        (["list", "dlq", *AT_SIDECAR, "--command-config", "/missing"], "/missing: No such file"),
        (["replay", "dlq", *AT_SIDECAR, "--compression", "rar"], "--compression: rar: write one of none, gzip"),
        (["replay", "dlq", *AT_SIDECAR, "--mend", "/missing.yaml"], "/missing.yaml"),
    ],
)
def test_a_mistake_is_one_line_with_its_remedy(arguments: list[str], message: str) -> None:
    done = type_in(*arguments)
    assert (done.exit_code, message in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize(("text", "message"), [("", "interceptors: is empty"), ("interceptors: [{type: x}]", "x")])
def test_a_file_that_mends_nothing_is_a_mistake(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mend.yaml"
    file.write_text(text)
    done = type_in("replay", "dlq", *AT_SIDECAR, "--mend", str(file))
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


@pytest.mark.usefixtures("connected")
def test_a_file_of_properties_with_other_lines_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol")
    done = type_in("list", "dlq", *AT_SIDECAR, "--command-config", str(file))
    assert (done.exit_code, "is no file of properties" in done.stderr) == (2, True)
    file.write_text("linger.ms=5")
    done = type_in("list", "dlq", *AT_SIDECAR, "--command-config", str(file))
    assert (done.exit_code, f"{file}: linger.ms: is not used here" in done.stderr) == (2, True)


@pytest.mark.usefixtures("connected")
def test_a_cluster_that_fails_is_one_line(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(names: list[str]) -> list[str]:
        raise ClusterError("no answer within 90 s: a partition has no leader")

    monkeypatch.setattr(cluster, "expand", fails)
    done = type_in("replay", "dlq", *AT_SIDECAR, "--json")
    assert (done.exit_code, json.loads(done.stdout)["accepted"]) == (1, 0)
    assert done.stderr == "kafka-sidecar: no answer within 90 s: a partition has no leader\n"


@pytest.mark.usefixtures("connected")
def test_a_dry_run_with_a_file_says_what_its_policies_would_accept(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text("bootstrap_servers: kafka:9092\ntopics: [{name: orders, policy: json, dead_letters: dlq}]\n")
    done = type_in("replay", "--config", str(file), "--dry-run")
    assert done.exit_code == 1, done.output
    lines = done.stdout.splitlines()
    assert any("would be accepted" in line for line in lines)
    assert any("INVALID_RECORD" in line and "json: " in line for line in lines)
    assert lines[-2] == "1 would be accepted, 1 rejected, 1 passed over"
    assert lines[-1].startswith(f"asked were the policies of {file}; ")
    found = json.loads(type_in("replay", "--config", str(file), "--dry-run", "--json").stdout)
    assert (found["would_be_accepted"], found["rejected"]) == (1, 1)


@pytest.mark.usefixtures("connected")
def test_a_dry_run_with_a_policy_that_is_wrong_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text("bootstrap_servers: kafka:9092\ntopics: [{name: orders, policy: nonsense, dead_letters: dlq}]\n")
    done = type_in("replay", "--config", str(file), "--dry-run")
    assert (done.exit_code, "nonsense" in done.stderr) == (2, True)
