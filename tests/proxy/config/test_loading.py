"""The configuration: a valid one loads, an invalid one gives one line with file, key and remedy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.commands import CliRunner

from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError

FULL = """
bootstrap_servers: [kafka-1:9092, "[::1]:9093"]
listen: 127.0.0.1:19092
nodes: {advertised_host: localhost, first_port: 20000, ports: 10}
connections: {connect_timeout: 1m30s, drain_timeout: 500ms, max_frame: 64KiB, window: 4096}
admin: {listen: 127.0.0.1:9999}
log: {level: debug}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sidecar.yaml"
    path.write_text(text)
    return path


def test_a_full_file_loads(tmp_path: Path) -> None:
    config = load(written(tmp_path, FULL), {}, {})
    assert config.bootstrap_servers == ["kafka-1:9092", "[::1]:9093"]
    assert (config.advertised_host, config.first_node_port, config.nodes.ports) == ("localhost", 20000, 10)
    assert (config.connections.connect_timeout, config.connections.drain_timeout) == (90.0, 0.5)
    assert (config.connections.max_frame, config.connections.window) == (65536, 4096)


def test_flags_alone_are_enough() -> None:
    config = load(None, {}, {"bootstrap_servers": "a:1, b:2", "listen": "127.0.0.1:19092"})
    assert config.bootstrap_servers == ["a:1", "b:2"]
    assert config.first_node_port == 19093


@pytest.mark.parametrize(
    ("server", "listen", "is_own"),
    [
        ("127.0.0.1:19092", "127.0.0.1:19092", True),
        ("localhost:19100", "127.0.0.1:19092", True),
        ("127.0.0.1:19092", "0.0.0.0:19092", True),
        ("10.0.0.1:19092", "10.0.0.1:19092", True),
        ("127.0.0.1:9092", "127.0.0.1:19092", False),
        ("10.0.0.2:19092", "10.0.0.1:19092", False),
    ],
)
def test_a_bootstrap_server_that_is_plainly_the_sidecar_itself_is_a_mistake(
    tmp_path: Path, server: str, listen: str, is_own: bool
) -> None:
    path = written(tmp_path, f"listen: {listen}\nnodes: {{advertised_host: h}}\nbootstrap_servers: a:1,{server}")
    if not is_own:
        assert load(path, {}, {}).bootstrap_servers == ["a:1", server]
        return
    with pytest.raises(ConfigError) as error:
        load(path, {}, {})
    assert str(error.value) == (
        f"{path}:3: bootstrap_servers: {server} is this sidecar itself: it listens at port 19092 and, for brokers, "
        "19093 to 19192; name brokers, or choose another listen"
    )


def test_the_kafka_name_of_bootstrap_servers_is_accepted(tmp_path: Path) -> None:
    assert load(written(tmp_path, "bootstrap.servers: a:1"), {}, {}).bootstrap_servers == ["a:1"]


@pytest.mark.parametrize(
    "text",
    [
        "interceptor.classes: acme.A, acme.B",
        "interceptor.classes: [acme.A, acme.B]",
        "interceptors: [acme.A, acme.B]",
        "interceptors: [acme.A, {type: acme.B}]",
    ],
)
def test_interceptors_may_be_a_list_of_class_names_as_in_kafka(text: str, tmp_path: Path) -> None:
    config = load(written(tmp_path, f"bootstrap_servers: a:1\n{text}"), {}, {})
    assert [(one.type, one.name, one.topics) for one in config.interceptors] == [
        ("acme.A", None, ["*"]), ("acme.B", None, ["*"]),
    ]  # fmt: skip


def test_no_interceptors_are_the_default_as_in_kafka(tmp_path: Path) -> None:
    assert load(written(tmp_path, "bootstrap_servers: a:1"), {}, {}).interceptors == []
    assert load(written(tmp_path, "bootstrap_servers: a:1\ninterceptor.classes: ''"), {}, {}).interceptors == []


