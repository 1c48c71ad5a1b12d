"""Which user of the brokers a client becomes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.in_process import config

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.security.sasl.logins import open_logins
from kafka_sidecar.proxy.security.sasl.principal_logins import PrincipalLogins, open_principal_logins


def loaded(folder: Path, *entries: dict[str, Any], **others: Any) -> Config:
    (folder / "password").write_text("secret-of-gateway")
    own = {"mechanism": "PLAIN", "username": "gateway", "password_file": str(folder / "password")}
    brokers = {"security_protocol": "SASL_PLAINTEXT", "sasl": own, "logins": list(entries)}
    clients = {"sasl": {"mechanisms": ["PLAIN"], "users_file": str(folder / "users")}}
    return config("127.0.0.1:1", **{"brokers": brokers, "clients": clients, **others})


def entry(folder: Path, username: str, *principals: str) -> dict[str, Any]:
    (folder / username).write_text(f"secret-of-{username}")
    return {
        "principals": list(principals), "mechanism": "SCRAM-SHA-256", "username": username,
        "password_file": str(folder / username),
    }  # fmt: skip


def opened(settings: Config) -> PrincipalLogins:
    return open_principal_logins(settings, open_logins(settings, Counter()), Counter())


def test_the_first_entry_for_a_principal_applies_and_others_are_the_sidecars_own_user(tmp_path: Path) -> None:
    entries = (
        entry(tmp_path, "orders", "User:orders-*", "User:CN=a"),
        entry(tmp_path, "all", "User:orders-1", "User:b?"),
    )
    logins = opened(loaded(tmp_path, *entries))
    asked = ("User:orders-1", "User:CN=a", "User:b2", "User:b22", "User:other", None)
    found = [logins.of(principal) for principal in asked]
    remedies = [one.credentials.remedy if one is not None else "" for one in found]
    names = [remedy.partition("username ")[2].partition(",")[0] for remedy in remedies]
    assert names == ["orders", "orders", "all", "gateway", "gateway", "gateway"]
    assert remedies[0].startswith("correct brokers.logins (")
    assert "secret" not in str(remedies)


def test_a_password_that_cannot_be_read_is_a_mistake_of_the_section(tmp_path: Path) -> None:
    settings = loaded(tmp_path, entry(tmp_path, "orders", "User:a"))
    (tmp_path / "orders").unlink()
    with pytest.raises(ConfigError, match=r"brokers\.logins\.password_file: .*orders"):
        opened(settings)


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        ({"clients": {}}, "brokers.logins is set, but clients have no principals: set clients.sasl or"),
        ({"brokers": {"logins": [{"principals": ["a"], "mechanism": "PLAIN", "username": "a", "password_file": "p"}]}},
         "logins is set, but not used: set security_protocol to SASL_PLAINTEXT or SASL_SSL"),
    ],
)  # fmt: skip
def test_logins_that_could_never_be_used_are_rejected(tmp_path: Path, others: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        loaded(tmp_path, entry(tmp_path, "orders", "User:a"), **others)
