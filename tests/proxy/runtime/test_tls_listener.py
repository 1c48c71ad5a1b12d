"""Listeners with TLS, and brokers with TLS: handshakes, their failures and limits, what a session sees of them."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness.certificates import authority
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import request
from support.fake_broker import FakeBroker, fixed
from support.in_process import Client, connected, port_of, serving, until

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.runtime import listener as accepting
from kafka_sidecar.proxy.runtime.admission import bind_socket
from kafka_sidecar.proxy.runtime.tasks import Paced
from kafka_sidecar.proxy.runtime.tls_listener import NotTlsError, TlsListener, bytes_needed
from kafka_sidecar.proxy.security.tls.der import subject_of
from kafka_sidecar.proxy.server import server as server_module
from kafka_sidecar.proxy.server.server import Server

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
CA, OTHER = authority(), authority("Other CA")
both_loops = pytest.mark.asyncio(loop_factories=["asyncio", "uvloop"])


def clients(folder: Path, **settings: Any) -> dict[str, Any]:
    chain, key = CA.issue("sidecar").write(folder, "sidecar")
    return {"tls": {"certificate": str(chain), "key": str(key), **settings}}


@asynccontextmanager
async def tls_serving(folder: Path, *brokers: FakeBroker, **settings: Any) -> AsyncIterator[Server]:
    """A sidecar whose listeners have TLS."""
    async with serving(*brokers, clients=clients(folder, **settings)) as server:
        yield server


def ended(server: Server, cause: str) -> bool:
    return server.metrics.disconnects[cause] > 0 and not server.connections


def shake_hands(port: int, context: ssl.SSLContext) -> None:
    """As programs do; asyncio's own clients send no alert when they reject a certificate."""
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        secured.recv(1)


def details(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(one)["detail"] for one in caplog.records if one.message == "connection ended"]


@both_loops
async def test_a_client_with_tls_is_served_by_a_broker_without(tmp_path: Path) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        async with connected(port_of(server), CA.client_context()) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
            client.close()
            await until(lambda: ended(server, "client_closed"))
        assert server.tls.clients is not None
        assert server.tls.clients.stats.handshakes == 1


@both_loops
async def test_a_client_without_tls_is_served_by_a_broker_with_tls(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*CA.issue("broker").write(tmp_path, "broker"))
    brokers = {"security_protocol": "SSL", "tls": {"ca": str(CA.write(tmp_path))}}
    async with FakeBroker(tls=context) as broker, serving(broker, brokers=brokers) as server:
        async with connected(port_of(server)) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
        await until(lambda: server.metrics.cluster_reached)


@both_loops
async def test_a_large_response_arrives_whole_at_a_client_that_pauses(tmp_path: Path) -> None:
    frame = oracle.framed(struct.pack(">i", 7) + bytes(range(256)) * 80_000)
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        broker.answers[ApiKey.HEARTBEAT] = fixed(frame)
        async with connected(port_of(server), CA.client_context()) as client:
            client.pause()
            client.send(HEARTBEAT)
            (connection,) = server.connections
            await until(lambda: "the client reads slowly" in connection.client.reasons)
            assert connection.bytes_from_broker < len(frame) // 2
            client.resume()
            assert await client.frame() == frame


@both_loops
async def test_what_was_written_before_a_close_still_arrives(tmp_path: Path) -> None:
    frame = oracle.framed(struct.pack(">i", 7) + bytes(8 << 20))
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        broker.answers[ApiKey.HEARTBEAT] = fixed(frame)
        async with connected(port_of(server), CA.client_context()) as client:
            client.pause()
            client.send(HEARTBEAT)
            await until(lambda: any("the client reads slowly" in one.client.reasons for one in server.connections))
            (connection,) = server.connections
            seen = connection.bytes_from_broker
            broker.drop()
            await asyncio.sleep(0.1)
            client.resume()
            assert len(await client.rest()) >= seen - (1 << 10)