def test_variables_win_over_the_file_and_flags_over_variables(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    variables = {
        "KAFKA_SIDECAR__LISTEN": "127.0.0.1:1",
        "KAFKA_SIDECAR__CONNECTIONS__CONNECT_TIMEOUT": "2s",
        "KAFKA_SIDECAR__LOG__LEVEL": "warning",
    }
    config = load(path, variables, {"listen": "127.0.0.1:2", "log.level": None})
    assert (config.listen, config.connections.connect_timeout, config.log.level) == ("127.0.0.1:2", 2.0, "warning")


def test_a_flag_and_a_variable_win_over_the_kafka_name_of_a_setting(tmp_path: Path) -> None:
    path = written(tmp_path, "bootstrap.servers: a:1")
    assert load(path, {"KAFKA_SIDECAR__BOOTSTRAP_SERVERS": "b:2"}, {}).bootstrap_servers == ["b:2"]
    assert load(path, {}, {"bootstrap_servers": "c:3"}).bootstrap_servers == ["c:3"]


def test_variables_are_text_and_not_yaml() -> None:
    variables = {
        "KAFKA_SIDECAR__BOOTSTRAP_SERVERS": "[::1]:9092,b:2",
        "KAFKA_SIDECAR__LISTEN": "[::1]:19092",
        "KAFKA_SIDECAR__NODES__ADVERTISED_HOST": "on",
        "KAFKA_SIDECAR__NODES__PORTS": "7",
        "KAFKA_SIDECAR__CONNECTIONS__WINDOW": "64KiB",
    }
    config = load(None, variables, {})
    assert (config.bootstrap_servers, config.listen) == (["[::1]:9092", "b:2"], "[::1]:19092")
    assert (config.advertised_host, config.nodes.ports, config.connections.window) == ("on", 7, 65536)


def test_a_section_whose_settings_are_all_commented_out_has_its_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, "bootstrap_servers: a:1\nnodes:\n  # ports: 3\n")
    assert load(path, {}, {}).nodes.ports == 100
    assert load(path, {"KAFKA_SIDECAR__NODES__PORTS": "3"}, {}).nodes.ports == 3


BAD = {
    "listne: 127.0.0.1:1": ("listne", "is not a setting; did you mean listen? known here: admin"),
    "nodes: {port: 3}": (
        "nodes.port",
        "is not a setting; did you mean ports? known here: advertised_host, first_port, ports",
    ),
    "listen: 9092": ("listen", "write host:port"),
    "listen: 127.0.0.1:99999": ("listen", "write host:port"),
    "connections: {connect_timeout: 5}": ("connections.connect_timeout", "write a duration with its unit"),
    "connections: {connect_timeout: 5 parsecs}": ("connections.connect_timeout", "write a duration with its unit"),
    "connections: {max_frame: lots}": ("connections.max_frame", "write a number of bytes"),
    "log: {level: loud}": ("log.level", "write 'debug', 'info', 'warning' or 'error'"),
    "log: {level: warn}": ("log.level", "did you mean warning? write 'debug', 'info', 'warning' or 'error'"),
    "authorization: {rules: [{topics: [a], operations: [reed]}]}": (
        "authorization.rules (entry 1).operations (entry 1)",
        "did you mean read? write ",
    ),
    "brokers: {security_protocol: SASL_SLL}": ("brokers.security_protocol", "did you mean SASL_SSL? write "),
    "nodes: [1]": ("nodes", "must be a mapping of settings"),
    "nodes: {first_port: 0}": ("nodes.first_port", "write 1 or more"),
    "listen: 0.0.0.0:9092": ("", "set nodes.advertised_host"),
    "bootstrap_servers: []": ("bootstrap_servers", "name at least one broker"),
    "bootstrap_servers: http://kafka:9092": ("bootstrap_servers", "write host:port"),
    "bootstrap_servers: kafka..internal:9092": ("bootstrap_servers", "write host:port"),
    "bootstrap_servers: kafka:0": ("bootstrap_servers", "write a port from 1 to 65535"),
    "bootstrap_servers: 9092": ("bootstrap_servers", "name at least one broker"),
    "listen: 127.0.0.1:0": ("listen", "write a port from 1 to 65535"),
    "listen: 127.0.0.1:65535": ("", "lower nodes.first_port or nodes.ports"),
    "nodes: {first_port: 65500}": ("", "node ports 65500 to 65599 end above 65535"),
    "connections: {connect_timeout: 0s}": ("connections.connect_timeout", "write more than 0"),
    "connections: {max_frame: 0}": ("connections.max_frame", "write 1024 or more"),
    "topics: [{name: a}, {name: b, percent: 150}]": ("topics (entry 2).percent", "write 100 or less"),
    "topics: [{policy: json}]": ("topics (entry 1).name", "is missing: set it in the file"),
    "topics: [orders]": ("topics (entry 1)", "must be a mapping, such as {name: orders}"),
    "interceptors: [3]": ("interceptors (entry 1)", "must be a mapping, such as {type: latency}"),
    "interceptors: [{name: a}]": ("interceptors (entry 1).type", "is missing: set it in the file"),
    "policies: {mine: json}": ("policies.mine", "must be a mapping, such as {type: json}"),
    "topic_configs: {replication_factor: 0}": ("topic_configs.replication_factor", "write a number above 0, or -1"),
    "topic_configs: {topic: a b}": ("topic_configs.topic", "write the name of a topic"),
    "cluster: {refresh: 0s}": ("cluster.refresh", "write more than 0"),
}


