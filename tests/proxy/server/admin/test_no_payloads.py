"""Nothing of a record's key, value or headers appears at the admin port, in log lines or at a collector."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from support.admin import get, get_json, pages
from support.fake_broker import FakeBroker
from support.in_process import connected, port_of
from support.produce_requests import produce_request

from kafka_sidecar.codec.records import Header
from kafka_sidecar.codec.records.writing import NewRecord, build_batch
from kafka_sidecar.proxy.telemetry.logs import JsonLines, TextLines

SECRET = "4111-1111-1111"
SETTINGS: dict[str, Any] = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [
        {"name": "orders", "policy": "stub, json, require_header:trace-id, key"},
        {"name": "shadowed", "policy": "json", "mode": "shadow"},
    ],
    "interceptors": [{"type": "counting"}, {"type": "add_header", "headers": {"a": "b"}}],
}
PAGES = (
    "/readyz?verbose",
    "/rejections",
    "/connections",
    "/topics",
    "/topics/orders",
    "/metrics",
    "/log-level",
    "/configuration",
)


def secret_batch(word: str) -> bytes:
    secret = SECRET.encode()
    return build_batch([NewRecord(word.encode() + b" " + secret, secret, (Header(secret, secret),))])


async def test_a_secret_in_records_is_in_no_output(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with (
        FakeBroker(1) as broker,
        pages(broker, **SETTINGS) as (server, port),
        connected(port_of(server)) as client,
    ):
        for word in ("bad", "bug", "fine", "ask unavailable"):
            for topic in ("orders", "shadowed"):
                await client.ask(produce_request(9, {topic: {0: secret_batch(word)}}))
        shown = [(await get(port, page))[2].decode() for page in PAGES]
        shown.append((await get(port, "/connections/1"))[2].decode())
        listed = (await get_json(port, "/rejections"))["rejections"]
        assert len(listed) >= 6
        shown += [json.dumps(await get_json(port, f"/rejections/{one['id']}")) for one in listed]
    assert "last_requests" in "".join(shown)
    lines = [made.format(record) for record in caplog.records for made in (JsonLines(), TextLines(False))]
    assert "records rejected" in "".join(lines)
    assert [text for text in [*shown, *lines] if SECRET in text] == []
