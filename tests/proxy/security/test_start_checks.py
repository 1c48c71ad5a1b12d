"""What `validate` finds as `run` does, and what both warn of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.start_checks import find_doubts, find_mistakes
from kafka_sidecar.proxy.security.tls.der import is_named

MISSING = "/nope/file"
SASL = {"mechanism": "PLAIN", "username": "gw", "password_file": MISSING}


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        (
            {"brokers": {"security_protocol": "SASL_PLAINTEXT", "sasl": SASL}},
            "brokers.sasl.password_file",
        ),
        ({"clients": {"sasl": {"mechanisms": ["PLAIN"], "users_file": MISSING}}}, "clients.sasl.users_file"),
        ({"clients": {"sasl": {"mechanisms": ["OAUTHBEARER"], "jwks_file": MISSING}}}, "clients.sasl.jwks_file"),
    ],
)
def test_a_file_of_a_login_that_cannot_be_read_is_a_mistake(settings: dict[str, Any], setting: str) -> None:
    (mistake,) = find_mistakes(Config(bootstrap_servers=["kafka:9092"], **settings))
    assert ".".join(map(str, mistake.location)) == setting
    assert MISSING in mistake.text


@pytest.mark.parametrize(("listen", "doubts"), [("10.0.0.1:9092", 1), ("127.0.0.1:9092", 0)])
def test_plain_without_tls_is_doubtful_but_on_loopback(listen: str, doubts: int) -> None:
    sasl = {"mechanisms": ["PLAIN"], "users_file": Path(MISSING)}
    config = Config(bootstrap_servers=["kafka:9092"], listen=listen, clients={"sasl": sasl})  # type: ignore[arg-type]
    assert len(list(find_doubts(config))) == doubts


@pytest.mark.parametrize("setting", ["audit.spool_file", "nodes.state_file"])
def test_a_file_that_could_not_be_written_is_doubtful(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section, name = setting.split(".")

    def doubts(path: Path) -> list[str]:
        more: dict[str, Any] = {section: {name: path, **({"topic": "audited"} if section == "audit" else {})}}
        return list(find_doubts(Config(bootstrap_servers=["kafka:9092"], **more)))

    assert doubts(tmp_path / "new") == []
    (missing,) = doubts(tmp_path / "missing" / "new")
    assert missing.startswith(f"{setting}: the folder {tmp_path}/missing does not exist; ")
    (folder,) = doubts(tmp_path)
    assert "is a folder: name a file in it" in folder
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    (closed,) = doubts(tmp_path / "new")
    assert f"the folder {tmp_path} cannot be written to" in closed


def test_a_certificate_names_hosts_as_clients_compare_them() -> None:
    assert is_named("kafka.example.com", ["localhost", "*.example.com"])
    assert is_named("10.0.0.1", ["10.0.0.1"])
    assert not is_named("kafka.example.com", ["localhost", "*.com"])


@pytest.mark.parametrize(
    ("url", "login", "doubts"),
    [
        ("http://registry:8081", {"token_file": MISSING}, 1),
        ("http://registry:8081", {}, 0),
        ("https://registry:8081", {"token_file": MISSING}, 0),
        ("http://127.0.0.1:8081", {"token_file": MISSING}, 0),
    ],
)
def test_a_login_to_a_registry_without_tls_is_doubtful_but_on_loopback(
    url: str, login: dict[str, Any], doubts: int
) -> None:
    config = Config.model_validate(
        {"bootstrap_servers": "kafka:9092", "schema_registries": {"main": {"urls": url, **login}}}
    )
    assert len(list(find_doubts(config))) == doubts
