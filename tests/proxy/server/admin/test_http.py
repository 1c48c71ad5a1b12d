"""The admin port as Kubernetes, Prometheus and careless clients use it."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from harness.certificates import authority
from prometheus_client.parser import text_string_to_metric_families
from support.admin import ask, get, pages, protocols
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, config, connected, port_of, until
from support.topic_configs import Cluster

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server.admin import exposition
from kafka_sidecar.proxy.server.admin import http as http_module
from kafka_sidecar.proxy.server.admin import pages as pages_module
from kafka_sidecar.proxy.server.admin.http import (
    MAX_CONNECTIONS,
    MAX_REQUEST_BYTES,
    AdminToken,
    TokenError,
    serve_admin,
)
from kafka_sidecar.proxy.server.admin.page import Page
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

TOKEN = "0123456789abcdef"


async def test_without_a_cluster_it_is_live_but_not_ready() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert (await get(port, "/livez"))[0] == 200
        status, _, body = await get(port, "/readyz")
        state = json.loads(body)
        assert (status, state["ready"], state["listening"], state["cluster_reached"]) == (503, False, True, False)


async def test_it_is_ready_once_the_cluster_was_reached_and_lists_its_brokers() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        await until(lambda: server.addresses.nodes)
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
            status, headers, body = await get(port, "/readyz")
        assert (status, headers["content-type"]) == (200, "application/json")
        assert json.loads(body) == {
            "ready": True, "listening": True, "cluster_reached": True, "listen": server.config.listen,
            "nodes": {"1": {"port": port_of(server, 1)}}, "connections": 1, "topics_known": 0,
            "connects_to_itself": False, "broker_login": "disabled",
            "topic_configs": "disabled",
        }  # fmt: skip


async def test_it_is_not_ready_while_its_topic_configs_are_lost_until_they_are_recovered() -> None:
    cluster = Cluster()
    async with FakeBroker(1) as broker, pages(broker) as (server, port), cluster.sidecar() as configs:
        await until(lambda: server.metrics.cluster_reached)
        server.features.made["topic_configs"] = configs

        async def state() -> tuple[int, str]:
            status, _, body = await get(port, "/readyz?verbose")
            return status, json.loads(body)["topic_configs"]

        assert await state() == (200, "ready")
        cluster.stores[0].trouble = "no broker answers"
        assert await state() == (200, "ready")
        cluster.stores[0].lose("it was deleted")
        assert await state() == (503, "the sidecar's topic configs are lost: it was deleted")
        assert b'kafka_sidecar_topic_configs_trouble{reason="lost"} 1.0' in (await get(port, "/metrics"))[2]
        cluster.stores[0].trouble = None
        server.features.recover()
        assert await state() == (200, "ready")
        server.features.made.clear()
        server.features.recover()


async def test_it_stays_ready_after_the_cluster_went_away() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        await until(lambda: server.metrics.cluster_reached)
        await broker.stop()
        assert (await get(port, "/readyz"))[0] == 200


async def test_a_draining_sidecar_is_live_but_not_ready() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
        draining = asyncio.ensure_future(server.drain(asyncio.Event()))
        await until(lambda: not server.listening)
        assert [(await get(port, page))[0] for page in ("/readyz", "/livez")] == [503, 200]
        client.close()
        await draining


async def test_prometheus_parses_the_metrics() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.HEARTBEAT, 3, 1))
        status, headers, body = await get(port, "/metrics?name[]=x")
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
        families = {family.name: family for family in text_string_to_metric_families(body.decode())}
        (sample,) = families["kafka_sidecar_client_to_proxy_request"].samples
        assert (sample.labels, sample.value) == ({"api_key": "Heartbeat"}, 1)


@pytest.mark.parametrize(
    "target",
    ["/index.html", "/page/", "/page/../metrics", "/metrics/", "/livez/x", "*", "/%2e%2e/livez", "http://x/livez"],
)
async def test_an_unknown_page_is_404_with_a_list_of_pages(target: str) -> None:
    async with pages("127.0.0.1:1") as (server, port):
        status, _, body = await get(port, target)
        assert (status, json.loads(body)["pages"]) == (404, Admin(server).paths)


@pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS", "PATCH"])
async def test_other_methods_than_get_and_head_are_405(method: str) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert (await get(port, "/livez", method))[0] == 405


async def test_head_gets_the_headers_without_the_body() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        _, headers, body = await get(port, "/livez")
        head_status, head_headers, head_body = await get(port, "/livez", "HEAD")
        assert (head_status, head_headers, head_body) == (200, headers, b"")
        assert int(headers["content-length"]) == len(body)


async def test_one_connection_serves_many_requests_in_one_chunk_or_byte_by_byte() -> None:
    raw = (
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3
        + b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    async with pages("127.0.0.1:1") as (_, port):
        whole = await ask(port, raw)
        assert whole.count(b"HTTP/1.1 200") == 4
        async with connected(port) as client:
            for at in range(len(raw)):
                client.send(raw[at : at + 1])
                await client.flush()
            assert await client.rest() == whole


async def test_a_request_body_is_skipped() -> None:
    raw = (
        b"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    async with pages("127.0.0.1:1") as (_, port):
        answers = (await ask(port, raw)).split(b"HTTP/1.1 ")[1:]
        assert [answer[:3] for answer in answers] == [b"405", b"200"]


async def test_http_1_0_gets_a_response_and_a_close() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert b"200" in await ask(port, b"GET /livez HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    "raw", [b"\x00\x01\r\n\r\n", b"GET /livez HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a" + bytes(70_000)]
)
async def test_what_is_no_http_request_ends_the_connection_without_a_response(raw: bytes) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert await ask(port, raw) == b""


async def test_pipelined_requests_are_served_one_in_a_turn_of_the_event_loop() -> None:
    async with pages("127.0.0.1:1") as (_, port), connected(port) as client:
        turns, served, waiting = 0, 0, True

        def turn() -> None:
            nonlocal turns
            turns += 1
            if waiting:
                asyncio.get_running_loop().call_soon(turn)

        client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        turn()
        while served < 100:
            served += (await client.some()).count(b"HTTP/1.1 200")
        waiting = False
        assert turns >= 100


async def test_requests_of_many_connections_are_served_one_in_a_turn_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with pages("127.0.0.1:1") as (_, port), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(port)) for _ in range(20)]
        turns, served_in = 0, list[int]()

        def turn() -> None:
            nonlocal turns
            turns += 1
            if len(served_in) < len(clients):
                asyncio.get_running_loop().call_soon(turn)

        def page(*_: object) -> Page:
            served_in.append(turns)
            return Page(200, "text/plain", b"")

        monkeypatch.setattr(protocols[-1].admin, "page", page)
        turn()
        for client in clients:
            client.send(b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: len(served_in) == len(clients))
        # One that is served at once and one that has waited may come in the same turn, before and after `turn`.
        assert max(Counter(served_in).values()) <= 2
        assert len(set(served_in)) > len(clients) // 2


async def test_a_client_that_reads_no_response_gets_no_further_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pages("127.0.0.1:1") as (server, port), connected(port) as client:
        rendered: list[bytes] = []
        pad = b"#" * (1 << 20)

        def page(*_: object) -> Page:
            rendered.append(pad)
            return Page(200, "text/plain", pad)

        monkeypatch.setattr(protocols[-1].admin, "page", page)
        client.pause()
        client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
        await until(lambda: rendered)
        await asyncio.sleep(0.05)
        before = len(rendered)
        assert before < 20
        client.resume()
        await until(lambda: len(rendered) > before)
        assert server.listening


async def test_metrics_are_rendered_once_a_second_and_are_never_older_than_their_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages_module, "RENDER_INTERVAL_S", 0.05)
    times: list[float] = []

    def render(metrics: Metrics) -> bytes:
        times.append(time.monotonic())
        return b"%d" % len(times)

    monkeypatch.setattr(exposition, "render", render)
    async with pages("127.0.0.1:1") as (_, port):
        bodies = [(await get(port, "/metrics"))[2] for _ in range(2)]
        bodies += [body for *_, body in await asyncio.gather(*(get(port, "/metrics") for _ in range(10)))]
    assert bodies[:2] == [b"1", b"2"]
    assert len(times) <= 4
    assert min(later - sooner for sooner, later in pairwise(times)) >= 0.045  # timers are exact to a millisecond


async def test_a_connection_over_the_limit_takes_the_place_of_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MAX_CONNECTIONS", 2)
    async with pages("127.0.0.1:1") as (_, port), connected(port) as one, connected(port) as two:
        await until(lambda: len(protocols[-1].places) == 2)
        assert (await get(port, "/livez"))[0] == 200
        assert await one.rest() == b""
        assert (await get(port, "/livez"))[0] == 200
        two.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert b" 200 " in await two.rest()
        await until(lambda: not protocols[-1].places)


async def test_probes_are_answered_whatever_others_hold_and_do_not_read() -> None:
    """Nor does a request whose response is not read keep a place."""
    async with pages("127.0.0.1:1") as (_, port), AsyncExitStack() as stack:
        for number in range(3 * MAX_CONNECTIONS):
            client = await Client.connect(port)
            stack.callback(client.abort)
            client.pause()
            if number % 2:
                client.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
            if not number % 10:
                assert (await get(port, "/livez"))[0] == 200
        assert len(protocols[-1].places) <= MAX_CONNECTIONS
        await stack.aclose()
        await until(lambda: not protocols[-1].places)


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTT", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_a_connection_without_a_further_request_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "TIME_LIMIT_S", 0.05)
    monkeypatch.setattr(http_module, "FIRST_REQUEST_S", 0.05)
    async with pages("127.0.0.1:1") as (_, port), connected(port) as client:
        client.send(sent)
        assert (b"200" in await client.rest()) == (sent[-4:] == b"\r\n\r\n")


HOSTS = {
    "localhost": 200, "LOCALHOST:9190": 200, "127.0.0.1:9190": 200, "[::1]:9190": 200, "[::1]": 200, "10.1.2.3": 200,
    "sidecar.example.com:9190": 200, "metrics.prod.svc:80": 200, "attacker.example.com:9190": 403, "": 403,
    "localhost.attacker.example.com": 403, "127.0.0.1.attacker.example.com": 403, "metrics.test.svc": 403,
}  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
async def test_a_page_is_shown_to_those_who_name_this_host_only(host: str) -> None:
    """A web page whose name was made to resolve to 127.0.0.1 could read it otherwise."""
    settings: dict[str, Any] = {
        "nodes": {"advertised_host": "sidecar.example.com"}, "admin": {"allowed_hosts": ["*.prod.svc"]},
    }  # fmt: skip
    async with pages("127.0.0.1:1", **settings) as (_, port):
        raw = await ask(port, f"GET /livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert int(raw.split()[1]) == HOSTS[host]


NOT_HTTP = {
    "Kafka": request(ApiKey.API_VERSIONS, 3, 1, bytes(40)),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "half a line": b"GET\r\n\r\n",
    "empty lines": b"\r\n" * 20_000,
    "an endless header": b"GET / HTTP/1.1\r\nX: " + b"x" * (2 * MAX_REQUEST_BYTES),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a tunnel": b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\nmore",
}


@pytest.mark.parametrize("name", NOT_HTTP)
async def test_invalid_http_breaks_nothing(name: str) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with pages("127.0.0.1:1") as (_, port):
        client = await Client.connect(port)
        client.send(NOT_HTTP[name])
        assert (await client.some())[:12] == (b"HTTP/1.1 405" if name == "a tunnel" else b"")
        client.send(b"x")
        client.close()
        assert (await get(port, "/livez"))[0] == 200
    assert errors == []


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return tmp_path / "token"


@pytest.mark.parametrize(
    ("target", "authorization", "is_allowed"),
    [
        ("/metrics", f"Bearer {TOKEN}", True),
        ("/metrics", f"bearer  {TOKEN}", True),
        ("/metrics", None, False),
        ("/metrics", TOKEN, False),
        ("/metrics", f"Basic {TOKEN}", False),
        ("/metrics", f"Bearer {TOKEN}x", False),
        ("/livez", None, True),
        ("/readyz", None, True),
        ("/readyz?verbose", None, False),
        ("/livez/../metrics", None, False),
        ("//livez", None, False),
    ],
)
def test_only_probes_need_no_token(file: Path, target: str, authorization: str | None, is_allowed: bool) -> None:
    header = authorization.encode() if authorization is not None else None
    assert AdminToken(file).allows(target, header) is is_allowed


def test_a_new_token_applies_at_once_and_an_unusable_one_is_rejected(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = AdminToken(file)
    file.write_text("another-token-of-the-admin-port")
    assert token.allows("/metrics", b"Bearer another-token-of-the-admin-port")
    assert not token.allows("/metrics", f"Bearer {TOKEN}".encode())
    file.write_text("short")
    assert token.allows("/metrics", b"Bearer another-token-of-the-admin-port")
    assert "admin token rejected" in caplog.text
    assert "short" not in caplog.text.replace("no token", "")


@pytest.mark.parametrize("text", ["", "short", "with a space in the token", "schlüssel-schlüssel"])
def test_a_file_without_a_usable_token_is_an_error_that_does_not_quote_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(TokenError, match="at least 16 ASCII characters") as raised:
        AdminToken(tmp_path / "token")
    assert not text or text not in str(raised.value)
    with pytest.raises(TokenError, match="name a readable file"):
        AdminToken(tmp_path / "missing")


async def test_a_page_without_the_token_is_401_and_says_what_is_missing(file: Path) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        protocols[-1].token = AdminToken(file)
        status, headers, body = await get(port, "/metrics")
        assert (status, headers["www-authenticate"]) == (401, "bearer")
        assert b"admin.token_file" in body
        assert (await get(port, "/livez"))[0] == 200


async def test_what_is_refused_is_counted_and_leaves_a_line_without_what_was_sent(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with pages("127.0.0.1:1") as (server, port):
        protocols[-1].token = AdminToken(file)
        for _ in range(3):
            assert (await get(port, "/metrics?token=guessed"))[0] == 401
        protocols[-1].token = None
        foreign = b"GET /metrics HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n"
        assert (await ask(port, foreign)).startswith(b"HTTP/1.1 403")
        assert (await get(port, "/nothing"))[0] == 404
        families = [one for families in server.metrics.features for one in families()]
    (family,) = [one for one in families if one.name == "admin_requests_refused"]
    assert family.samples == {("token",): 3, ("host",): 1}
    lines = [vars(one) for one in caplog.records if one.getMessage() == "admin request refused"]
    assert [(one["reason"], one["detail"], one["client"]) for one in lines] == [
        ("token", "/metrics", "127.0.0.1"), ("host", "/metrics", "127.0.0.1"),
    ]  # fmt: skip
    assert "guessed" not in caplog.text


async def test_a_default_admin_port_in_use_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config("127.0.0.1:1")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setattr(http_module, "DEFAULT_ADMIN", "{}:{}".format(*other.getsockname()))
        admin, address = serve_admin(Admin(Server(settings, Metrics())), settings)
        async with connected(int(address.rpartition(":")[2])) as client:
            client.send(b"GET /livez HTTP/1.0\r\n\r\n")
            assert b"200" in await client.rest()
        admin.close()
    assert caplog.messages == ["default admin port in use"]


async def test_a_configured_admin_port_in_use_is_a_mistake() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = config("127.0.0.1:1", admin={"listen": "{}:{}".format(*other.getsockname())})
        with pytest.raises(ConfigError, match=r"admin.listen: .* cannot be bound: Address already in use; choose"):
            serve_admin(Admin(Server(settings, Metrics())), settings)


async def test_a_token_file_that_cannot_be_used_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short")
    settings = config("127.0.0.1:1", admin={"token_file": tmp_path / "token"})
    with pytest.raises(ConfigError, match=r"admin\.token_file: .* has no token: write at least 16"):
        serve_admin(Admin(Server(settings, Metrics())), settings)


CA = authority()


def secured(folder: Path, **more: str) -> Config:
    chain, key = CA.issue("localhost").write(folder, "own")
    tls = {"certificate": str(chain), "key": str(key), **more}
    return config("127.0.0.1:1", admin={"listen": "127.0.0.1:0", "tls": tls})


@asynccontextmanager
async def opened(settings: Config) -> AsyncIterator[int]:
    """The port."""
    server = Server(settings, Metrics())
    admin, address = serve_admin(Admin(server), settings, server.tls.admin)
    yield int(address.rpartition(":")[2])
    admin.close()


async def answer(port: int, context: ssl.SSLContext) -> tuple[bytes, dict[str, Any]]:
    """The first line of a response, and the certificate that was presented."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    line = await reader.readline()
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return line, certificate