@both_loops
async def test_requests_without_tls_are_refused_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        async with connected(port_of(server)) as client:
            client.send(HEARTBEAT)
            assert await client.rest() == b""
        await until(lambda: ended(server, "tls_handshake_failed"))
    assert details(caplog) == ["the client does not speak TLS: set its security.protocol to SSL or SASL_SSL"]


@both_loops
async def test_a_probe_of_the_port_is_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        async with connected(port_of(server)):
            pass
        await until(lambda: ended(server, "client_closed"))
        assert broker.connected <= 2  # the sidecar's own
    assert [one for one in caplog.records if one.levelno > logging.INFO] == []


@both_loops
async def test_a_client_that_does_not_trust_the_certificate_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(shake_hands, port_of(server), OTHER.client_context())
        await until(lambda: ended(server, "tls_handshake_failed"))
        assert server.tls.clients is not None
        assert server.tls.clients.stats.failures == {"rejected_by_peer": 1}
    (detail,) = details(caplog)
    assert "ssl.truststore.location" in detail


@both_loops
async def test_a_client_certificate_is_required_and_verified(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own, foreign = CA.issue("app").write(tmp_path, "app"), OTHER.issue("app").write(tmp_path, "foreign")
    expired = CA.issue("app", days=-1).write(tmp_path, "expired")
    required = {"client_certificates": "required", "ca": str(CA.write(tmp_path))}
    async with FakeBroker() as broker, tls_serving(tmp_path, broker, **required) as server:
        async with connected(port_of(server), CA.client_context(own)) as client:
            assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
            assert [one.session.principal for one in server.connections] == ["User:CN=app"]
        for certificate in (None, foreign, expired):
            client = await Client.connect(port_of(server), CA.client_context(certificate))
            with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
                await client.ask(HEARTBEAT)
            client.close()
        await until(lambda: server.metrics.disconnects["tls_handshake_failed"] == 3)
        assert server.tls.clients is not None
        assert server.tls.clients.stats.failures == {
            "no_client_certificate": 1, "untrusted_certificate": 1, "expired_certificate": 1,
        }  # fmt: skip


@both_loops
async def test_a_client_without_a_certificate_is_sent_the_alert_that_says_so(tmp_path: Path) -> None:
    required = {"client_certificates": "required", "ca": str(CA.write(tmp_path))}
    async with FakeBroker() as broker, tls_serving(tmp_path, broker, **required) as server:
        for newest, reason in (("TLSv1_2", "ALERT_HANDSHAKE_FAILURE"), ("TLSv1_3", "ALERT_CERTIFICATE_REQUIRED")):
            context = CA.client_context()
            context.maximum_version = ssl.TLSVersion[newest]
            with pytest.raises(ssl.SSLError) as error:
                await asyncio.to_thread(shake_hands, port_of(server), context)
            assert error.value.reason.endswith(reason)


@both_loops
async def test_a_handshake_has_a_time_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker, handshake_timeout="100ms") as server:
        async with connected(port_of(server)) as client:
            client.send(b"\x16\x03\x01")
            assert await client.rest() == b""
        await until(lambda: ended(server, "tls_handshake_failed"))
        assert server.tls.clients is not None
        assert server.tls.clients.stats.failures == {"timeout": 1}
    assert "clients.tls.handshake_timeout" in details(caplog)[0]


@both_loops
async def test_too_many_connections_are_closed_before_their_handshake(tmp_path: Path) -> None:
    async with FakeBroker() as broker:
        limits = {"max_connections": 1}
        async with serving(broker, clients=clients(tmp_path), connections=limits) as server:
            async with connected(port_of(server), CA.client_context()), connected(port_of(server)) as second:
                assert await second.rest() == b""
                assert server.tls.clients is not None
                assert server.tls.clients.stats.handshakes == 1
            await until(lambda: not server.connections)
            assert server.metrics.disconnects["too_many_connections"] == 1


