"""`config show`: each value with its source; what is printed loads again, and no secret is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.admin import command, pages
from support.commands import CliRunner
from support.examples import some
from support.fake_broker import FakeBroker
from support.pages import all_pages
from support.snapshots import admin_port
from typer.testing import Result

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.proxy.cli.config_show import lines_of, scalar
from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.server.admin import effective as effective_module
from kafka_sidecar.proxy.server.admin.effective import effective

FILE = """\
bootstrap_servers: kafka-1:9092
connections:
  max_idle: 90s
  window: 64KiB
topics:
  - {name: orders, record.validation.policy: json}
  - name: payments
    dead_letters: "{topic}.dlq"
security.protocol: SSL
"""
OTHER_PROGRAMS = {"kubernetes", "prometheus", "values"}


def shown(*words: str) -> Result:
    return CliRunner().invoke(app, ["config", "show", *words])


def source_of(output: str, line: str) -> str:
    """The comment of the line that begins so."""
    (found,) = [one for one in output.splitlines() if one.strip().startswith(line)]
    return found.partition(" # ")[2]


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    path = tmp_path / "sidecar.yaml"
    path.write_text(FILE)
    return path


def test_each_value_has_its_source(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SIDECAR__LOG__LEVEL", "debug")
    made = shown("--config", str(path), "--bootstrap-servers", "other:9092")
    assert made.exit_code == 0, made.output
    assert source_of(made.output, "bootstrap_servers: ['other:9092']") == "flag --bootstrap-servers"
    assert source_of(made.output, "listen: 127.0.0.1:19092") == "default"
    assert source_of(made.output, "max_idle: 90s") == f"{path}:3"
    assert source_of(made.output, "window: 64KiB") == f"{path}:4"
    assert source_of(made.output, "level: debug") == "environment variable KAFKA_SIDECAR__LOG__LEVEL"
    assert source_of(made.output, "policy: json") == f"{path}:6"
    assert source_of(made.output, "- name: payments") == f"{path}:7"
    assert source_of(made.output, "security_protocol: SSL") == f"{path}:9"


def test_only_what_is_given_is_shown_on_request(path: Path) -> None:
    made = shown("--config", str(path), "--given")
    assert yaml.safe_load(made.output) == {
        "bootstrap_servers": ["kafka-1:9092"],
        "connections": {"max_idle": "90s", "window": "64KiB"},
        "brokers": {"security_protocol": "SSL"},
        "topics": [
            {"name": "orders", "policy": "json"},
            {"name": "payments", "dead_letters": {"topic": "{topic}.dlq"}},
        ],
    }


def test_one_section_is_shown_on_request(path: Path) -> None:
    assert list(yaml.safe_load(shown("log", "--config", str(path)).output)) == ["log"]
    made = shown("logs", "--config", str(path))
    assert (made.exit_code, "logs: is no section; known here: bootstrap_servers, " in made.output) == (2, True)


def test_an_invalid_file_is_its_mistakes(path: Path) -> None:
    path.write_text("bootstrap_servers: 1\nlisten: x\n")
    made = shown("--config", str(path))
    assert (made.exit_code, "sidecar.yaml:2: listen: write host:port" in made.output) == (2, True)


def configurations() -> list[Any]:
    """Those of the documentation, each printed in one of both ways, unless all examples are taken."""
    found = [
        (f"{page.name}-{number}", block.text)
        for page in all_pages()
        for number, block in enumerate(page.blocks)
        if block.language == "yaml" and block.mark not in OTHER_PROGRAMS and "jaas.config" not in block.text
    ]
    return [
        pytest.param(text, given, id=f"{name}-{'given' if given else 'all'}")
        for at, (name, text) in enumerate(found)
        for given in some((False, True), of=2, at=at)
    ]


@pytest.mark.parametrize(("text", "given"), configurations())
def test_what_is_printed_loads_again_and_means_the_same(text: str, given: bool, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(text)
    second.write_text(shown("--config", str(first), *["--given"] * given).output)
    assert values_of(load(second, {}, {})) == values_of(load(first, {}, {}))


def values_of(config: Config) -> Any:
    return json.loads(json.dumps(effective(config)["values"]))


SECRETS = {
    "KAFKA_SIDECAR__BROKERS__SASL__PASSWORD": "secret-1",
    "KAFKA_SIDECAR__CLIENTS__TLS__KEY_PASSWORD": "secret-2",
    "KAFKA_SIDECAR__LARGE_MESSAGES__OBJECT_STORE_OPTIONS__ACCOUNT_KEY": "secret-3",
}
WITH_SECRETS = """\
bootstrap_servers: kafka-1:9092
brokers: {security_protocol: SASL_SSL, sasl: {mechanism: PLAIN, username: app}}
clients: {tls: {certificate: cert.pem}}
policies: {own: {type: "module:Class", api_key: secret-4, nested: {password: secret-5, shown: seen}}}
interceptors: [{type: "module:Class", url: "https://user:secret-6@registry"}]
otlp: {endpoint: "http://user:secret-7@collector:4318", headers: {x-team: secret-8}}
pipeline: {kafka: {ssl.keystore.key: secret-9, ssl.key.password: secret-10}, spark: {fs.azure.account.key.x: secret-11}}
audit: {auditor_class: "module:Class", settings: {token: secret-12}}
"""


@pytest.mark.parametrize("flags", [[], ["--json"], ["--given"]])
def test_no_secret_is_shown_but_where_it_is_from(
    flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(WITH_SECRETS)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    made = shown("--config", str(path), *flags)
    assert made.exit_code == 0, made.output
    assert "secret-" not in made.output
    assert "seen" in made.output
    if not flags:
        assert source_of(made.output, "password: '***'") == f"environment variable {next(iter(SECRETS))}"


def test_a_secret_is_never_text_of_a_section() -> None:
    """The settings of the type for secrets, found in the classes: each is shown as asterisks."""
    config = Config.model_validate({
        "bootstrap_servers": "a:1",
        "brokers": {
            "security_protocol": "SASL_SSL",
            "sasl": {"mechanism": "PLAIN", "username": "a", "password": VariableText("hidden-one")},
            "tls": {"ca": "ca.pem", "ca_password": VariableText("hidden-two")},
        },
        "schema_registries": {
            "main": {"urls": "http://r:1", "username": "u", "password": VariableText("hidden-three")},
        },
    })  # fmt: skip
    text = json.dumps(effective(config))
    assert ("hidden-" in text, text.count('"***"')) == (False, 3)


@pytest.mark.parametrize("value", ["a: b", "off", "a\nb", "\x1b[2J", "‮x", "ü", ["x", "1"], {"a": None}, 1.5, True, ""])
def test_any_value_is_one_line_of_yaml(value: object) -> None:
    text = scalar(value)
    assert text.isascii()
    assert text.isprintable()
    assert yaml.safe_load(text) == value


def test_lists_in_lists_and_empty_entries_are_yaml() -> None:
    values = {"a": [{"b": [{"c": 1}], "d": 2}, {}], "e": {}}
    sources = {"a": [{"b": [{"c": "x"}], "d": "x"}, {}], "e": {}}
    assert yaml.safe_load("\n".join(lines_of(values, sources))) == values


async def test_a_running_sidecar_says_what_is_in_force() -> None:
    topics = [{"name": "orders", "policy": "json"}]
    async with FakeBroker(1) as broker, pages(broker, topics=topics) as (_, port):
        made = await command(port, "config", "show", "--running")
        assert made.exit_code == 0, made.output
        assert made.output.startswith("# generation ")
        loaded = yaml.safe_load(made.output)
        assert loaded["topics"][0]["policy"] == "json"
        assert loaded["bootstrap_servers"] == [broker.address]
        found = json.loads((await command(port, "config", "show", "--running", "--json")).output)
        assert found["values"]["topics"][0]["name"] == "orders"


async def test_of_thousands_of_entries_some_are_shown_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effective_module, "MAX_ENTRIES", 3)
    topics = [{"name": f"topic-{number}"} for number in range(5)]
    async with FakeBroker(1) as broker, pages(broker, topics=topics) as (_, port):
        made = await command(port, "config", "show", "topics", "--running")
        assert "# topics: 2 more entries are not shown" in made.output.splitlines()
        assert len(yaml.safe_load(made.output)["topics"]) == 3


def test_a_page_of_thousands_of_entries_takes_no_long_turn_of_the_event_loop() -> None:
    """By what is shown, not by a clock: entries are what takes time."""
    many = Config.model_validate({
        "bootstrap_servers": "a:1",
        "topics": [{"name": f"t{number}"} for number in range(1000)],
        "policies": {f"p{number}": {"type": "json"} for number in range(1000)},
        "producers": [{"topics": [f"t{number}"], "acks": "all"} for number in range(1000)],
        "authorization": {"rules": [{"topics": ["t"]}] * 1000},
    })  # fmt: skip
    walk = effective_module._Walk(many._origins, effective_module.MAX_ENTRIES)
    values, _ = walk.section(many, ())
    lists = (values["topics"], values["policies"], values["producers"], values["authorization"]["rules"])
    assert sum(map(len, lists)) == effective_module.MAX_ENTRIES_IN_ALL
    assert sum(walk.not_shown.values()) == 4000 - effective_module.MAX_ENTRIES_IN_ALL


def answer(generation: int, **values: Any) -> dict[str, Any]:
    return {
        "generation": generation, "last_reload": "applied", "restart_required_by": ["listen"], "not_shown": {},
        "values": values, "sources": dict.fromkeys(values, "default"),
    }  # fmt: skip


def test_workers_that_differ_are_named_and_topics_with_policies_of_their_own() -> None:
    topic = {
        "topic": "orders", "interceptors": [],
        "validation": {"record.validation.policy": "json", "source": "the topic's config"},
    }  # fmt: skip
    found = {
        "/configuration": {"workers": {"1": answer(3, workers=2), "2": answer(2, workers=3)}},
        "/topics": {"topics": [topic]},
    }
    with admin_port(found) as server:
        made = shown("--running", "--admin", server.address)
    pending = "last reload applied; changed in the file, and need a restart: listen"
    assert made.output.splitlines()[:3] == [
        f"# generation 3, {pending}",
        f"# worker 2 has another configuration: generation 2, {pending}",
        "# topic orders: record.validation.policy json, from the topic's config",
    ]


def test_a_running_sidecar_is_not_asked_for_a_file(path: Path) -> None:
    made = shown("--running", "--config", str(path))
    assert (made.exit_code, "--running: asks a sidecar what it has loaded" in made.output) == (2, True)
