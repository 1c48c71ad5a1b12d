"""Schema registries as configured: their addresses, logins and TLS; secrets are nowhere but in files and variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.registries import settings_of

URLS = "urls: http://registry:8081"


def loaded(entry: str, tmp_path: Path, name: str = "main", **variables: str) -> Config:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\nschema_registries:\n  {name}: {{{entry}}}\n")
    return load(path, variables, {})


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        ("http://registry:8081", ["http://registry:8081"]),
        ("http://registry", ["http://registry"]),
        ('"https://a:1/, https://b:2/apis/ccompat/v7/"', ["https://a:1", "https://b:2/apis/ccompat/v7"]),
        ('["http://[::1]:8081", "http://127.0.0.1:8081/contexts/:.team:"]', ["http://[::1]:8081", "http://127.0.0.1:8081/contexts/:.team:"]),
    ],
)  # fmt: skip
def test_addresses_are_a_list_or_text_with_commas(urls: str, expected: list[str], tmp_path: Path) -> None:
    config = loaded(f"urls: {urls}", tmp_path)
    assert config.schema_registries["main"].urls == expected


WRONG: list[tuple[str, str]] = [
    ("", "schema_registries.main.urls: is missing: set it in the file"),
    ("urls: []", "urls: name 1 to 16 addresses, such as http://registry:8081"),
    ("urls: registry:8081", "urls: write http://host:port or https://host:port in place of 'registry:8081'"),
    ("urls: 'ftp://a'", "in place of 'ftp://a'"),
    ("urls: 'http://a?x=y'", r"in place of 'http://a?x=y'"),
    ("urls: 'http://me:hush@a:1'", "in place of 'http://a:1'"),
    (f"{URLS}, kind: glue", "kind: write 'confluent' or 'apicurio'"),
    (f"{URLS}, url: x", "url: is not a setting; did you mean urls?"),
    (f"{URLS}, username: a", "username is set without password or password_file: add it"),
    (f"{URLS}, username: 'a:b', password_file: x", "username: write text that matches"),
    (f"{URLS}, password_file: x", "password is set without what it is for: add username or token_endpoint"),
    (
        f"{URLS}, username: a, password: hush",
        "set the environment variable KAFKA_SIDECAR__SCHEMA_REGISTRIES__MAIN__PASSWORD, or password_file to a file",
    ),
    (f"{URLS}, client_secret: hush", "client_secret: a secret is not written into this file"),
    (f"{URLS}, username: a, password_file: x, token_file: y", "username and token_file are both set"),
    (f"{URLS}, token_endpoint: 'http://idp'", "token_endpoint is set without client_id: add it"),
    (f"{URLS}, token_endpoint: 'http://idp', client_id: a", "token_endpoint is set without client_secret or client_se"),
    (f"{URLS}, token_endpoint: 'http://me:hush@idp'", "token_endpoint: write text that matches"),
    (f"{URLS}, token_file: x, scope: a", "scope is set without what it is for"),
    (f"{URLS}, ca: x", "ca is set, but no address in urls begins with https"),
    ("urls: 'https://a', key: x", "certificate is missing: name the file with the certificate of the key"),
    (
        f"{URLS}, headers: {{Authorization: hush}}",
        "Authorization is not set here: for a login set username",
    ),
    (f"{URLS}, headers: {{'a b': c}}", "'a b' is no header"),
    (f'{URLS}, headers: {{a: "b\\r\\nc"}}', "'a' is no header"),
    (f"{URLS}, context: 'a:b'", "context: write text that matches"),
    (f"{URLS}, timeout: 0s", "timeout: write more than 0"),
    (f"{URLS}, cache_size: 1", "cache_size: write 65536 or more"),
    (f"{URLS}, max_unknown_ids: 0", "max_unknown_ids: write 1 or more"),
]


@pytest.mark.parametrize(("entry", "problem"), WRONG, ids=[problem[:40] for _, problem in WRONG])
def test_a_mistake_names_the_key_and_the_remedy(entry: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(entry, tmp_path)
    assert problem in str(error.value)
    assert "schema_registries.main" in str(error.value)
    assert "hush" not in str(error.value)


def test_a_registry_needs_a_name_that_a_metric_can_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="write text that matches"):
        loaded(URLS, tmp_path, name='"a b"')


def test_an_entry_that_is_no_mapping_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    for text, problem in (
        (
            "schema_registries: http://a",
            r"write a mapping in the file, such as \{main: \{urls: http://registry:8081\}\}",
        ),
        ("schema_registries: {main: 'http://a'}", r"must be a mapping, such as \{urls: http://registry:8081\}"),
    ):
        path.write_text(f"bootstrap_servers: a:1\n{text}\n")
        with pytest.raises(ConfigError, match=problem):
            load(path, {}, {})


def test_secrets_may_be_in_the_environment(tmp_path: Path) -> None:
    variable = "KAFKA_SIDECAR__SCHEMA_REGISTRIES__MAIN__PASSWORD"
    config = loaded(f"{URLS}, username: app", tmp_path, **{variable: "hush"})
    settings = settings_of("main", config.schema_registries["main"])
    assert dict(settings.login) == {"username": "app", "password": "hush"}
    assert "hush" not in f"{config} {settings}"


def test_a_secret_may_not_be_given_twice(tmp_path: Path) -> None:
    variable = "KAFKA_SIDECAR__SCHEMA_REGISTRIES__MAIN__PASSWORD"
    with pytest.raises(ConfigError, match="password and password_file are both set"):
        loaded(f"{URLS}, username: app, password_file: x", tmp_path, **{variable: "hush"})


def test_files_are_relative_to_the_configuration(tmp_path: Path) -> None:
    config = loaded("urls: 'https://a', ca: ca.pem, token_file: token", tmp_path)
    settings = settings_of("main", config.schema_registries["main"])
    assert settings.tls == (("ca", str(tmp_path / "ca.pem")),)
    assert settings.login == (("token_file", str(tmp_path / "token")),)


def test_what_is_configured_is_what_the_registry_has(tmp_path: Path) -> None:
    entry: dict[str, Any] = {
        "context": ".team", "timeout": "1s", "max_response": "1MiB", "cache_size": "8MiB", "subjects_ttl": "1m",
        "missing_ttl": "2s", "failure_ttl": "3s", "max_unknown_ids": 4, "headers": "{a: b}", "kind": "apicurio",
    }  # fmt: skip
    text = ", ".join(f"{name}: {value}" for name, value in entry.items())
    settings = settings_of("other", loaded(f"{URLS}, {text}", tmp_path).schema_registries["main"])
    assert (settings.name, settings.kind, settings.context, settings.headers) == (
        "other", "apicurio", ".team", (("a", "b"),),
    )  # fmt: skip
    assert (settings.timeout_s, settings.max_bytes, settings.cache_bytes) == (1, 1 << 20, 8 << 20)
    assert (settings.subjects_ttl_s, settings.missing_ttl_s, settings.failure_ttl_s) == (60, 2, 3)
    assert settings.unknown_ids_per_s == 4
