"""Secrets are read from files and variables; a file without one is an error with its name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from kafka_sidecar.plugins.remedies import VariableText
from kafka_sidecar.proxy.config.secrets import SecretError, read_secret, reject_inline


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
    reject_inline({"password": VariableText("hush"), "other": 1}, {"password": "password"}, ("brokers", "sasl"))
    with pytest.raises(
        ValueError, match="set the environment variable KAFKA_SIDECAR__BROKERS__SASL__PASSWORD"
    ) as error:
        reject_inline({"password": "hush"}, {"password": "password"}, ("brokers", "sasl"))
    assert "hush" not in str(error.value)
