"""Taps over HTTP: who may open one, how it ends, and what a slow reader loses."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.admin import get, get_json, pages, protocols
from support.dialogue import request
from support.fake_broker import FakeBroker
from support.in_process import Client, config, connected, port_of, until
from support.produce_requests import batch, produce_request
from support.rejecting import guarded, rejected

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server.admin.http import AdminProtocol
from kafka_sidecar.proxy.server.admin.page import Page, Viewer
from kafka_sidecar.proxy.server.admin.pages import Admin
from kafka_sidecar.proxy.server.admin.tap import streams as streams_module
from kafka_sidecar.proxy.server.admin.tap.streams import TapStreams

Row = dict[str, Any]


class Lines:
    """The lines of a tap so far."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._received = b""

    async def until(self, kind: str) -> Row:
        """The next line of a kind."""
        while True:
            *lines, self._received = self._received.split(b"\n")
            while lines:
                line = lines.pop(0)
                if line.startswith(b"{") and (row := json.loads(line))["kind"] == kind:
                    self._received = b"\n".join([*lines, self._received])
                    return row  # type: ignore[no-any-return]
            self._received += await self.client.some()


@asynccontextmanager
async def tapping(port: int, query: str) -> AsyncIterator[Lines]:
    async with connected(port) as client:
        client.send(f"GET /tap?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        lines = Lines(client)
        await lines.until("tap")
        yield lines


def taps() -> TapStreams:
    """Of the admin port that was opened last."""
    admin = protocols[-1].admin
    assert isinstance(admin, Admin)
    return admin._taps


async def ask(port: int, query: str) -> tuple[int, str]:
    status, _, body = await get(port, f"/tap?{query}")
    return status, json.loads(body)["error"]


async def test_requests_are_shown_while_a_tap_is_open_and_nothing_watches_them_before_and_after() -> None:
    asked = request(ApiKey.API_VERSIONS, 2, 5)
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        await client.ask(asked)
        key_version = ApiKey.API_VERSIONS << 16 | 2
        before = server._routes.get(key_version)
        assert before is not None
        assert before.tap is None
        async with tapping(port, "kind=requests") as lines:
            await client.ask(asked)
            line = await lines.until("request")
            assert (line["api"], line["correlation_id"]) == ("ApiVersions", 5)
        await until(lambda: not taps()._streams)
        await client.ask(asked)
        after = server._routes.get(key_version)
        assert after is not None
        assert after.tap is None


def test_an_idle_sidecar_does_not_import_what_taps_need() -> None:
    code = "import sys, kafka_sidecar.proxy.server.process; print([m for m in sys.modules if '.tap.' in m])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"hub", "records", "requests", "reading", "events"} & {
        name.rpartition(".")[2] for name in printed.strip("[]\n").replace("'", "").split(", ")
    }


async def test_rejections_appear_with_their_ids() -> None:
    async with guarded() as (server, port), tapping(port, "kind=rejections&topic=ord*") as lines:
        rejection_id = await rejected(server, "bad")
        line = await lines.until("rejection")
    assert (line["id"], line["topic"], line["outcome"]) == (rejection_id, "orders", "rejected")


async def test_rejections_that_were_there_before_are_not_shown() -> None:
    async with guarded() as (server, port):
        await rejected(server, "bad")
        async with tapping(port, "kind=rejections") as lines:
            rejection_id = await rejected(server, "bad")
            assert (await lines.until("rejection"))["id"] == rejection_id


async def test_connections_appear_with_the_reason_of_their_end() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), tapping(port, "kind=connections") as lines:
        async with connected(port_of(server)) as client:
            await client.ask(request(ApiKey.API_VERSIONS, 2, 5))
            opened = await lines.until("connection")
        closed = await lines.until("connection")
    assert (opened["event"], closed["event"], closed["cause"]) == ("opened", "closed", "client_closed")
    assert (opened["session"], closed["client_id"]) == (closed["session"], "app")


async def test_a_tap_ends_after_its_count_and_after_its_seconds() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (server, port), connected(port_of(server)) as client:
        async with tapping(port, "kind=requests&count=2") as lines:
            for number in range(4):
                await client.ask(request(ApiKey.API_VERSIONS, 2, number))
            found = [await lines.until("request"), await lines.until("request"), await lines.until("end")]
            assert [one.get("correlation_id", one.get("why")) for one in found] == [0, 1, "count"]
            assert (lines._received + await lines.client.rest()).endswith(b"0\r\n\r\n")
        async with tapping(port, "kind=requests&seconds=0.05") as lines:
            assert (await lines.until("end"))["why"] == "seconds"
        await until(lambda: not taps()._streams)


async def test_more_taps_than_configured_are_refused() -> None:
    async with FakeBroker(1) as broker, pages(broker, tap={"max_open": 1}) as (_, port):
        async with tapping(port, "kind=requests"):
            assert await ask(port, "kind=records") == (503, "1 taps are open (tap.max_open): end one, or try later")
        await until(lambda: not taps()._streams)
        async with tapping(port, "kind=records"):
            pass


async def test_a_tap_that_is_not_allowed_is_refused_with_the_setting() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        status, error = await ask(port, "kind=records&show=values")
        assert (status, "tap.allow_values: true" in error) == (403, True)
    async with FakeBroker(1) as broker, pages(broker, tap={"enabled": False}) as (_, port):
        assert (await ask(port, "kind=records"))[0] == 404
        assert "/tap" not in (await get_json_of_404(port))["pages"]


async def get_json_of_404(port: int) -> Any:
    return json.loads((await get(port, "/none"))[2])


