"""How the sidecar logs in, in our words and in Kafka's; secrets are nowhere but in files and variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.config.sasl import MODULES, ClientSasl, SecretError, parse_jaas, read_secret
from kafka_sidecar.proxy.config.tls import reject_inline

PLAIN, SCRAM, BEARER = MODULES
JAAS = "KAFKA_SIDECAR__BROKERS__SASL__JAAS_CONFIG"


def loaded(text: str, tmp_path: Path, **variables: str) -> Config:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\n{text}")
    return load(path, variables, {})


def test_kafkas_names_are_understood_at_the_top_of_the_file(tmp_path: Path) -> None:
    text = "security.protocol: SASL_SSL\nsasl.mechanism: SCRAM-SHA-512\n"
    config = loaded(text, tmp_path, **{JAAS: f'{SCRAM} required username="app" password="se\\"kret";'})
    assert (config.brokers.uses_sasl, config.brokers.uses_tls) == (True, True)
    assert config.brokers.sasl.options(("username", "password")) == {"username": "app", "password": 'se"kret'}


def test_the_names_of_oauth_are_understood_with_a_secret_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hush\n")
    text = (
        "brokers:\n  security_protocol: SASL_PLAINTEXT\n  sasl:\n    sasl.mechanism: OAUTHBEARER\n"
        "    sasl.oauthbearer.token.endpoint.url: https://idp/token\n    client_secret_file: secret\n"
        f"    sasl.jaas.config: {BEARER} required clientId=me scope='a b';\n"
    )
    sasl = loaded(text, tmp_path).brokers.sasl
    options = sasl.options(("client_id", "client_secret"))
    assert options == {"client_id": "me", "client_secret": "hush", "scope": "a b"}
    assert sasl.token_endpoint == "https://idp/token"


def test_a_secret_that_is_replaced_in_its_file_is_read_again(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one")
    text = f"security.protocol: SASL_SSL\nbrokers: {{sasl: {{mechanism: PLAIN, username: a, password_file: {secret}}}}}"
    sasl = loaded(text, tmp_path).brokers.sasl
    secret.write_text("two\r\n")
    assert sasl.options(("password",))["password"] == "two"


@pytest.mark.parametrize(
    ("sasl", "problem"),
    [
        (
            "mechanism: PLAIN, username: a, password: hush",
            "password: a secret is not written into this file; set the environment variable KAFKA_SIDECAR__BROKERS__",
        ),
        (
            "mechanism: PLAIN, sasl.jaas.config: 'x required password=hush;'",
            "jaas_config: a secret is not written into",
        ),
        ("sasl.mechanism: PLAIN, mechanism: PLAIN", "sasl.mechanism is the same setting as mechanism; remove one"),
        ("username: a", "username is set without mechanism: add it, such as SCRAM-SHA-512"),
        ("mechanism: PLAIN, username: a", "PLAIN needs username, and password or password_file"),
        ("mechanism: PLAIN, username: a, password_file: b, token_file: c", "token is not for PLAIN: remove it, or set"),
        ("mechanism: OAUTHBEARER", "OAUTHBEARER needs one of token_endpoint, token_file and token_provider"),
        ("mechanism: OAUTHBEARER, token_file: a, token_provider: b", "OAUTHBEARER needs one of token_endpoint,"),
        ("mechanism: OAUTHBEARER, token_endpoint: 'http://x'", "token_endpoint needs client_id, and client_secret or"),
        (
            "mechanism: OAUTHBEARER, token_endpoint: 'https://me:hush@idp/token', client_id: a, client_secret_file: b",
            "brokers.sasl.token_endpoint: write text that matches",
        ),
        ("mechanism: OAUTHBEARER, token_file: a, username: b", "username is not for OAUTHBEARER: remove it, or set"),
        ("mechanism: GSSAPI", "write 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512' or 'OAUTHBEARER'"),
        ("mechanism: PLAIN, jaas_config: 'y.Z required;'", "jaas_config: y.Z is not supported; use one of org.apache"),
        (
            f"mechanism: PLAIN, jaas_config: '{SCRAM} required;'",
            "is not for the mechanism PLAIN, but for SCRAM-SHA-256",
        ),
        (f"mechanism: PLAIN, jaas_config: '{PLAIN} required debug=true;'", "the option debug is not supported; use"),
        (f"mechanism: PLAIN, jaas_config: '{PLAIN} required username=a'", "is no login module with its options and a"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy_and_without_the_secret(sasl: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(f"brokers:\n  security_protocol: SASL_PLAINTEXT\n  sasl: {{{sasl}}}\n", tmp_path)
    assert problem in error.value.lines[0]
    assert "hush" not in str(error.value)


@pytest.mark.parametrize("secret", ["password", "client_secret", "jaas_config"])
def test_a_secret_of_the_environment_is_in_no_dump_of_the_configuration(secret: str, tmp_path: Path) -> None:
    text = {
        "password": "{mechanism: PLAIN, username: a}",
        "client_secret": "{mechanism: OAUTHBEARER, token_endpoint: 'http://x', client_id: a}",
        "jaas_config": "{mechanism: PLAIN}",
    }[secret]
    value = f'{PLAIN} required username="a" password="hush";' if secret == "jaas_config" else "hush"
    variable = f"KAFKA_SIDECAR__BROKERS__SASL__{secret.upper()}"
    config = loaded(f"security.protocol: SASL_SSL\nbrokers: {{sasl: {text}}}", tmp_path, **{variable: value})
    for shown in (repr(config), str(config.brokers.sasl), config.model_dump_json()):
        assert "hush" not in shown


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "cannot be read: No such file or directory; mount"), (b"\n", "is empty; write"), (b"\xff", "is not text")],
)
def test_a_file_without_a_secret_is_named(content: bytes | None, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SecretError, match=f"brokers.sasl.password_file: {file} {problem}"):
        read_secret(None, file, "brokers.sasl.password")


def test_a_secret_of_the_environment_needs_no_file() -> None:
    assert read_secret(SecretStr("hush"), None, "x") == "hush"
    assert read_secret(None, None, "x") is None


def test_only_text_of_the_environment_may_be_a_secret() -> None:
    reject_inline({"password": VariableText("hush"), "other": 1}, {"password": "password"})
    with pytest.raises(ValueError, match="password: a secret is not written into this file; set password_f") as error:
        reject_inline({"password": "hush"}, {"password": "password"})
    assert "hush" not in str(error.value)


def test_values_in_quotes_keep_spaces_semicolons_and_escaped_quotes() -> None:
    text = f"""{PLAIN} required username='a b' password="c;\\"d";"""
    assert parse_jaas(text, "PLAIN") == {"username": "a b", "password": 'c;"d'}


