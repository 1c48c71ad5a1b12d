"""All mistakes of a configuration are reported at once, each with its line and the remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commands import CliRunner

from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError, find_dead_entries
from kafka_sidecar.proxy.features.compose import find_mistakes


def lines_of(folder: Path, text: str, command: tuple[str, ...] = ("validate",)) -> list[str]:
    """What is printed for a file, without the program's name and the folder."""
    path = folder / "sidecar.yaml"
    path.write_text(text)
    result = CliRunner().invoke(app, [*command, str(path)])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return [line.removeprefix(f"kafka-sidecar: {folder}/") for line in result.stderr.splitlines()]


MANY = """\
bootstrap_servers: 127.0.0.1
listen: 127.0.0.1:99999
foo: 1
policies:
  mine: {type: jso}
  depth:
    type: json
    max_depth: deep
    allow_nul: true
topics:
  - {name: orders, policy: depth}
  - name: payments
    policy: key
    percent: 700
interceptors:
  - {type: latency, topic: [a]}
  - {type: nowhere}
"""


@pytest.mark.parametrize("command", [("validate",), ("run", "--config")])
def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(command: tuple[str, ...], tmp_path: Path) -> None:
    starts = [
        "sidecar.yaml:1: bootstrap_servers: write host:port",
        "sidecar.yaml:2: listen: write host:port",
        "sidecar.yaml:3: foo: is not a setting; known here: admin",
        "sidecar.yaml:5: policies.mine: unknown policy 'jso': did you mean json? set its t",
        "sidecar.yaml:8: policies.depth.max_depth: write a whole number",
        "sidecar.yaml:9: policies.depth.allow_nul: is not a setting; did you mean allow_null? the settings are part",
        "sidecar.yaml:14: topics (entry 2).percent: write 100 or less",
        "sidecar.yaml:16: interceptors (entry 1).topic: is not a setting",
        "sidecar.yaml:17: interceptors (entry 2): unknown interceptor 'nowhere'",
    ]
    lines = lines_of(tmp_path, MANY, command)
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


def test_a_topic_that_names_an_invalid_policy_is_not_a_second_mistake(tmp_path: Path) -> None:
    text = "bootstrap_servers: a:1\npolicies: {m: {type: jso}}\ntopics: [{name: a, policy: m}, {name: b, policy: n}]"
    assert [line.split(": ")[1] for line in lines_of(tmp_path, text)] == ["policies.m", "topics (entry 2).policy"]


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        (
            "interceptors: [{type: mask_field, topics: payments}, {type: latncy}]",
            [
                "interceptors (entry 1).topics: write a list",
                "interceptors (entry 1): unknown interceptor 'mask_field': did you mean mask_fields?",
                "interceptors (entry 2): unknown interceptor 'latncy'",
            ],
        ),
        (
            "interceptors: [{type: mask_fields, topics: a, feilds: [b]}]",
            ["interceptors (entry 1).topics: write a list", "interceptors (entry 1).feilds: is not a setting"],
        ),
        (
            "policies: {m: {type: jso, on_error: no}}",
            ["policies.m.on_error: write 'closed' or 'open'", "policies.m: unknown policy 'jso'"],
        ),
        (
            "topics: [{name: a, policy: jso, mode: on}, {name: 7, policy: jsn}]",
            [
                "topics (entry 1).mode: write",
                "topics (entry 2).name: write text",
                "topics (entry 1).policy: unknown policy 'jso'",
                "topics (entry 2).policy: unknown policy 'jsn'",
            ],
        ),
        # Without what is wrong, nothing is known of the rest.
        ("interceptors: [{type: 7, topic: a}]", ["interceptors (entry 1).type: write text"]),
        ("policies: {m: {type: 7, x: 1}}\ntopics: [{name: a, policy: n}]", ["policies.m.type: write text"]),
        ("interceptors: [7, {type: latncy}]", ["interceptors (entry 1): must be a mapping"]),
    ],
)
def test_all_mistakes_of_one_entry_are_reported_in_one_run(text: str, starts: list[str], tmp_path: Path) -> None:
    lines = [line.partition(": ")[2] for line in lines_of(tmp_path, f"bootstrap_servers: a:1\n{text}")]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts


