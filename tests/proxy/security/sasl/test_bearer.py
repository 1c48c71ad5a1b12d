"""Tokens as credentials: which setting they come from, and when they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from harness.sasl import CLIENT_ID, CLIENT_SECRET, token_endpoint

from kafka_sidecar.proxy.config.sasl import BrokerSasl
from kafka_sidecar.proxy.security.sasl.bearer import Bearer
from kafka_sidecar.proxy.security.sasl.conversation import LoginError


def bearer(**settings: Any) -> Bearer:
    return Bearer(BrokerSasl.model_validate({"mechanism": "OAUTHBEARER", **settings}), "correct it")


async def test_a_token_file_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = bearer(token_file=file)
    file.write_text("two\n")
    assert next(await credentials.tokens()) == b"n,,\1auth=Bearer two\1\1"


async def test_a_token_of_an_endpoint_is_kept_for_later_logins(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET)
    with token_endpoint() as tokens:
        credentials = bearer(token_endpoint=tokens.url, client_id=CLIENT_ID, client_secret_file=secret)
        first = next(await credentials.tokens())
    assert next(await credentials.tokens()) == first  # nothing listens there now


async def test_a_token_file_that_is_gone_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    credentials = bearer(token_file=file)
    file.unlink()
    with pytest.raises(LoginError, match=rf"brokers\.sasl\.token_file: {file} cannot be read"):
        await credentials.tokens()