async def test_a_reload_that_forbids_a_tap_ends_it() -> None:
    async with (
        FakeBroker(1) as broker,
        pages(broker, tap={"allow_values": True}) as (server, port),
        tapping(port, "kind=records&show=values") as lines,
        connected(port_of(server)) as client,
    ):
        server.apply(config(broker))
        client.send(produce_request(9, {"a": {0: batch("x")}}, acks=0))
        assert "tap.allow_values" in (await lines.until("end"))["why"]


async def test_who_opens_a_tap_and_what_it_shows_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, streams_module.__name__)
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        async with tapping(port, "kind=records&topic=a"):
            pass
        await until(lambda: not taps()._streams)
    opened, closed = (record.__dict__ for record in caplog.records)
    assert (opened["message"], opened["client"]) == ("tap opened", "127.0.0.1")
    assert opened["detail"] == "records, topic a, keys not shown, values not shown"
    assert closed["detail"] == "records, topic a, keys not shown, values not shown: 0 lines sent, 0 lost"


async def test_the_metrics_say_how_many_taps_are_open_and_what_they_have_lost() -> None:
    async with (
        FakeBroker(1) as broker,
        pages(broker, tap={"max_rate": 1}) as (server, port),
        tapping(port, "kind=requests") as lines,
        connected(port_of(server)) as client,
    ):
        for number in range(3):
            await client.ask(request(ApiKey.API_VERSIONS, 2, number))
        assert (await lines.until("lost")) == {"kind": "lost", "lines": 2, "rate": 2}
        families = {family.name: family.samples for family in taps().families()}
    assert families["taps_open"] == {(): 1}
    assert families["tap_lines"] == {(): 1}
    assert families["tap_lost_lines"] == {("rate",): 2, ("slow_reader",): 0}


class SlowViewer(Viewer):
    """Takes nothing until the test says so."""

    def __init__(self) -> None:
        self.waits_now = False
        self.sent: list[bytes] = []
        self.has_left = False

    ip = "10.0.0.1"

    @property
    def waits(self) -> bool:
        return self.waits_now

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def leave(self) -> None:
        self.has_left = True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "RETRY_S", 0.001)
    monkeypatch.setattr(streams_module, "IDLE_S", 0.01)


class Slow:
    """A tap whose reader takes nothing, and what gives it lines."""

    def __init__(self) -> None:
        self.viewer = SlowViewer()
        self.ended = 0
        self.streams = TapStreams(self._open, lambda: config("127.0.0.1:1").tap)
        stream = self.streams.page("/tap?kind=requests")
        assert stream is not None
        assert not isinstance(stream, Page)
        stream.begin(self.viewer)
        self.viewer.waits_now = True
        self._stream = stream

    def end(self) -> None:
        self._stream.end(self.viewer)

    def _open(self, wanted: object, deliver: Any) -> Any:
        self.deliver = deliver
        return lambda: setattr(self, "ended", self.ended + 1)


async def test_a_slow_reader_loses_lines_beyond_a_limit_and_learns_how_many(quick: None) -> None:
    slow = Slow()
    line = b"x" * (200 << 10) + b"\n"
    for _ in range(8):
        slow.deliver(line, 1, 0)
    slow.deliver(b"", 0, 3)
    assert len(slow.viewer.sent) == 1
    slow.viewer.waits_now = False
    await until(lambda: len(slow.viewer.sent) > 1)
    *_, lost, end = slow.viewer.sent[1].split(b"\n")
    assert slow.viewer.sent[1].count(line) == 5
    assert (json.loads(lost), end) == ({"kind": "lost", "lines": 6, "slow_reader": 3, "rate": 3}, b"")
    assert slow.streams.lost == {"slow_reader": 3, "rate": 3}
    slow.end()
    assert slow.ended == 1


async def test_a_reader_that_takes_nothing_for_long_loses_its_place(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "STUCK_S", 0.01)
    slow = Slow()
    slow.deliver(b"x\n", 1, 0)
    await until(lambda: slow.viewer.has_left)
    slow.end()


async def test_a_reader_of_a_tap_that_shows_nothing_gets_an_empty_line_now_and_then(quick: None) -> None:
    slow = Slow()
    slow.viewer.waits_now = False
    await until(lambda: b"\n" in slow.viewer.sent)
    slow.end()
    sent = len(slow.viewer.sent)
    await asyncio.sleep(0.05)
    assert len(slow.viewer.sent) == sent


async def test_a_reader_over_http_that_never_reads_slows_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loses lines, and the client gets each response."""
    monkeypatch.setattr(streams_module, "MAX_BUFFERED_BYTES", 10_000)
    async with (
        FakeBroker(1) as broker,
        pages(broker, tap={"max_rate": 10_000}) as (server, port),
        tapping(port, "kind=requests") as lines,
        connected(port_of(server)) as client,
    ):
        lines.client.pause()
        (stream,) = taps()._streams.values()
        viewer = stream._viewer
        assert isinstance(viewer, AdminProtocol)
        little_in_kernel(lines.client._writer.transport, viewer.transport)
        for number in range(10_000):
            await client.ask(request(ApiKey.API_VERSIONS, 2, number))
            assert stream._bytes <= streams_module.MAX_BUFFERED_BYTES
            if taps().lost["slow_reader"]:
                break
        await client.ask(request(ApiKey.API_VERSIONS, 2, 1))
        assert taps().lost["slow_reader"]


def little_in_kernel(*transports: asyncio.BaseTransport | None) -> None:
    for transport in transports:
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            assert transport is not None
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, buffer, 4096)


async def test_a_page_of_another_site_gets_no_tap() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        status, _, _ = await get(port, "/tap?kind=requests", head="Sec-Fetch-Site: cross-site\r\n")
        assert status == 403
        assert await get_json(port, "/livez") == {"live": True}