@pytest.mark.parametrize("section", ["topics: [{name: a, policy: jso}]", "interceptors: [{type: jso}]"])
def test_a_variable_that_names_an_entry_of_a_list_is_a_mistake_beside_others(section: str, tmp_path: Path) -> None:
    (path := tmp_path / "sidecar.yaml").write_text(f"bootstrap_servers: a:1\n{section}")
    name = section.partition(":")[0]
    with pytest.raises(ConfigError, match=f"{name} is not a section; .*unknown .* 'jso'"):
        load(path, {f"KAFKA_SIDECAR__{name.upper()}__0__NAME": "x"}, {}, find_mistakes)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (
            "schema_registries: {url: 'http://r:8081'}",
            "schema_registries.url: a name is missing between schema_registries and url: write {main: {urls: http://re",
        ),
        ("policies: {type: json}", "a name is missing between policies and type: write {orders-json: {type: json}}"),
        ("schema_registries: {main: 'http://r'}", "main: must be a mapping, such as {urls: http://registry:8081}"),
        (
            "schema_registries: {our-own: {urls: 'http://r', username: u, password: p}}",
            "our-own: password: a secret is not written into this file; set password_file to a file with it",
        ),
        ("nodes: {ports: '7'}", "nodes.ports: write a whole number"),
        ("nodes: {ports: true}", "nodes.ports: write a whole number"),
        ("nodes: {ports: 1.5}", "nodes.ports: write a whole number"),
        ("topics: {name: orders}", "topics: write a list in the file, such as [{name: orders, policy: json}]"),
        ("policies: [json]", "policies: write a mapping in the file, such as {orders-json: {type: json}}"),
        ("topics: [{name: a, mode: on}]", "topics (entry 1).mode: write 'enforce', 'shadow' or 'off'"),
        ("topics: [{name: '', policy: json}]", "topics (entry 1).name: is empty: write it, or remove the key"),
        ("topics: [{name: a, policy: ''}]", "topics (entry 1).policy: is empty: write it, or remove the key"),
        ("topics: [{name: 7}]", "topics (entry 1).name: write text, in quotes if it looks like a number"),
        ("nodes: {advertised_host: [a]}", "nodes.advertised_host: write text"),
        ("interceptors: [{type: latency, topics: a}]", "interceptors (entry 1).topics: write a list, such as [a, b]"),
        ("policies: {json: {unique_keys: 'yes'}}", "policies.json.unique_keys: write true or false"),
        (
            'topics: [{name: a, policy: "cel:value.a in [1,2]"}]',
            """an argument with a comma is put in double quotes: 'cel:"value.a in [1,2]"'""",
        ),
    ],
)
def test_a_wrong_value_is_reported_with_its_remedy(text: str, remedy: str, tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, f"bootstrap_servers: a:1\n{text}")
    assert remedy in line


