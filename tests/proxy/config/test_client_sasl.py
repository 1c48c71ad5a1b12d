"""How clients log in to the sidecar: which mechanisms, and what each needs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from kafka_sidecar.proxy.config.client_sasl import ClientSasl


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