@pytest.mark.parametrize("text", BAD)
def test_an_invalid_setting_gives_one_line_with_file_key_and_remedy(text: str, tmp_path: Path) -> None:
    key, remedy = BAD[text]
    head = "" if text.startswith("bootstrap") else "bootstrap_servers: a:1\n"
    path = written(tmp_path, head + text)
    with pytest.raises(ConfigError) as error:
        load(path, {}, {})
    line = str(error.value)
    number = 1 if text.startswith("bootstrap") else 2
    assert line.startswith(f"{path}:{number}: {key}: " if key else f"{path}: ")
    assert remedy in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("- a\n- b", "must be a mapping"),
        ("a: [", "is not YAML"),
        ("a: \x00", "is not YAML"),
        ("a: [", "at line 1, column"),
        ("a:\n\t- b", "indent with spaces"),
        ("", "bootstrap_servers: is missing"),
    ],
)
def test_a_file_that_is_not_a_configuration_gives_one_line(text: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(written(tmp_path, text), {}, {})
    assert remedy in str(error.value)
    assert "\n" not in str(error.value)


def test_a_mode_may_be_off_without_quotes_though_yaml_reads_it_as_false(tmp_path: Path) -> None:
    text = "bootstrap_servers: a:1\ntopics: [{name: a, mode: off}, {name: b, mode: 'off'}]"
    assert [topic.mode for topic in load(written(tmp_path, text), {}, {}).topics] == ["off", "off"]


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: cannot be read: No such file"):
        load(Path("nowhere.yaml"), {}, {})


def test_an_invalid_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="environment variable KAFKA_SIDECAR__LISTEN: listen: write host:port"):
        load(None, {"KAFKA_SIDECAR__LISTEN": "here"}, {"bootstrap_servers": "a:1"})


def test_an_invalid_flag_is_named() -> None:
    with pytest.raises(ConfigError, match="flag --bootstrap-servers: bootstrap_servers: write host:port"):
        load(None, {}, {"bootstrap_servers": "nowhere"})


@pytest.mark.parametrize("name", ["KAFKA_SIDECAR__NODES", "KAFKA_SIDECAR__LISTEN__PORT", "KAFKA_SIDECAR__NODES__PORT"])
def test_a_variable_without_a_setting_is_named(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, {name: "[1"}, {"bootstrap_servers": "a:1"})
    assert name in str(error.value)
    assert "\n" not in str(error.value)


FLAGS = {
    "bootstrap_servers": "--bootstrap-servers",
    "listen": "--listen",
    "admin.listen": "--admin",
    "nodes.advertised_host": "--advertised-host",
    "connections.source_address": "--broker-source-address",
    "log.level": "--log-level",
}


@pytest.mark.parametrize("key", FLAGS)
def test_an_invalid_flag_is_named_as_the_user_wrote_it(key: str) -> None:
    with pytest.raises(ConfigError, match=f"flag {FLAGS[key]}: {key}: "):
        load(None, {}, {"bootstrap_servers": "a:1", key: 7})
    assert FLAGS[key] in CliRunner().invoke(app, ["run", "--help"]).output


def defaults(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for part in [schema, *schema["$defs"].values()]:
        yield from ((name, field) for name, field in part["properties"].items() if "default" in field)


def test_every_default_in_the_schema_is_valid_there() -> None:
    schema = json.loads(CliRunner().invoke(app, ["config", "schema"]).output)
    fields = dict(defaults(schema))
    assert {"connect_timeout", "max_frame", "listen", "level"} <= fields.keys()
    for field in fields.values():
        Draft202012Validator({**field, "$defs": schema["$defs"]}).validate(field["default"])


def test_validate_accepts_a_valid_file_and_names_the_error_of_another(tmp_path: Path) -> None:
    good, bad = written(tmp_path, FULL), tmp_path / "bad.yaml"
    bad.write_text("bootstrap_servers: a:1\nlistne: a:1")
    assert CliRunner().invoke(app, ["validate", str(good)]).output == f"{good}: valid\n"
    rejected = CliRunner().invoke(app, ["validate", str(bad)])
    assert rejected.exit_code == 2
    assert rejected.output.count("\n") == 1