def test_the_options_of_oauth_have_the_names_of_our_settings() -> None:
    text = f"{BEARER} required\n  clientId=me\n  clientSecret='hush'\n  scope=\"a b\" ;\n"
    assert parse_jaas(text, "OAUTHBEARER") == {"client_id": "me", "client_secret": "hush", "scope": "a b"}


@pytest.mark.parametrize("text", ["", "hush", f"{PLAIN} required password=hush", f"{PLAIN} password=hush;"])
def test_what_is_no_login_module_is_an_error_that_does_not_quote_it(text: str) -> None:
    with pytest.raises(SecretError, match="is no login module") as error:
        parse_jaas(text, "PLAIN")
    assert "hush" not in str(error.value)


def test_kafkas_name_and_its_text_with_commas_are_understood() -> None:
    sasl = ClientSasl.model_validate({"sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-512", "users_file": "users"})
    assert sasl.mechanisms == ["PLAIN", "SCRAM-SHA-512"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"mechanisms": ["PLAIN"]}, "users_file is missing: PLAIN needs it"),
        ({"users_file": "a"}, "users_file is set, but mechanisms has neither"),
        ({"mechanisms": ["GSSAPI"], "users_file": "a"}, "Input should be 'PLAIN'"),
        ({"mechanisms": ["OAUTHBEARER"]}, "OAUTHBEARER needs jwks_file or jwks_endpoint, one of them"),
        ({"mechanisms": "OAUTHBEARER", "jwks_file": "a", "jwks_endpoint": "http://b"}, "one of them"),
        ({"expected_issuer": "a"}, "expected_issuer is set, but mechanisms has no OAUTHBEARER: add it"),
        ({"mechanisms": [], "sasl.enabled.mechanisms": []}, "is the same setting as mechanisms; remove one"),
    ],
)
def test_what_does_not_belong_together_is_an_error(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ClientSasl.model_validate(settings)


def test_a_text_is_no_section() -> None:
    with pytest.raises(ValidationError):
        ClientSasl.model_validate("PLAIN")
