"""Certificates of the tests: a CA, and what it issues, as the files that programs read."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
HOSTS = ("localhost", "127.0.0.1")


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate, its key and the certificate of the CA."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    ca: x509.Certificate

    @property
    def pem(self) -> str:
        """The chain."""
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in (self.certificate, self.ca))

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _encryption(password)).decode()

    def write(self, folder: Path, name: str, password: str | None = None) -> tuple[Path, Path]:
        """The files of chain and key."""
        chain, key = folder / f"{name}.crt", folder / f"{name}.key"
        chain.write_text(self.pem)
        key.write_text(self.key_pem(password))
        return chain, key

    def write_both(self, folder: Path, name: str) -> Path:
        """One PEM file with both, as Kafka reads it (KIP-651)."""
        path = folder / f"{name}.pem"
        path.write_text(self.key_pem() + self.pem)
        return path

    def write_pkcs12(self, folder: Path, name: str, password: str) -> Path:
        path = folder / f"{name}.p12"
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(), self.key, self.certificate, [self.ca], _encryption(password)
            )
        )
        return path


class Authority:
    """A CA."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = (
            _builder(_name(name), _name(name), self._key, 365)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, folder: Path, name: str = "ca") -> Path:
        path = folder / f"{name}.crt"
        path.write_text(self.pem)
        return path

    def write_trust_store(self, folder: Path, password: str) -> Path:
        """As Java's keytool does."""
        path = folder / "trust.p12"
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"ca")
        path.write_bytes(pkcs12.serialize_java_truststore([trusted], _encryption(password)))
        return path

    def issue(self, common_name: str, hosts: Sequence[str] = HOSTS, days: float = 30) -> Issued:
        """``days``: how long it is valid; below 0 it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(common_name), self.certificate.subject, key, days)
            .add_extension(x509.SubjectAlternativeName([_host(name) for name in hosts]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Issued(certificate, key, self.certificate)

    def client_context(self, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Of a peer that trusts this CA, with its own certificate if given."""
        context = ssl.create_default_context(cadata=self.pem)
        if own is not None:
            context.load_cert_chain(*own)
        return context


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + days * DAY) - DAY)
        .not_valid_after(now + days * DAY)
    )


@cache
def authority(name: str = "Test CA") -> Authority:
    """One CA of each name for the whole run."""
    return Authority(name)
