"""OpenSSL's contexts of both sides, from their settings and files; Java's names of ciphers; alerts for clients.

Files with certificates and keys are PEM or PKCS12: which type one is, its own bytes say. PKCS12 needs the library
cryptography (decision 20).
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_sidecar.proxy.config.tls import CONVERT, BrokerTls, ListenerTls, Tls
from kafka_sidecar.proxy.security.tls.der import not_after

JKS, DER_SEQUENCE = b"\xfe\xed\xfe\xed", b"\x30"  # how Java's own stores begin, and PKCS12
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----.+?-----END ([A-Z]+ )?PRIVATE KEY-----", re.DOTALL)


class StoreError(Exception):
    """A file cannot be used. ``setting``: the key of the section that names it."""

    def __init__(self, setting: str, text: str) -> None:
        super().__init__(text)
        self.setting = setting


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate with its chain, in DER, and the PEM of its private key."""

    chain: tuple[bytes, ...]
    key: bytes
    password: str | None  # of the key

    @property
    def pem(self) -> bytes:
        """The key and the chain, for OpenSSL."""
        chain = "".join(ssl.DER_cert_to_PEM_cert(one) for one in self.chain)
        return self.key + b"\n" + chain.encode()


def read_identity(tls: Tls) -> Identity | None:
    """The certificate that this side presents; None if none is configured. Raises StoreError."""
    if tls.certificate is None:
        return None
    password = _password(tls, "key_password")
    data = _read(tls.certificate, "certificate")
    if _is_pkcs12(data, tls.certificate, "certificate"):
        store = _load_pkcs12(data, password, "certificate", "key_password")
        if store.key is None or store.cert is None:
            raise StoreError("certificate", f"{tls.certificate} has no private key with its certificate")
        certificates = [store.cert, *store.additional_certs]
        return Identity(tuple(_der(one) for one in certificates), _key_pem(store.key), None)
    chain = _pem_certificates(data, tls.certificate, "certificate")
    return Identity(chain, _pem_key(tls, data), password)


def read_trusted(tls: Tls) -> tuple[bytes, ...] | None:
    """The certificates that this side trusts, in DER; None: those of the system. Raises StoreError."""
    if tls.ca is None:
        return None
    data = _read(tls.ca, "ca")
    if not _is_pkcs12(data, tls.ca, "ca"):
        return _pem_certificates(data, tls.ca, "ca")
    store = _load_pkcs12(data, _password(tls, "ca_password"), "ca", "ca_password")
    certificates = tuple(_der(one) for one in (store.cert, *store.additional_certs) if one is not None)
    if not certificates:
        raise StoreError("ca", f"{tls.ca} has no certificate")
    return certificates


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(setting, f"{path} cannot be read: {error.strerror or error}") from error


def _password(tls: Tls, setting: str) -> str | None:
    given, path = getattr(tls, setting), getattr(tls, f"{setting}_file")
    if path is None:
        return None if given is None else str(given.get_secret_value())
    try:
        return _read(path, f"{setting}_file").decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise StoreError(f"{setting}_file", f"{path} is not text") from error


def _is_pkcs12(data: bytes, path: Path, setting: str) -> bool:
    if data.startswith(JKS):
        raise StoreError(setting, f"{path} is a JKS store, which only Java reads; {CONVERT}")
    return data.startswith(DER_SEQUENCE)


def _pem_certificates(data: bytes, path: Path, setting: str) -> tuple[bytes, ...]:
    try:
        found = tuple(ssl.PEM_cert_to_DER_cert(one.decode("ascii")) for one in _CERTIFICATE.findall(data))
    except ValueError as error:
        raise StoreError(setting, f"{path} has a damaged certificate: {error}") from error
    if not found:
        raise StoreError(setting, f"{path} has no certificate: write a PEM file with BEGIN CERTIFICATE, or PKCS12")
    return found


def _pem_key(tls: Tls, data: bytes) -> bytes:
    found = _KEY.search(data if tls.key is None else _read(tls.key, "key"))
    if found is None:
        remedy = "name the file with the key" if tls.key is None else "write a PEM file with BEGIN PRIVATE KEY"
        raise StoreError("key", f"{tls.key or tls.certificate} has no private key: {remedy}")
    return found[0]


def _load_pkcs12(data: bytes, password: str | None, setting: str, password_setting: str) -> Any:
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        raise StoreError(
            setting, "a PKCS12 file needs the library cryptography: in a clone, pip install '.[pkcs12]', or write PEM"
        ) from error
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except ValueError as error:
        text = f"the PKCS12 file of {setting} cannot be read with this password"
        raise StoreError(password_setting, f"{text}; set {password_setting}_file or the variable") from error


def _der(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    found = getattr(certificate, "certificate", certificate)
    encoded: bytes = found.public_bytes(Encoding.DER)
    return encoded


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    encoded: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return encoded


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
