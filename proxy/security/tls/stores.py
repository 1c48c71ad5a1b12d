"""Files with certificates and keys, PEM and PKCS12: which type one is, its own bytes say.

PKCS12 needs the library cryptography (decision 20).
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_sidecar.proxy.config.tls import CONVERT, Tls

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
