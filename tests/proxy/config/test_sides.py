"""What belongs together in the sections of the two sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError


@pytest.mark.parametrize(
    ("brokers", "problem"),
    [
        ("sasl: {mechanism: OAUTHBEARER, token_file: a}", "sasl is set, but not used: set security_protocol to SASL_"),
        ("security_protocol: SASL_SSL", "but sasl is not set: set sasl.mechanism and its credentials, or write SSL "),
        ("security_protocol: SASL_PLAINTEXT", "its credentials, or write PLAINTEXT where clients log in themselves"),
    ],
)
def test_the_protocol_and_the_credentials_belong_together(brokers: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\nbrokers: {{{brokers}}}\n")
    with pytest.raises(ConfigError, match=problem):
        load(path, {}, {})
