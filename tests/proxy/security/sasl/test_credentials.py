"""Credentials from the configuration: opened at the start, read for each login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar.proxy.config.sasl import BrokerSasl
from kafka_sidecar.proxy.security.sasl.broker_logins import open_credentials
from kafka_sidecar.proxy.security.sasl.conversation import Credentials, LoginError


def opened(**settings: Any) -> Credentials:
    found = open_credentials(BrokerSasl.model_validate(settings))
    assert found is not None
    return found


def test_without_a_mechanism_there_are_none() -> None:
    assert open_credentials(BrokerSasl()) is None


async def test_a_password_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("one")
    credentials = opened(mechanism="PLAIN", username="app", password_file=file)
    file.write_text("two")
    assert next(await credentials.tokens()) == b"\0app\0two"
    file.unlink()
    with pytest.raises(LoginError, match=rf"brokers\.sasl\.password_file: {file} cannot be read"):
        await credentials.tokens()


async def test_every_scram_login_has_a_nonce_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("one")
    credentials = opened(mechanism="SCRAM-SHA-256", username="app", password_file=tmp_path / "password")
    firsts = {next(await credentials.tokens()) for _ in range(3)}
    assert len(firsts) == 3
    assert all(first.startswith(b"n,,n=app,r=") for first in firsts)


def test_what_to_correct_names_files_and_settings_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hush")
    credentials = opened(mechanism="PLAIN", username="app", password_file=tmp_path / "password")
    expected = f"correct brokers.sasl (username app, password_file {tmp_path}/password), or what the brokers accept"
    assert credentials.remedy == expected
