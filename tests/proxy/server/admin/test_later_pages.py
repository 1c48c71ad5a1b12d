"""Pages that are not there at once: those of workers, which are other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from unittest.mock import Mock, create_autospec

from kafka_sidecar.proxy.server.admin.http import AdminProtocol, AdminServer
from kafka_sidecar.proxy.server.admin.page import Page, Refusals, json_page

REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Later:
    """One page, once it is rendered."""

    def __init__(self) -> None:
        self.rendered: asyncio.Future[Page] = asyncio.get_running_loop().create_future()
        self.refusals = Refusals()

    def page(self, target: str, host: str | None = None, asked_at: float = 0.0) -> Awaitable[Page]:
        return self.rendered

    def wait_s(self, target: str) -> float:
        return 0.0


def connect(pages: Later) -> tuple[AdminProtocol, Mock]:
    transport = create_autospec(asyncio.Transport, instance=True)
    transport.get_write_buffer_size.return_value = 0
    transport.is_closing.return_value = False
    protocol = AdminServer(pages).protocol()
    protocol.connection_made(transport)
    return protocol, transport


async def settle() -> None:
    """Let tasks and callbacks run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_page_is_sent_once_it_is_rendered_and_then_the_next_request_is_read() -> None:
    pages = Later()
    protocol, transport = connect(pages)
    protocol.data_received(REQUEST)
    await settle()
    assert not transport.write.called
    assert not transport.resume_reading.called
    pages.rendered.set_result(json_page(200, {"live": True}))
    await settle()
    (sent,) = transport.write.call_args.args
    assert sent.startswith(b"HTTP/1.1 200 ")
    assert sent.endswith(b"\r\n\r\n" + json_page(200, {"live": True}).body)
    assert transport.resume_reading.called
    protocol.connection_lost(None)


async def test_a_page_for_a_client_that_has_gone_is_not_sent() -> None:
    pages = Later()
    protocol, transport = connect(pages)
    protocol.data_received(REQUEST)
    protocol.connection_lost(None)
    pages.rendered.set_result(json_page(200, {"live": True}))
    await settle()
    assert not transport.write.called


async def test_the_connection_ends_after_bytes_that_are_no_http() -> None:
    protocol, transport = connect(Later())
    protocol.data_received(b"\x00\x00\x00\x10\r\n\r\n")
    assert transport.close.called
    protocol.connection_lost(None)
