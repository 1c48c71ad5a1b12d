"""Secrets in settings of plug-ins are not shown."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.telemetry.readable import HIDDEN, hide_secrets


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "ssl.keystore.passphrase",
        "client_secret",
        "token",
        "api-key",
        "AUTHORIZATION",
        "sasl.jaas.config",
        "salt",
    ],
)
def test_a_setting_that_is_named_like_a_secret_is_hidden_at_any_depth(name: str) -> None:
    assert hide_secrets({"registry": [{name: "s3cret", "url": "http://a"}]}) == {
        "registry": [{name: HIDDEN, "url": "http://a"}]
    }


def test_a_secret_that_is_not_set_is_shown_as_such() -> None:
    assert hide_secrets({"password": None}) == {"password": None}


@pytest.mark.parametrize("name", ["key", "max_key_bytes", "allow_null", "header", "pattern"])
def test_ordinary_settings_are_shown(name: str) -> None:
    assert hide_secrets({name: "x"}) == {name: "x"}


def test_user_and_password_in_a_url_are_hidden() -> None:
    assert hide_secrets("http://me:pw@registry:8081/x") == f"http://{HIDDEN}@registry:8081/x"


def test_other_values_are_shown_as_json_has_them() -> None:
    assert hide_secrets({1: (True, 2.5, None), "of": frozenset(["a"]), "bytes": b"x"}) == {
        "1": [True, 2.5, None], "of": ["a"], "bytes": "b'x'",
    }  # fmt: skip
