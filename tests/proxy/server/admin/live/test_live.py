"""The stream and the page's files over HTTP: who may have them, and how many; nothing is done without a reader."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import h11
import pytest
from harness.certificates import authority
from harness.ports import free_ports
from support.admin import admin_of, ask, get, get_json, pages, protocols
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, config, connected, port_of, serving, until
from support.pages import ROOT
from support.rejecting import SECRET, guarded, rejected

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server.admin import http as http_module
from kafka_sidecar.proxy.server.admin.http import AdminToken, serve_admin
from kafka_sidecar.proxy.server.admin.live import live as live_module
from kafka_sidecar.proxy.server.admin.live.files import FILES, POLICY
from kafka_sidecar.proxy.server.admin.live.live import MAX_VIEWERS, Live
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.metrics import Metrics

TOKEN = "0123456789abcdef"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTERVAL_S", "FIRST_INTERVAL_S"):
        monkeypatch.setattr(live_module, name, 0.02)


def live() -> Live:
    """Of the admin port that was opened last."""
    admin = protocols[-1].admin
    assert isinstance(admin, Admin)
    return admin._live


@asynccontextmanager
async def stream(port: int, target: str = "/live", head: str = "") -> AsyncIterator[Client]:
    async with connected(port) as client:
        client.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        yield client
    await asyncio.sleep(0.01)  # in which the sidecar notices it


async def snapshots(client: Client, number: int, received: bytes = b"") -> tuple[str, list[Any]]:
    """The head of the response and its first events."""
    while received.count(b"\n\n") < number:
        received += await client.some()
    head, _, body = received.partition(b"\r\n\r\n")
    found = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        chunk, body = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        if not chunk.endswith(b"\n\n"):
            break  # a part of the next one
        event, data = chunk.decode().removesuffix("\n\n").split("\n")
        assert event == "event: snapshot"
        found.append(json.loads(data.removeprefix("data: ")))
    return head.decode().lower(), found


async def test_a_stream_is_server_sent_events_with_rates_from_the_second_on() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port), stream(port) as reader:
        head, found = await snapshots(reader, 3)
    assert "content-type: text/event-stream" in head
    assert "transfer-encoding: chunked" in head
    assert "cache-control: no-store" in head
    assert [one["interval_s"] is None for one in found[:2]] == [True, False]
    assert found[-1]["sidecar"]["ready"] is True
    assert [part for part in ("topics", "connections", "rejections") if part in found[-1]] == []


async def test_a_stream_has_the_parts_that_it_asks_for_and_no_others() -> None:
    async with pages("127.0.0.1:1") as (_, port), stream(port, "/live?with=topics,rejections,passwords") as reader:
        _, found = await snapshots(reader, 1)
        async with stream(port) as other:
            _, without = await snapshots(other, 2)
    assert {"topics", "rejections"} <= set(found[0])
    assert "connections" not in found[0]
    assert "topics" not in without[-1]


async def test_nothing_is_sampled_without_a_reader_and_one_sampler_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        taken: list[frozenset[str]] = []
        source = live()._source

        async def counted(wanted: frozenset[str]) -> Any:
            taken.append(wanted)
            return await source(wanted)

        monkeypatch.setattr(live(), "_source", counted)
        await asyncio.sleep(0.1)
        assert (taken, live().is_sampling) == ([], False)
        monkeypatch.setattr(live_module, "INTERVAL_S", 0.2)
        async with stream(port) as first, stream(port, "/live?with=topics") as second:
            await asyncio.gather(snapshots(first, 3), snapshots(second, 2))
            assert live().is_sampling
            assert len(taken) <= 10
            assert set(taken[-2:]) == {frozenset({"state"}), frozenset({"topics"})}
        await until(lambda: not live().is_sampling)
        number = len(taken)
        await asyncio.sleep(0.3)
        assert len(taken) == number


async def test_without_a_page_there_is_no_task_no_timer_and_nothing_imported_for_it() -> None:
    async with FakeBroker(1) as broker, serving(broker) as server:
        alone, counted = names_of_tasks(), list(server.metrics.features)
        async with admin_of(server) as port:
            for target in ("/", "/page/page.js", "/metrics", "/topics", "/connections"):
                assert (await get(port, target))[0] == 200
            await asyncio.sleep(0.05)
            assert (live()._sampling, live()._members, live()._encoded) == (None, {}, {})
            assert names_of_tasks() <= alone
            # What is counted for the admin port is whom it has refused, and taps.
            admin = protocols[-1].admin
            assert [one for one in server.metrics.features if one not in counted] == [
                admin.refusals.families,
                admin._taps.families,  # type: ignore[attr-defined]
            ]
            async with stream(port) as reader:
                await snapshots(reader, 1)
                assert "sample for readers of /live" in names_of_tasks() - alone
            await until(lambda: names_of_tasks() <= alone)
            assert not live().is_sampling
            assert (live()._members, live()._encoded, live()._readers, live()._streams) == ({}, {}, {}, {})
    code = (
        "import sys; from kafka_sidecar.proxy.server.admin.live.live import Live; "
        "from kafka_sidecar.proxy.server.admin.pages import Admin; "
        "print([one for one in sys.modules if one.rpartition('.')[2] in ('series', 'encoding', 'snapshot') "
        "and '.live.' in one])"
    )
    run = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


def names_of_tasks() -> set[str]:
    return {one.get_name() for one in asyncio.all_tasks() if one is not asyncio.current_task()}


async def test_readers_that_come_and_go_quickly_leave_nothing() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        for number in range(60):
            async with connected(port) as client:
                client.send(b"GET /live?with=topics,connections,rejections HTTP/1.1\r\nHost: localhost\r\n\r\n")
                if number % 3 == 0:
                    await client.some()
                if number % 3 == 1:
                    client.abort()
        await until(lambda: not live().is_sampling)
        assert (live()._readers, live()._streams, live()._members) == ({}, {}, {})
        assert gc.isenabled()
        async with stream(port) as reader:
            assert (await snapshots(reader, 2))[1][-1]["interval_s"] is not None


async def test_readers_that_come_and_go_do_not_make_more_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_module, "FIRST_INTERVAL_S", 1000.0)
    async with pages("127.0.0.1:1") as (_, port):
        async with stream(port) as first:
            await snapshots(first, 1)
        await until(lambda: not live().is_sampling)
        taken: list[frozenset[str]] = []

        async def source(wanted: frozenset[str]) -> Any:
            taken.append(wanted)
            return {}

        monkeypatch.setattr(live(), "_source", source)
        for _ in range(20):
            async with stream(port):
                await until(lambda: live().is_sampling)
            await until(lambda: not live().is_sampling)
    assert taken == []


async def test_a_rejection_appears_between_two_snapshots_and_only_for_those_who_want_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_module, "INTERVAL_S", 1000.0)
    async with (
        guarded() as (server, port),
        stream(port, "/live?with=rejections") as reader,
        stream(port, "/live?with=topics") as other,
    ):
        _, earlier = await snapshots(reader, 2)
        await snapshots(other, 1)
        await live()._renew()  # there is nothing new, so nothing is sent
        rejection = await rejected(server, "bad")
        await live()._renew()
        _, (between,) = await more(reader, 1)
        assert not other._reader._buffer  # type: ignore[attr-defined]
    assert between["timestamp"] == earlier[-1]["timestamp"]
    assert [one["id"] for one in between["rejections"]] == [rejection]


@pytest.mark.parametrize(("parts", "is_looked"), [("topics,rejections", True), ("topics,connections", False)])
async def test_it_is_looked_for_rejections_in_between_if_a_reader_wants_them(
    parts: str, is_looked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pages("127.0.0.1:1") as (_, port):
        looked = []

        async def renew() -> None:
            looked.append(1)

        monkeypatch.setattr(live(), "_renew", renew)
        async with stream(port, f"/live?with={parts}") as reader:
            await snapshots(reader, 4)
    assert bool(looked) is is_looked


async def test_without_other_rejections_nothing_is_sent_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    async with guarded() as (server, port), stream(port, "/live?with=rejections") as reader:
        await rejected(server, "bad")
        monkeypatch.setattr(live_module, "INTERVAL_S", 0.1)
        _, found = await snapshots(reader, 6)
    assert len({one["timestamp"] for one in found[2:]}) == len(found[2:])


async def more(client: Client, number: int) -> tuple[str, list[Any]]:
    """The next events."""
    return await snapshots(client, number, b"\r\n\r\n")


async def test_a_reader_without_chunks_gets_the_events_as_they_are() -> None:
    async with pages("127.0.0.1:1") as (_, port), connected(port) as client:
        client.send(b"GET /live HTTP/1.0\r\nHost: localhost\r\n\r\n")
        received = b""
        while received.count(b"\n\n") < 2:
            received += await client.some()
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    assert body.startswith(b'event: snapshot\ndata: {"timestamp"')
    assert b"\n\nevent: snapshot\ndata: {" in body


async def test_chunks_are_those_that_an_http_library_reads() -> None:
    async with pages("127.0.0.1:1") as (_, port), connected(port) as client:
        client.send(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reading, events = h11.Connection(h11.CLIENT), b""
        reading.send(h11.Request(method="GET", target="/live", headers=[("Host", "localhost")]))
        reading.send(h11.EndOfMessage())
        while events.count(b"\n\n") < 3:
            reading.receive_data(await client.some())
            while (event := reading.next_event()) is not h11.NEED_DATA:
                events += event.data if isinstance(event, h11.Data) else b""
    assert [json.loads(one.partition(b"data: ")[2])["sidecar"]["ready"] for one in events.split(b"\n\n")[:3]]


async def test_streams_are_bounded_and_the_next_one_gets_a_place_once_one_has_ended() -> None:
    async with pages("127.0.0.1:1") as (_, port), AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(stream(port)) for _ in range(MAX_VIEWERS)]
        for one in opened:
            await snapshots(one, 1)
        status, _, body = await get(port, "/live")
        assert (status, "16 readers" in json.loads(body)["error"]) == (503, True)
        assert (await get(port, "/livez"))[0] == 200
        opened[0].close()
        await until(lambda: len(live()._streams) < MAX_VIEWERS)
        async with stream(port) as late:
            await snapshots(late, 1)


async def test_a_reader_that_does_not_read_loses_its_place_and_holds_one_snapshot_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_module, "MAX_MISSED", 3)
    async with pages("127.0.0.1:1") as (_, port), stream(port) as slow, stream(port) as other:
        await snapshots(slow, 1)
        slow.pause()
        big = b"x" * (8 << 20)  # more than the sockets hold
        await until(lambda: len(live()._streams) == 2)
        viewer = next(iter(live()._streams))
        viewer.send(big)
        buffered = viewer._transport.get_write_buffer_size()  # type: ignore[attr-defined]
        assert buffered > 0
        await until(lambda: len(live()._streams) == 1)
        assert viewer not in live()._streams
        _, found = await snapshots(other, 3)
        assert len(found) >= 3


async def test_a_token_is_needed_for_data_and_not_for_the_files(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    async with pages("127.0.0.1:1") as (_, port):
        protocols[-1].token = AdminToken(file)
        for target in ("/", "/page/page.js", "/?x"):
            assert (await get(port, target))[0] == 200
        for target in ("/live", "/snapshot", "/live?with=topics", "/page/../metrics", "/rejections"):
            assert (await get(port, target))[0] in (401, 404)
        assert (await get(port, "/snapshot"))[0] == 401
        async with stream(port, head=f"Authorization: Bearer {TOKEN}\r\n") as reader:
            assert (await snapshots(reader, 1))[1]


async def test_the_host_is_checked_for_files_and_streams() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        for target in ("/", "/page/page.js", "/live", "/snapshot"):
            raw = await ask(
                port, f"GET {target} HTTP/1.1\r\nHost: evil.example.com\r\nConnection: close\r\n\r\n".encode()
            )
            assert raw.startswith(b"HTTP/1.1 403")


async def test_a_page_of_another_site_gets_no_stream() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        assert (await get(port, "/live", head="Sec-Fetch-Site: cross-site\r\n"))[0] == 403
        assert not live().is_sampling
        assert (await get(port, "/live", method="HEAD"))[0] == 200
        assert not live().is_sampling


async def test_a_browser_may_run_the_page_s_own_files_and_nothing_else() -> None:
    async with pages("127.0.0.1:1") as (_, port):
        status, headers, body = await get(port, "/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        for directive in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"):
            assert directive in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert b"<script>" not in body
        assert b" style=" not in body
        assert (await get(port, "/snapshot"))[1]["x-content-type-options"] == "nosniff"


async def test_the_page_is_off_with_one_setting_and_the_values_stay() -> None:
    async with pages("127.0.0.1:1", admin={"page": False}) as (server, port):
        for target in ("/", "/page/page.js"):
            status, _, body = await get(port, target)
            assert (status, json.loads(body)["pages"]) == (404, Admin(server).paths)
        assert "/" not in Admin(server).paths
        assert (await get_json(port, "/snapshot"))["sidecar"]["ready"] is False


async def test_one_snapshot_has_rates_and_the_parts_that_are_asked_for() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=b"app"))
        found = await get_json(port, "/snapshot?with=connections")
    assert found["interval_s"] > 0
    (one,) = found["connections"]["rows"]
    assert (one["client_id"], one["apis"], one["removed_apis"]) == ("app", ["Heartbeat v3"], [])
    (requests,) = [one for one in found["metrics"]["engine"] if one["name"] == "client_to_proxy_request"]
    assert requests["rows"] == [{"of": ["Heartbeat"], "value": 1, "rate": 0.0}]
    assert not live().is_sampling


async def test_connections_show_old_versions_what_they_wait_for_and_keep_why_they_ended() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.DELETE_TOPICS, 0, 1))
            (connection,) = server.connections
            connection.client.pause("the broker reads slowly")
            (one,) = (await get_json(port, "/snapshot?with=connections"))["connections"]["rows"]
            assert one["removed_apis"] == ["DeleteTopics v0"]
            (pause,) = one["pauses"]
            assert (pause["side"], pause["reason"]) == ("client", "the broker reads slowly")
            assert pause["for_s"] > 0
            connection.client.resume("the broker reads slowly")
        await until(lambda: not server.connections)
        (closed,) = (await get_json(port, "/snapshot?with=connections"))["connections"]["closed"]
        assert (closed["session"], closed["cause"]) == (one["session"], "client_closed")


async def test_rejections_say_whose_they_are_and_no_payload() -> None:
    async with guarded() as (server, port):
        rejection = await rejected(server, f"bad {SECRET}")
        found = await get_json(port, "/snapshot?with=rejections,topics")
    (one,) = found["rejections"]
    assert (one["id"], one["topic"], one["outcome"], one["policy"]) == (rejection, "orders", "rejected", "stub")
    assert one["client"] == "127.0.0.1"
    assert SECRET not in json.dumps(found)
    (topic,) = found["topics"]["rows"]
    assert (topic["topic"], topic["validation"]["mode"]) == ("orders", "enforce")


@pytest.mark.parametrize(
    "name", [b"<script>alert(1)</script>", b"\xff\xfe not UTF-8", "\u202egnp.exe".encode(), b"\x1b[2J\0", b"x" * 249]
)
async def test_a_hostile_client_id_survives_json(name: bytes) -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 1, client_id=name))
        status, _, body = await get(port, "/snapshot?with=connections")
    assert status == 200
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in body)
    (one,) = json.loads(body)["connections"]["rows"]
    assert one["client_id"].encode(errors="surrogateescape") == name


async def test_a_source_that_fails_costs_one_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    async with pages("127.0.0.1:1") as (server, port):
        broken = [1]

        def families() -> list[Any]:
            if broken:
                broken.pop()
                raise RuntimeError("a plug-in")
            return []

        server.metrics.features.append(families)
        async with stream(port) as reader:
            assert (await snapshots(reader, 2))[1]
    assert "snapshot failed: this is a bug" in caplog.text


async def test_a_reader_that_sends_more_than_its_request_is_dropped() -> None:
    async with pages("127.0.0.1:1") as (_, port), stream(port) as reader:
        await snapshots(reader, 1)
        reader.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await until(lambda: not live()._streams)


async def test_it_is_served_with_tls_too(tmp_path: Path) -> None:
    ca = authority()
    certificate, key = ca.issue("admin").write(tmp_path, "admin")
    (admin_port,) = free_ports(1)
    tls = {"certificate": str(certificate), "key": str(key)}
    settings = config("127.0.0.1:1", admin={"listen": f"127.0.0.1:{admin_port}", "tls": tls})
    server = Server(settings, Metrics())
    listener, _ = serve_admin(Admin(server), settings, server.tls.admin)
    async with connected(admin_port, ca.client_context()) as client:
        client.send(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, found = await snapshots(client, 1)
    assert head.startswith("http/1.1 200")
    assert found
    listener.close()
    await asyncio.sleep(0.05)


def test_every_file_of_the_page_is_served_and_no_other() -> None:
    names = {path.rpartition("/")[2] or "index.html" for path in FILES}
    assert {"index.html", "page.css", "page.js", "uPlot.iife.min.js", "uPlot.min.css"} <= names
    assert not [name for name in names if name.endswith((".sha256", ".LICENSE"))]
    assert sum(len(page.body) for page in FILES.values()) < 200_000


def test_the_page_asks_no_other_host() -> None:
    for path, page in FILES.items():
        text = (
            page.body.decode()
            .replace("http://www.w3.org/2000/svg", "")
            .replace("https://github.com/leeoniya/uPlot", "")
        )
        assert "http://" not in text, path
        assert "https://" not in text, path


def test_the_library_for_charts_is_what_make_vendor_page_has_fetched() -> None:
    folder = Path(live_module.__file__).parent / "page"
    lines = (folder / "uPlot.sha256").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    assert set(sums) == {"uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE"}
    assert {name: sha256((folder / name).read_bytes()).hexdigest() for name in sums} == sums
    (version,) = re.findall(r"^UPLOT := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert f"(v{version})" in (folder / "uPlot.iife.min.js").read_text()[:100]
    assert "MIT License" in (folder / "uPlot.LICENSE").read_text()
