"""OpenSSL's contexts of both sides, from their settings and files; Java's names of ciphers; alerts for clients."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kafka_sidecar.proxy.config.tls import BrokerTls, ListenerTls, Tls
from kafka_sidecar.proxy.security.tls.der import not_after
from kafka_sidecar.proxy.security.tls.stores import Identity, StoreError, read_identity, read_trusted

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_CERTIFICATES = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
# TLS 1.2 with forward secrecy; the others are not offered.
OPENSSL_NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
    "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "DHE-RSA-CHACHA20-POLY1305",
}
# All of them are strong, and Python cannot choose among them.
TLS_1_3 = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A context, and when the certificates that it was made of expire."""

    context: ssl.SSLContext
    not_after: Mapping[str, float] = field(default_factory=dict)  # by setting: the first to expire, seconds since 1970


def listener_context(tls: ListenerTls) -> Loaded:
    """The context of listeners. Raises StoreError."""
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = CLIENT_CERTIFICATES[tls.client_certificates]
    return _load(context, tls)


def broker_context(tls: BrokerTls) -> Loaded:
    """The context of connections to brokers. Raises StoreError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify_hostname
    if tls.ca is None:
        context.load_default_certs()
    return _load(context, tls)


def _load(context: ssl.SSLContext, tls: Tls) -> Loaded:
    _limit_versions(context, tls)
    expiry: dict[str, float] = {}
    if (identity := read_identity(tls)) is not None:
        _present(context, identity)
        expiry["certificate"] = _first_to_expire(identity.chain, "certificate")
    if (trusted := read_trusted(tls)) is not None:
        expiry["ca"] = _first_to_expire(trusted, "ca")
        context.load_verify_locations(cadata=b"".join(trusted))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Java: whatever is in the trust store is trusted
    return Loaded(context, expiry)


def _limit_versions(context: ssl.SSLContext, tls: Tls) -> None:
    versions = [version for name, version in VERSIONS.items() if name in tls.protocols]
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if not tls.ciphers:
        return
    ciphers = openssl_ciphers(tls.ciphers)
    if not ciphers and "TLSv1.2" in tls.protocols:
        raise StoreError("ciphers", "has suites of TLS 1.3 only: add some of TLS 1.2, or set protocols to TLSv1.3")
    try:
        if ciphers:
            context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise StoreError("ciphers", f"no suite of {ciphers} is known to {ssl.OPENSSL_VERSION}") from error


def _present(context: ssl.SSLContext, identity: Identity) -> None:
    def password() -> str:
        if identity.password is None:
            raise StoreError("key_password", "is missing: the private key is encrypted; set key_password_file")
        return identity.password

    with _private_file(identity.pem) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            raise _unusable(error, identity) from error


def _unusable(error: ssl.SSLError, identity: Identity) -> StoreError:
    if error.reason == "KEY_VALUES_MISMATCH":
        return StoreError("key", "is not the key of the certificate: name the key that belongs to it")
    if b"ENCRYPTED" in identity.key:
        return StoreError("key_password", "does not decrypt the private key: correct it")
    reason = (error.reason or "unknown reason").lower().replace("_", " ")
    return StoreError("certificate", f"certificate or key cannot be used: {reason}")


@contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes: OpenSSL reads a key from files only. On Linux it is in memory alone."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kafka-sidecar")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # only its owner can read it
            file.write(data)
            file.flush()
            yield file.name


def _first_to_expire(certificates: tuple[bytes, ...], setting: str) -> float:
    try:
        return min(map(not_after, certificates))
    except ValueError as error:
        raise StoreError(setting, f"has a damaged certificate: {error}") from error


class _Handshake(ssl.SSLObject):
    """Adds the alert that OpenSSL has written to the error of a handshake."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.alert = self.outgoing.read()  # type: ignore[attr-defined]
            raise


class AlertingContext(ssl.SSLContext):
    """A context whose failed handshakes have their `alert_of`."""

    sslobject_class = _Handshake

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **more: Any) -> ssl.SSLObject:
        wrapped = super().wrap_bio(incoming, outgoing, *args, **more)
        assert isinstance(wrapped, _Handshake)
        wrapped.outgoing = outgoing
        return wrapped


def alert_of(error: Exception) -> bytes:
    """The bytes to send before the connection is closed; none if TLS has not failed."""
    alert: bytes = getattr(error, "alert", b"")
    return alert


def openssl_ciphers(names: Iterable[str]) -> str:
    """The suites of TLS 1.2 as OpenSSL's list; empty if all names are suites of TLS 1.3."""
    return ":".join(OPENSSL_NAMES.get(name, name) for name in names if name not in TLS_1_3)
