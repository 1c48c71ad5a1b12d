"""Deadlines, sizes and TLS of requests; what hostile responses become is tested with the registry that asks."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness.certificates import authority
from support.http_registry import FakeRegistry, Server, answering, closing, dripping, failing, running, serve, silent

from kafka_sidecar.outbound.http import LOOK_S, ClientTls, HttpClient, OutboundError, Response


def client(*urls: str, timeout_s: float = 3.0, max_bytes: int = 1000, tls: ClientTls | None = None) -> HttpClient:
    return HttpClient(urls, timeout_s, max_bytes, tls or ClientTls())


def get(*urls: str, timeout_s: float = 3.0, tls: ClientTls | None = None, until: float = float("inf")) -> Response:
    made = client(*urls, timeout_s=timeout_s, tls=tls)
    try:
        return made.request("GET", "", {}, until=until)
    finally:
        made.close()


@pytest.fixture(name="fake")
def _fake() -> Iterator[FakeRegistry]:
    with running() as fake:
        fake.behaviour = answering({})
        yield fake


@pytest.mark.parametrize(
    ("base", "path", "asked"),
    [
        ("", "", "/"),
        ("/", "", "/"),
        ("/", "/subjects", "/subjects"),
        ("/token/", "", "/token/"),
        ("/token?tenant=a", "", "/token?tenant=a"),
        ("/apis/ccompat/v7", "/subjects?deleted=true", "/apis/ccompat/v7/subjects?deleted=true"),
    ],
)
def test_paths_are_appended_to_the_address(fake: FakeRegistry, base: str, path: str, asked: str) -> None:
    client(fake.url + base).request("GET", path, {})
    assert fake.requests == [asked]


def test_a_connection_is_kept_and_replaced_when_the_server_has_closed_it(fake: FakeRegistry) -> None:
    made = client(fake.url)
    made.request("GET", "/1", {})
    made.request("GET", "/2", {})
    assert len(fake.connections) == 1
    fake.close_connections()
    assert made.request("GET", "/3", {}).status == 200
    assert len(fake.connections) == 2


def test_the_deadline_is_of_all_addresses_together(fake: FakeRegistry) -> None:
    fake.behaviour = silent
    with pytest.raises(OutboundError, match="has not responded") as error:
        get(fake.url, fake.url + "/2", fake.url + "/3", until=time.monotonic() + 0.3)
    assert error.value.outcome == "timeout"
    assert len(fake.requests) == 1


def test_each_address_has_its_own_time(fake: FakeRegistry) -> None:
    with running() as slow:
        slow.behaviour = dripping
        assert get(slow.url, fake.url, timeout_s=0.4).status == 200
        assert (len(slow.requests), len(fake.requests)) == (1, 1)


def test_where_all_fail_the_last_one_is_named(fake: FakeRegistry) -> None:
    fake.behaviour = failing(503)
    with pytest.raises(OutboundError, match=f"^{fake.url} responds with 503$") as error:
        get("http://127.0.0.1:1", fake.url)
    assert error.value.outcome == "unavailable"


def test_a_name_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(OutboundError, match=r"^http://nowhere\.invalid:1 cannot be reached: "):
        get("http://nowhere.invalid:1")


def test_a_server_that_closes_is_asked_twice_at_most(fake: FakeRegistry) -> None:
    fake.behaviour = closing
    with pytest.raises(OutboundError, match="it closes the connection"):
        get(fake.url)
    assert len(fake.requests) == 2


# TLS


@contextmanager
def secured(tmp_path: Path, wants_certificate: bool = False) -> Iterator[FakeRegistry]:
    tmp_path.mkdir(exist_ok=True)
    fake = FakeRegistry(behaviour=answering({}))
    issued = authority().issue("registry", ["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issued.write(tmp_path, "server"))
    if wants_certificate:
        context.load_verify_locations(cadata=authority().pem)
        context.verify_mode = ssl.CERT_REQUIRED
    server: Server = serve(fake, context=context)
    fake.url = fake.url.replace("http://127.0.0.1", "https://localhost")
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_is_trusted_whose_certificate_is_of_the_ca(tmp_path: Path) -> None:
    with secured(tmp_path / "server") as fake:
        assert get(fake.url, tls=ClientTls(str(authority().write(tmp_path)))).status == 200


@pytest.mark.parametrize("ca", [None, "Other CA"])
def test_no_other_is(tmp_path: Path, ca: str | None) -> None:
    trusted = None if ca is None else str(authority(ca).write(tmp_path))
    with secured(tmp_path / "server") as fake:
        with pytest.raises(OutboundError, match="its certificate is not valid: ") as error:
            get(fake.url, tls=ClientTls(trusted))
        assert error.value.outcome == "unreachable"
        assert fake.requests == []


def test_the_certificate_must_name_the_host(tmp_path: Path) -> None:
    with secured(tmp_path / "server") as fake:
        url = fake.url.replace("localhost", "127.0.0.1")
        with pytest.raises(OutboundError, match="its certificate is not valid: IP address mismatch"):
            get(url, tls=ClientTls(str(authority().write(tmp_path))))


def test_a_certificate_is_presented(tmp_path: Path) -> None:
    ca = str(authority().write(tmp_path))
    certificate, key = authority().issue("sidecar").write(tmp_path, "own")
    with secured(tmp_path / "server", wants_certificate=True) as fake:
        assert get(fake.url, tls=ClientTls(ca, str(certificate), str(key))).status == 200
        with pytest.raises(OutboundError, match="cannot be reached"):
            get(fake.url, tls=ClientTls(ca))


def test_a_response_over_tls_that_drips_ends_in_time(tmp_path: Path) -> None:
    with secured(tmp_path / "server") as fake:
        fake.behaviour = dripping
        with pytest.raises(OutboundError, match="has not responded"):
            get(fake.url, timeout_s=0.5, tls=ClientTls(str(authority().write(tmp_path))))


def test_a_server_that_does_not_go_on_with_the_handshake_is_left(fake: FakeRegistry) -> None:
    import socket

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.raises(OutboundError, match="has not responded"),
    ):
        get(f"https://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.5)


def test_tls_1_1_is_not_offered() -> None:
    assert ClientTls().context().minimum_version == ssl.TLSVersion.TLSv1_2


def test_renewed_files_apply_to_the_next_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_sidecar.outbound.http.LOOK_S", LOOK_S * 0)
    ca = authority("Other CA").write(tmp_path)
    with secured(tmp_path / "server") as fake:
        made = client(fake.url, tls=ClientTls(str(ca)))
        with pytest.raises(OutboundError, match="not valid"):
            made.request("GET", "", {})
        ca.write_text("damaged")
        with pytest.raises(OutboundError, match="not valid"):  # the previous ones stay
            made.request("GET", "", {})
        ca.write_text(authority().pem)
        assert made.request("GET", "", {}).status == 200


@pytest.mark.parametrize(
    ("tls", "problem"),
    [
        (ClientTls("none.pem"), "ca: none.pem cannot be read: No such file or directory"),
        (ClientTls(certificate="none.pem"), "certificate: none.pem cannot be read: No such file"),
    ],
)
def test_a_file_that_is_not_there_is_named(tls: ClientTls, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        client("https://registry", tls=tls)


def test_a_file_that_is_no_pem_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("junk")
    with pytest.raises(ValueError, match=r"ca: .* cannot be used: .*; write certificate and key in PEM"):
        client("https://registry", tls=ClientTls(str(tmp_path / "ca")))


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    certificate, key = authority().issue("sidecar").write(tmp_path, "own", "hush")
    password = tmp_path / "password"
    password.write_text("hush\n")
    own = str(certificate), str(key)
    assert ClientTls(None, *own, str(password)).context() is not None
    with pytest.raises(ValueError, match="the key is encrypted: set key_password_file"):
        ClientTls(None, *own).context()
    password.write_text("wrong")
    with pytest.raises(ValueError, match=r"certificate: .* cannot be used") as error:
        ClientTls(None, *own, str(password)).context()
    assert "wrong" not in str(error.value)