def test_the_remedy_for_an_argument_with_a_comma_works(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("""bootstrap_servers: a:1\ntopics: [{name: a, policy: 'cel:"value.a in [1,2]"'}]""")
    assert CliRunner().invoke(app, ["validate", str(path)]).exit_code == 0


def test_an_empty_key_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: a:1\ntopics:\npolicies:\nnodes: {ports: }\nlisten:\ninterceptors:\n")
    config = load(path, {}, {})
    assert (config.topics, config.policies, config.interceptors) == ([], {}, [])
    assert (config.nodes.ports, config.listen) == (100, "127.0.0.1:19092")


@pytest.mark.parametrize("given_path", ["plugins", "plugins/*", ".", "/opt", os.pathsep.join(["plugins", "/opt"])])
def test_class_paths_are_relative_to_the_file(given_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "sidecar.yaml").write_text(
        f"bootstrap_servers: a:1\npolicies: {{p: {{type: 'm:C', class_path: '{given_path}'}}}}\n"
        f"interceptors: [{{type: 'm:C', class_path: '{given_path}'}}]\nvalidation: {{class_path: '{given_path}'}}\n"
    )
    monkeypatch.chdir(tmp_path)
    config = load(Path("conf/sidecar.yaml"), {}, {})
    wanted = os.pathsep.join(str(Path("conf") / part) for part in given_path.split(os.pathsep))
    assert {config.policies["p"].class_path, config.interceptors[0].class_path} == {wanted}
    assert config.validation.class_path == wanted


@pytest.mark.parametrize(
    ("names", "dead"),
    [
        (["orders", "orders"], [1]),
        (["orders*", "orders-eu"], [1]),
        (["orders*", "orders-*-eu", "orders-?"], [1, 2]),
        (["*", "a", "b*"], [1, 2]),
        (["a?", "ab", "a*"], [1]),
        (["orders-eu", "orders*", "payments"], []),
        (["?", "*"], []),
        (["a*b", "a*"], []),
        (["[ab]", "a", "[*", "[b]"], [3]),
    ],
)
def test_an_entry_that_an_earlier_one_covers_is_a_mistake(names: list[str], dead: list[int]) -> None:
    assert [mistake.location for mistake in find_dead_entries(names)] == [("topics", index, "name") for index in dead]


SYMBOLS = st.text("ab*?", min_size=1, max_size=4)


@given(st.lists(SYMBOLS, max_size=4), st.text("ab", max_size=6))
def test_no_topic_has_an_entry_that_is_reported_as_never_applying(names: list[str], topic: str) -> None:
    dead = {mistake.location[1] for mistake in find_dead_entries(names)}
    first = next((index for index, name in enumerate(names) if matches(topic, [name])), None)
    assert first not in dead


NO_TOPICS = ("^orders-[0-9]+$", "orders,payments", "orders-{eu,us}", "x y", "orders/*", "öre", "..", "a" * 250, "o\n")
TOPIC_SETTINGS = (
    "topics: [{{name: {}, policy: json}}]",
    "interceptors: [{{type: latency, topics: [{}]}}]",
    "large_messages: {{topics: [{{name: {}}}]}}",
    "audit: {{topic: audit, topics: [{}]}}",
    "audit: {{topic: audit, exclude_topics: [{}]}}",
    "authorization: {{rules: [{{topics: [{}]}}]}}",
)


@pytest.mark.parametrize("setting", TOPIC_SETTINGS)
@pytest.mark.parametrize("pattern", NO_TOPICS)
def test_a_pattern_that_no_topic_can_match_is_a_mistake_in_every_setting(
    setting: str, pattern: str, tmp_path: Path
) -> None:
    (line,) = lines_of(tmp_path, f"bootstrap_servers: a:1\n{setting.format(json.dumps(pattern))}")
    assert line.startswith("sidecar.yaml:2: ")
    assert "no topic can match" in line
    assert "*" in line


@pytest.mark.parametrize("setting", TOPIC_SETTINGS)
@pytest.mark.parametrize("pattern", ["*", "orders.*", "?" * 249, "__*", "A_b-c.9", "*" * 300])
def test_a_pattern_that_some_topic_can_match_is_valid(setting: str, pattern: str, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\n{setting.format(json.dumps(pattern))}")
    load(path, {}, {})


PRINCIPAL_SETTINGS = (
    "authorization: {{rules: [{{topics: [a], principals: [{}]}}]}}",
    "authorization: {{super_users: [{}]}}",
    "brokers: {{logins: [{{principals: [{}], mechanism: PLAIN, username: a, password_file: p}}]}}",
)


@pytest.mark.parametrize("setting", PRINCIPAL_SETTINGS)
@pytest.mark.parametrize(
    ("principal", "remedy"),
    [
        ("alice", "did you mean 'User:alice'?"),
        ("user:alice", "did you mean 'User:alice'?"),
        ("Group:admins", "principals are users"),
        ("alice*", "did you mean 'User:alice*'?"),
    ],
)
def test_a_principal_that_no_client_can_be_is_a_mistake(
    setting: str, principal: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "p").write_text("secret")
    (line, *_) = lines_of(tmp_path, f"bootstrap_servers: a:1\n{setting.format(json.dumps(principal))}")
    assert "no client can be" in line
    assert remedy in line


@pytest.mark.parametrize("principal", ["User:alice", "User:*", "*", "Us*", "*alice", "????:a", "User:CN=app [prod]"])
def test_a_principal_that_a_client_can_be_is_valid(principal: str, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\n{PRINCIPAL_SETTINGS[0].format(json.dumps(principal))}")
    load(path, {}, {})


def test_a_flag_is_named_as_it_is_written() -> None:
    printed = CliRunner().invoke(app, ["run", "--bootstrap-servers", "a:1", "--log-format", "yaml"])
    assert printed.exit_code == 2
    assert "flag --log-format: log.format: write 'auto', 'json' or 'text'" in printed.output


def test_super_users_are_no_patterns(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, "bootstrap_servers: a:1\nauthorization: {super_users: ['User:*']}")
    assert "add a rule for User:*" in line


@pytest.mark.parametrize("command", ["validate", "run"])
def test_validate_and_run_refuse_the_same_pattern(command: str, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text("bootstrap_servers: a:1\ntopics: [{name: '*'}, {name: 'a,b', policy: json}]")
    result = CliRunner().invoke(app, [command, *([] if command == "validate" else ["--config"]), str(path)])
    assert result.exit_code == 2
    assert result.output.count("topics (entry 2)") == 1, "the placeholder of an invalid entry is no entry"
