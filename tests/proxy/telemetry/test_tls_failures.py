"""Failed handshakes between contexts of OpenSSL: each has its word and its remedy, on either side."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from harness.certificates import authority

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.telemetry.tls_failures import describe_failure, explain_to, reason_of

CA, OTHER = authority(), authority("Other CA")


def server(folder: Path, days: float = 30) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*CA.issue("server", days=days).write(folder, "server"))
    return context


def failures(
    client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLError | None, ...]:
    """What client and server say, each at its own end."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    errors: list[ssl.SSLError | None] = [None, None]
    for _ in range(5):
        for at, end in enumerate(ends):
            try:
                if errors[at] is None:
                    end.do_handshake()
                    end.read(1)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                errors[at] = error
    return tuple(errors)


def words(errors: tuple[ssl.SSLError | None, ...]) -> tuple[str | None, ...]:
    return tuple(None if error is None else reason_of(error) for error in errors)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_whose_certificate_is_not_accepted(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    clients = [OTHER.client_context(), CA.client_context(), CA.client_context()]
    for client in clients:
        client.maximum_version = newest
    untrusted = failures(clients[0], server(tmp_path))
    expired = failures(clients[1], server(tmp_path, days=-1))
    foreign = failures(clients[2], server(tmp_path), "kafka.example.com")
    assert words(untrusted) == ("untrusted_certificate", "rejected_by_peer")
    assert words(expired) == ("expired_certificate", "rejected_by_peer")
    assert words(foreign)[0] == "wrong_hostname"
    (of_client, of_server) = untrusted
    assert of_client is not None
    assert of_server is not None
    assert "set brokers.tls.ca" in explain_to("broker", of_client)
    assert "ssl.truststore.location" in explain_to("client", of_server)


def test_a_client_certificate_that_is_missing_or_not_accepted(tmp_path: Path) -> None:
    context = server(tmp_path)
    context.load_verify_locations(cadata=CA.pem)
    context.verify_mode = ssl.CERT_REQUIRED
    none = failures(CA.client_context(), context)
    foreign = failures(CA.client_context(OTHER.issue("app").write(tmp_path, "app")), context)
    assert words(none) == ("no_client_certificate", "no_client_certificate")
    assert words(foreign) == ("rejected_by_peer", "untrusted_certificate")
    assert none[0] is not None
    assert explain_to("broker", none[0]).startswith("the broker requires a client certificate")


def test_nothing_in_common(tmp_path: Path) -> None:
    old, new = CA.client_context(), server(tmp_path)
    old.maximum_version, new.minimum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
    assert words(failures(old, new)) == ("no_common_version", "no_common_version")


def test_a_peer_that_does_not_speak_tls(tmp_path: Path) -> None:
    incoming = ssl.MemoryBIO()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n")
    client = CA.client_context().wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="localhost")
    with pytest.raises(ssl.SSLError) as error:
        client.do_handshake()
    assert reason_of(error.value) == "not_tls"


def test_other_ends() -> None:
    assert reason_of(ConnectionResetError()) == reason_of(ssl.SSLEOFError()) == "closed"
    assert reason_of(TimeoutError()) == "timeout"
    assert reason_of(ssl.SSLError(1, "some words")) == "other"
    assert explain_to("client", ssl.SSLError(1, "some words")).startswith("TLS failed: ")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "refused the connection"),
        (EOFError(), "closed the connection without a response"),
        (TimeoutError(), "timed out"),
        (OSError(113, "No route to host"), "No route to host"),
        (OSError("is this sidecar itself"), "is this sidecar itself"),
        (CodecError("sent a frame of -1 bytes"), "sent a frame of -1 bytes"),
    ],
)
def test_a_failure_is_described_in_words(error: Exception, text: str) -> None:
    assert describe_failure(error) == text
