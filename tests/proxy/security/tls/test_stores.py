"""Files with certificates and keys, PEM and PKCS12, Java's too; each mistake with its remedy."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from harness.certificates import authority

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.proxy.config.tls import BrokerTls
from kafka_sidecar.proxy.security.tls.contexts import StoreError, broker_context, read_identity, read_trusted

CA = authority()
ISSUED = CA.issue("app")


def tls(**settings: Any) -> BrokerTls:
    return BrokerTls.model_validate({name: one if one is None else str(one) for name, one in settings.items()})


def refusal(**settings: Any) -> tuple[str, str]:
    """The setting at fault, and what is said of it."""
    with pytest.raises(StoreError) as error:
        broker_context(tls(**settings))
    return error.value.setting, str(error.value)


def test_a_chain_and_a_key_are_read_from_one_file_or_from_two(tmp_path: Path) -> None:
    chain, key = ISSUED.write(tmp_path, "app")
    both = ISSUED.write_both(tmp_path, "both")
    assert read_identity(tls(certificate=chain, key=key)) == read_identity(tls(certificate=both))
    broker_context(tls(certificate=both, ca=CA.write(tmp_path)))


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    chain, key = ISSUED.write(tmp_path, "app", password="open sesame")
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    broker_context(tls(certificate=chain, key=key, key_password_file=password))
    assert refusal(certificate=chain, key=key) == (
        "key_password", "is missing: the private key is encrypted; set key_password_file",
    )  # fmt: skip
    password.write_text("another")
    setting, text = refusal(certificate=chain, key=key, key_password_file=password)
    assert (setting, "another" in text) == ("key_password", False)


def test_a_password_comes_from_a_variable_and_is_not_shown(tmp_path: Path) -> None:
    chain, key = ISSUED.write(tmp_path, "app", password="open sesame")
    section = BrokerTls.model_validate(
        {"certificate": str(chain), "key": str(key), "key_password": VariableText("open sesame")}
    )
    broker_context(section)
    assert "sesame" not in repr(section) + str(section.model_dump())


def test_a_pkcs12_file_of_another_program_is_read(tmp_path: Path) -> None:
    store, password = ISSUED.write_pkcs12(tmp_path, "app", "changeit"), tmp_path / "password"
    password.write_text("changeit")
    identity = read_identity(tls(certificate=store, key_password_file=password))
    assert identity is not None
    assert len(identity.chain) == 2
    broker_context(tls(certificate=store, key_password_file=password))
    password.write_text("wrong")
    assert refusal(certificate=store, key_password_file=password)[0] == "key_password"


def test_a_trust_store_of_java_is_read(tmp_path: Path) -> None:
    store, password = CA.write_trust_store(tmp_path, "changeit"), tmp_path / "password"
    password.write_text("changeit")
    assert read_trusted(tls(ca=store, ca_password_file=password)) == read_trusted(tls(ca=CA.write(tmp_path)))


def test_a_jks_store_is_named_with_the_command_that_converts_it(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    store.write_bytes(bytes.fromhex("feedfeed00000002"))
    setting, text = refusal(ca=store)
    assert (setting, "keytool -importkeystore" in text) == ("ca", True)


def test_pkcs12_without_its_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ISSUED.write_pkcs12(tmp_path, "app", "changeit")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    setting, text = refusal(certificate=store)
    assert setting == "certificate"
    assert ".[pkcs12]" in text


def test_each_file_that_cannot_be_used_is_named_with_its_remedy(tmp_path: Path) -> None:
    chain, key = ISSUED.write(tmp_path, "app")
    other_key, empty = CA.issue("other").write(tmp_path, "other")[1], tmp_path / "empty"
    empty.touch()
    missing = tmp_path / "missing"
    assert refusal(certificate=missing) == ("certificate", f"{missing} cannot be read: No such file or directory")
    assert refusal(certificate=chain) == ("key", f"{chain} has no private key: name the file with the key")
    assert refusal(certificate=chain, key=empty)[0] == "key"
    assert refusal(certificate=empty, key=key)[0] == "certificate"
    assert refusal(certificate=chain, key=other_key)[0] == "key"
    assert refusal(certificate=chain, key=key, key_password_file=missing)[0] == "key_password_file"
    assert refusal(ca=empty)[0] == "ca"
    empty.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    assert refusal(ca=empty)[0] == "ca"


DAMAGED = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


def test_a_damaged_certificate_is_named(tmp_path: Path) -> None:
    damaged, key = tmp_path / "damaged.pem", ISSUED.write(tmp_path, "app")[1]
    for text in ("AAAA", "AAA"):
        damaged.write_text(DAMAGED.format(text))
        assert refusal(certificate=damaged, key=key)[0] == "certificate"
        assert refusal(ca=damaged)[0] == "ca"


def test_a_trust_store_is_no_key_store_and_a_password_is_text(tmp_path: Path) -> None:
    store, password = CA.write_trust_store(tmp_path, "changeit"), tmp_path / "password"
    password.write_text("changeit")
    assert "has no private key" in refusal(certificate=store, key_password_file=password)[1]
    password.write_bytes(b"\xff\xfe")
    assert refusal(certificate=store, key_password_file=password)[0] == "key_password_file"


def test_a_pkcs12_file_without_certificates_is_no_trust_store(tmp_path: Path) -> None:
    store, password = tmp_path / "key.p12", tmp_path / "password"
    password.write_text("changeit")
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"key", ISSUED.key, None, None, BestAvailableEncryption(b"changeit"))
    )
    assert refusal(ca=store, ca_password_file=password) == ("ca", f"{store} has no certificate")


def test_keys_are_read_where_there_are_no_files_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    broker_context(tls(certificate=ISSUED.write_both(tmp_path, "both")))