@both_loops
async def test_a_drain_ends_handshakes_that_have_not_ended(tmp_path: Path) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        client = await Client.connect(port_of(server))
        client.send(b"\x16\x03\x01")
        await until(lambda: server.connections)
        hurry = asyncio.Event()
        hurry.set()
        await server.drain(hurry)
        assert not server.connections
        assert await client.rest() == b""
        client.close()


@both_loops
async def test_a_closed_listener_accepts_no_more(tmp_path: Path) -> None:
    async with FakeBroker() as broker:
        async with tls_serving(tmp_path, broker) as server:
            port = port_of(server)
        with pytest.raises(ConnectionRefusedError):
            await Client.connect(port)


@both_loops
async def test_connections_have_no_delay_and_are_kept_alive(tmp_path: Path) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        client = await Client.connect(port_of(server), CA.client_context())
        await client.ask(HEARTBEAT)
        (connection,) = server.connections
        transport = connection.client.transport
        assert transport is not None
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.peer is not None
        client.close()


@both_loops
async def test_a_broker_sees_its_own_name_and_a_client_the_sidecars(tmp_path: Path) -> None:
    """Neither the name that a client asks for (SNI) nor a certificate passes the sidecar (D5)."""
    asked: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*CA.issue("broker").write(tmp_path, "broker"))
    context.sni_callback = lambda _, name, __: asked.append(name)
    brokers = {"security_protocol": "SSL", "tls": {"ca": str(CA.write(tmp_path))}}
    async with FakeBroker(tls=context) as broker:
        address = f"localhost:{broker.port}"
        async with serving(address, clients=clients(tmp_path), brokers=brokers) as server:
            for port in (port_of(server), port_of(server, 1)):
                await until(lambda: server.metrics.broker_listeners)
                seen = await asyncio.to_thread(certificate_at, port)
                assert subject_of(seen) == "CN=sidecar"
            async with connected(port_of(server), CA.client_context()) as client:
                assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
    assert "kafka.example.com" not in asked
    assert "localhost" in asked


def certificate_at(port: int) -> Any:
    context = CA.client_context()
    context.check_hostname = False
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="kafka.example.com") as secured,
    ):
        return secured.getpeercert(True)


@both_loops
async def test_failures_of_brokers_are_named_with_the_remedy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ca = {"ca": str(CA.write(tmp_path))}
    cases = [
        (CA.issue("broker", hosts=["kafka.example.com"]), ca, "the broker's certificate is for another host"),
        (CA.issue("broker", days=-1), ca, "the broker's certificate is not valid at this time"),
        (OTHER.issue("broker"), ca, "the broker's certificate is not from a trusted CA"),
        (CA.issue("broker", hosts=["kafka.example.com"]), {**ca, "verify_hostname": False}, None),
    ]
    for number, (issued, tls, expected) in enumerate(cases):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*issued.write(tmp_path, f"broker-{number}"))
        settings = {"brokers": {"security_protocol": "SSL", "tls": tls}, "connections": {"broker_wait": "0s"}}
        caplog.clear()
        async with (
            FakeBroker(tls=context) as broker,
            serving(broker, **settings) as server,
            connected(port_of(server)) as client,
        ):
            client.send(HEARTBEAT)
            if expected is None:
                assert (await client.frame())[8:] == b"node 1"
            else:
                assert await client.rest() == b""
                await until(partial(ended, server, "broker_tls_failed"))
                assert expected in details(caplog)[-1]


@both_loops
async def test_a_client_that_closes_in_the_middle_of_its_hello_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeBroker() as broker, tls_serving(tmp_path, broker) as server:
        async with connected(port_of(server)) as client:
            client.send(b"\x16\x03\x01\x02")
            await client.flush()
        await until(lambda: ended(server, "tls_handshake_failed"))
    assert details(caplog) == ["the client closed the connection in the handshake"]


