"""What contexts offer: versions, cipher suites, names of either kind, verification."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from harness.certificates import Authority, authority

from kafka_sidecar.proxy.config.tls import BrokerTls, ClientTls
from kafka_sidecar.proxy.security.tls.contexts import (
    OPENSSL_NAMES,
    TLS_1_3,
    StoreError,
    broker_context,
    listener_context,
    openssl_ciphers,
)

CA = authority()


def der(one: Authority) -> bytes:
    return one.certificate.public_bytes(Encoding.DER)


def brokers(**settings: Any) -> ssl.SSLContext:
    return broker_context(BrokerTls.model_validate(settings)).context


def listeners(folder: Path, **settings: Any) -> ssl.SSLContext:
    both = CA.issue("sidecar").write_both(folder, "sidecar")
    return listener_context(ClientTls.model_validate({"certificate": str(both), **settings})).context


def test_connections_to_brokers_verify_certificate_and_host() -> None:
    context = brokers()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_the_authorities_of_the_system_are_not_trusted_beside_those_that_are_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = tmp_path / "public"
    public.mkdir()
    other = Authority("any public authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(other.write(public)))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    def trusted(**settings: Any) -> set[bytes]:
        return set(brokers(**settings).get_ca_certs(binary_form=True))

    assert trusted() == {der(other)}
    assert trusted(ca=str(CA.write(tmp_path))) == {der(CA)}


@pytest.mark.parametrize("off", ["", False])
def test_only_the_host_can_be_left_unverified(off: object) -> None:
    context = brokers(verify_hostname=off)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_listeners_have_no_renegotiation_and_request_certificates_as_configured(tmp_path: Path) -> None:
    assert listeners(tmp_path).verify_mode == ssl.CERT_NONE
    assert listeners(tmp_path).options & ssl.OP_NO_RENEGOTIATION
    for kind, mode in (("requested", ssl.CERT_OPTIONAL), ("required", ssl.CERT_REQUIRED)):
        context = listeners(tmp_path, client_certificates=kind, ca=str(CA.write(tmp_path)))
        assert context.verify_mode == mode
        assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("given", "lowest", "highest"),
    [
        ("TLSv1.3", "TLSv1_3", "TLSv1_3"),
        (["TLSv1.2"], "TLSv1_2", "TLSv1_2"),
        ("TLSv1.3, TLSv1.2", "TLSv1_2", "TLSv1_3"),
    ],
)
def test_versions_are_limited(given: object, lowest: str, highest: str) -> None:
    context = brokers(protocols=given)
    assert (context.minimum_version.name, context.maximum_version.name) == (lowest, highest)


def test_each_name_of_kafka_is_the_suite_that_openssl_means() -> None:
    for kafka, openssl in OPENSSL_NAMES.items():
        context = brokers(ciphers=[kafka], protocols="TLSv1.2")
        assert [one["name"] for one in context.get_ciphers() if one["name"] not in TLS_1_3] == [openssl]


def test_suites_of_tls_1_3_alone_need_tls_1_3_alone() -> None:
    assert openssl_ciphers(TLS_1_3) == ""
    brokers(ciphers="TLS_AES_256_GCM_SHA384", protocols="TLSv1.3")
    with pytest.raises(StoreError, match="set protocols to TLSv1"):
        brokers(ciphers="TLS_AES_256_GCM_SHA384")


def test_an_unknown_suite_is_rejected() -> None:
    with pytest.raises(StoreError) as error:
        brokers(ciphers="TLS_NULL_WITH_NULL_NULL")
    assert error.value.setting == "ciphers"


def test_the_first_certificate_to_expire_is_known(tmp_path: Path) -> None:
    issued = CA.issue("sidecar", days=2)
    loaded = listener_context(ClientTls.model_validate({"certificate": str(issued.write_both(tmp_path, "a"))}))
    assert loaded.not_after == {"certificate": issued.certificate.not_valid_after_utc.timestamp()}