async def test_with_a_certificate_the_admin_port_speaks_tls_and_nothing_else(tmp_path: Path) -> None:
    async with opened(secured(tmp_path)) as port:
        line, _ = await answer(port, CA.client_context())
        assert line.startswith(b"HTTP/1.1 200")
        async with connected(port) as plain:
            plain.send(b"GET /livez HTTP/1.0\r\n\r\n")
            assert b"HTTP" not in await plain.rest()


async def test_a_renewed_certificate_of_the_admin_port_is_presented_by_later_handshakes(tmp_path: Path) -> None:
    async with opened(secured(tmp_path)) as port:
        _, before = await answer(port, CA.client_context())
        CA.issue("localhost").write(tmp_path, "own")
        for _ in range(3):
            _, after = await answer(port, CA.client_context())
        assert after["serialNumber"] != before["serialNumber"]


async def test_the_admin_port_can_require_a_certificate(tmp_path: Path) -> None:
    required = {"client_certificates": "required", "ca": str(CA.write(tmp_path, "ca"))}
    async with opened(secured(tmp_path, **required)) as port:
        own = CA.issue("prometheus").write(tmp_path, "prometheus")
        line, _ = await answer(port, CA.client_context(own))
        assert line.startswith(b"HTTP/1.1 200")
        try:
            line, _ = await answer(port, CA.client_context())
        except (ssl.SSLError, ConnectionError):
            line = b""
        assert line == b""


async def test_half_handshakes_take_places_and_a_probe_gets_one(tmp_path: Path) -> None:
    async with opened(secured(tmp_path)) as port, AsyncExitStack() as stack:
        halves = [await Client.connect(port) for _ in range(2 * MAX_CONNECTIONS)]
        for half in halves:
            stack.callback(half.abort)
            half.send(b"\x16\x03\x01")
        async with connected(port, CA.client_context()) as client:
            client.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b" 200 " in await client.rest()
        assert await halves[0].rest() == b""
