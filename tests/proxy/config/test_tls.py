"""The sections of TLS: Kafka's names beside our own, and what cannot work is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.certificates import authority

from kafka_sidecar.proxy.config.loading import Config, load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import find_mistakes
from kafka_sidecar.proxy.security.tls.live_tls import TlsSides


def loaded(folder: Path, text: str, **variables: str) -> Config:
    path = folder / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\n{text}")
    return load(path, variables, {}, find_mistakes)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        TlsSides(loaded(folder, text))
    (line,) = error.value.lines
    return line.removeprefix(f"{folder}/sidecar.yaml")


def test_the_settings_of_kafkas_clients_are_those_of_the_broker_side(tmp_path: Path) -> None:
    kafka = """
security.protocol: SSL
ssl.truststore.location: trust.pem
ssl.truststore.type: PEM
ssl.keystore.location: key.pem
ssl.enabled.protocols: TLSv1.3,TLSv1.2
ssl.cipher.suites: TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
ssl.endpoint.identification.algorithm: ""
"""
    own = """
brokers:
  security_protocol: SSL
  tls:
    ca: trust.pem
    certificate: key.pem
    protocols: [TLSv1.3, TLSv1.2]
    ciphers: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]
    verify_hostname: false
"""
    assert loaded(tmp_path, kafka).brokers == loaded(tmp_path, own).brokers
    assert loaded(tmp_path, own).brokers.tls.ca == tmp_path / "trust.pem"


def test_kafkas_names_are_accepted_in_a_section_too(tmp_path: Path) -> None:
    text = "clients: {tls: {ssl.keystore.location: a.pem, ssl.client.auth: required, ssl.truststore.location: ca.pem}}"
    tls = loaded(tmp_path, text).clients.tls
    assert (tls.certificate, tls.client_certificates) == (tmp_path / "a.pem", "required")


def test_without_tls_nothing_is_read(tmp_path: Path) -> None:
    config = loaded(tmp_path, "")
    assert (config.clients.uses_tls, config.brokers.uses_tls) == (False, False)
    assert TlsSides(config).all == []


def test_tls_to_brokers_needs_no_file(tmp_path: Path) -> None:
    sides = TlsSides(loaded(tmp_path, "security.protocol: SSL"))
    assert [one.side for one in sides.all] == ["broker"]


def test_a_password_is_taken_from_a_variable(tmp_path: Path) -> None:
    chain, key = authority().issue("app").write(tmp_path, "app", password="open sesame")
    text = f"clients: {{tls: {{certificate: {chain}, key: {key}}}}}"
    config = loaded(tmp_path, text, KAFKA_SIDECAR__CLIENTS__TLS__KEY_PASSWORD="open sesame")
    assert TlsSides(config).clients is not None
    assert "sesame" not in repr(config)


@pytest.mark.parametrize("name", ["key_password", "ssl.keystore.password", "ssl.key.password"])
def test_a_password_in_the_file_is_rejected_and_not_shown(tmp_path: Path, name: str) -> None:
    line = refusal(tmp_path, f"clients: {{tls: {{certificate: a.pem, {name}: sesame}}}}")
    assert "KAFKA_SIDECAR__CLIENTS__TLS__KEY_PASSWORD" in line
    assert "sesame" not in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("clients: {tls: {certificate: missing}}", ":2: clients.tls.certificate: {0}/missing cannot be read: No such"),
        ("clients: {tls: {key: a}}", ":2: clients.tls: certificate is missing: name the file"),
        ("clients: {tls: {protocols: TLSv1.3}}", ":2: clients.tls: certificate is missing: name the file"),
        ("clients: {tls: {certificate: @, client_certificates: required}}", ":2: clients.tls.ca: is missing: name"),
        ("brokers: {tls: {ca: a}}", ":2: brokers.tls: is set, but not used: set brokers.security_protocol"),
        ("ssl.truststore.location: a", ": brokers.tls: is set, but not used: set brokers.security_protocol"),
        (
            "brokers: {security_protocol: SSL, tls: {protocols: TLSv1.1}}",
            ":2: brokers.tls.protocols (entry 1): did you mean TLSv1.3? write",
        ),
        ("brokers: {security_protocol: SSL, tls: {protocols: []}}", ":2: brokers.tls.protocols: write at least one"),
        ("security.protocol: SSL\nssl.keystore.type: JKS", ": brokers.tls: ssl.keystore.type: JKS cannot be read; con"),
        ("security.protocol: SSL\nssl.truststore.location: missing", ":3: brokers.tls.ca: {0}/missing cannot be read"),
        ("clients: {tls: {certificate: a, ssl.keystore.location: b}}", ":2: clients.tls: ssl.keystore.location is the"),
        (
            "clients: {tls: {certificate: a, verify_hostname: true}}",
            ":2: clients.tls.verify_hostname: is not a setting",
        ),
    ],
)
def test_each_mistake_is_one_line(tmp_path: Path, text: str, line: str) -> None:
    both = authority().issue("sidecar").write_both(tmp_path, "sidecar")
    assert refusal(tmp_path, text.replace("@", str(both))).startswith(line.format(tmp_path))
