"""Sockets with TLS that behave as the plain ones of the bench: what would block raises BlockingIOError."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

LIMIT_S = 10.0


class Secured:
    """One connection, its handshake done."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, is_broker: bool) -> None:
        sock.settimeout(LIMIT_S)
        name = None if is_broker else "localhost"
        self._sock = context.wrap_socket(sock, server_side=is_broker, server_hostname=name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def __enter__(self) -> Secured:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def send(self, data: Any) -> int:
        try:
            return self._sock.send(data)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            raise BlockingIOError from None

    def sendmsg(self, pieces: Iterable[Any]) -> int:
        return self.send(b"".join(pieces))

    def recv_into(self, buffer: memoryview) -> int:
        """All that has come, as far as there is room: TLS gives one record at a time."""
        size = 0
        while size < len(buffer):
            try:
                more = self._sock.recv_into(buffer[size:])
            except ssl.SSLWantReadError:
                break
            if not more:
                return size
            size += more
        if not size:
            raise BlockingIOError
        return size

    def recv(self, size: int) -> bytes:
        try:
            return self._sock.recv(size)
        except ssl.SSLWantReadError:
            raise BlockingIOError from None


def write_certificate(folder: Path) -> Path:
    """One PEM file with key and certificate, of localhost, which is its own CA."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "bench.pem"
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate.public_bytes(Encoding.PEM)
    path.write_bytes(text)
    return path


def contexts(certificate: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of clients and of the broker, both with TLS 1.3 and AES-256-GCM, as OpenSSL chooses it."""
    client = ssl.create_default_context(cafile=certificate)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker.load_cert_chain(certificate)
    return client, broker