class Exhausted(socket.socket):
    """A listening socket of a process that can open no more files, twice."""

    refusals = 2

    def accept(self) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@both_loops
async def test_a_listener_goes_on_when_files_can_be_opened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "PAUSE_S", 0.01)

    def bind(*arguments: Any, **more: Any) -> socket.socket:
        bound = bind_socket(*arguments, **more)
        return Exhausted(fileno=bound.detach())

    monkeypatch.setattr(server_module, "bind_socket", bind)
    async with (
        FakeBroker() as broker,
        tls_serving(tmp_path, broker) as server,
        connected(port_of(server), CA.client_context()) as client,
    ):
        assert (await client.ask(HEARTBEAT))[8:] == b"node 1"
    lines = [vars(one)["detail"] for one in caplog.records if one.message == "connections not accepted"]
    assert lines == ["Too many open files"] * 2


@both_loops
async def test_a_listener_that_was_closed_meanwhile_stays_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "PAUSE_S", 0.01)
    bound = bind_socket("127.0.0.1", 0)
    never: Any = None
    listener = TlsListener(Exhausted(fileno=bound.detach()), never, never, Paced(1), 1.0)
    with socket.create_connection(listener.sockets[0].getsockname()):
        await until(lambda: listener.sockets[0].refusals == 1)  # type: ignore[attr-defined]
        listener.close()
        listener.close()
        await asyncio.sleep(0.05)
    assert listener.sockets[0].fileno() == -1


@both_loops
@pytest.mark.parametrize(("rules", "principal"), [("RULE:^CN=(.*)$/$1/U", "User:ALICE"), ("RULE:^CN=bob$/bob/", None)])
async def test_a_client_is_named_by_the_rules_before_its_first_request_or_disconnected(
    tmp_path: Path, rules: str, principal: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    own = CA.issue("alice").write(tmp_path, "alice")
    settings = clients(tmp_path)
    settings["tls"] |= {"client_certificates": "required", "ca": str(CA.write(tmp_path)), "principal_rules": rules}
    async with FakeBroker() as broker, serving(broker, clients=settings) as server:
        await until(lambda: server.metrics.cluster_reached)
        client = await Client.connect(port_of(server), CA.client_context(own))
        if principal is None:
            assert await client.rest() == b""
            await until(lambda: ended(server, "tls_handshake_failed"))
            assert "no rule of clients.tls.principal_rules is for CN=alice" in details(caplog)[-1]
        else:
            await client.ask(HEARTBEAT)
            (connection,) = server.connections
            assert connection.session.principal == principal
        client.close()


def client_hello() -> bytes:
    """What OpenSSL sends."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = client_hello()


@given(st.integers(1, len(HELLO)))
def test_all_bytes_of_a_client_hello_are_needed(end: int) -> None:
    assert bytes_needed(HELLO[:end]) == (9 if end < 9 else len(HELLO))


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (request(ApiKey.API_VERSIONS, 3, 1), "the client does not speak TLS: set its security.protocol"),
        (b"GET / HTTP/1.1", "the client does not speak TLS: an HTTP request"),
        (b"SSH-2.0-OpenSSH", "the client does not speak TLS: an SSH client"),
        (b"\x16\x02", "the client does not speak TLS"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "is not a whole ClientHello"),
        (b"\x16\x03\x01\xff\xff\x01\x00\xff\x00", "is not a whole ClientHello"),
        (HELLO[:3] + b"\x00\x10" + HELLO[5:], "is not a whole ClientHello"),
    ],
)
def test_anything_else_is_refused(start: bytes, why: str) -> None:
    with pytest.raises(NotTlsError, match=why):
        bytes_needed(start)


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_have_a_bounded_need_or_are_refused(start: bytes) -> None:
    with suppress(NotTlsError):
        assert 9 <= bytes_needed(start) <= 5 + (1 << 14)
