"""The configuration: good ones load, bad ones give one line with file, key and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.config import ConfigError, load

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


def test_the_kafka_name_of_bootstrap_servers_is_understood(tmp_path: Path) -> None:
    assert load(written(tmp_path, "bootstrap.servers: a:1"), {}, {}).bootstrap_servers == ["a:1"]


def test_variables_win_over_the_file_and_flags_over_variables(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    variables = {
        "KAFKA_SIDECAR__LISTEN": "127.0.0.1:1",
        "KAFKA_SIDECAR__CONNECTIONS__CONNECT_TIMEOUT": "2s",
        "KAFKA_SIDECAR__LOG__LEVEL": "warning",
    }
    config = load(path, variables, {"listen": "127.0.0.1:2", "log.level": None})
    assert (config.listen, config.connections.connect_timeout, config.log.level) == ("127.0.0.1:2", 2.0, "warning")


BAD = {
    "listne: 127.0.0.1:1": ("listne", "is not a setting; known here: admin"),
    "nodes: {port: 3}": ("nodes.port", "is not a setting; known here: advertised_host, first_port, ports"),
    "listen: 9092": ("listen", "write host:port"),
    "listen: 127.0.0.1:99999": ("listen", "write host:port"),
    "connections: {connect_timeout: 5}": ("connections.connect_timeout", "write a duration with its unit"),
    "connections: {connect_timeout: 5 parsecs}": ("connections.connect_timeout", "write a duration with its unit"),
    "connections: {max_frame: lots}": ("connections.max_frame", "write a number of bytes"),
    "log: {level: loud}": ("log.level", "'debug', 'info', 'warning' or 'error'"),
    "nodes: [1]": ("nodes", "valid dictionary"),
    "nodes: {first_port: 0}": ("nodes.first_port", "greater than or equal to 1"),
    "listen: 0.0.0.0:9092": ("", "set nodes.advertised_host"),
    "bootstrap_servers: []": ("bootstrap_servers", "name at least one broker"),
}


@pytest.mark.parametrize("text", BAD)
def test_a_wrong_setting_gives_one_line_with_file_key_and_remedy(text: str, tmp_path: Path) -> None:
    key, remedy = BAD[text]
    head = "" if text.startswith("bootstrap") else "bootstrap_servers: a:1\n"
    path = written(tmp_path, head + text)
    with pytest.raises(ConfigError) as error:
        load(path, {}, {})
    line = str(error.value)
    assert line.startswith(f"{path}: {key}")
    assert remedy in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("- a\n- b", "must be a mapping"),
        ("a: [", "is not YAML"),
        ("a: \x00", "is not YAML"),
        ("", "bootstrap_servers is missing"),
    ],
)
def test_a_file_that_is_no_configuration_gives_one_line(text: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(written(tmp_path, text), {}, {})
    assert remedy in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml: cannot be read: No such file"):
        load(Path("nowhere.yaml"), {}, {})


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="environment variable KAFKA_SIDECAR__LISTEN: listen: write host:port"):
        load(None, {"KAFKA_SIDECAR__LISTEN": "here"}, {"bootstrap_servers": "a:1"})


def test_a_wrong_flag_is_named() -> None:
    with pytest.raises(ConfigError, match="flag --bootstrap-servers: bootstrap_servers: write host:port"):
        load(None, {}, {"bootstrap_servers": "nowhere"})
