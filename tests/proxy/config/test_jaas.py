"""Kafka's `sasl.jaas.config`, read as Kafka reads it."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.config.jaas import MODULES, parse_jaas
from kafka_sidecar.proxy.config.secrets import SecretError

PLAIN, SCRAM, BEARER = MODULES


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
