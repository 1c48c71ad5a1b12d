"""``kafka-sidecar explain``: why a batch was rejected."""

from __future__ import annotations

import json

import pytest
from support.admin import command, get_json
from support.rejecting import SECRET, guarded, rejected
from typer.testing import CliRunner

from kafka_sidecar.proxy.cli import explain
from kafka_sidecar.proxy.cli.main import app


async def test_the_command_prints_all_that_is_known() -> None:
    topics = [{"name": "ord*", "policy": 'stub:"a, b"', "percent": 100}]
    async with guarded(topics=topics) as (server, port):
        found = await rejected(server, "good", f"bad {SECRET}")
        printed = await command(port, "explain", found)
        assert printed.exit_code == 0, printed.output
        lines = printed.output.splitlines()
        assert lines[0].startswith("orders-3: rejected at 20")
        assert lines[0].endswith(" by stub (bad)")
        assert "  message     orders takes no bad" in lines
        assert "              1: stub (bad): orders takes no bad" in lines
        assert any("client id app" in line and "correlation id 7" in line for line in lines)
        assert any("from topics: ord*, mode enforce" in line for line in lines)
        assert any(line.startswith("  what to do  Correct what the application sends") for line in lines)
        assert SECRET not in printed.output
        as_json = await command(port, "explain", found, "--json")
        assert json.loads(as_json.output) == await get_json(port, f"/rejections/{found}")


async def test_the_command_fails_in_one_line_where_the_id_is_unknown() -> None:
    async with guarded() as (_, port):
        printed = await command(port, "explain", "zzzzzz-1")
    assert printed.exit_code == 1
    assert printed.output.startswith("kafka-sidecar: rejection zzzzzz-1 is unknown: ")


def test_what_is_not_known_of_a_rejection_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        "topic": "orders", "partition": 3, "outcome": "rejected", "timestamp": "2026-11-01T08:00:00Z",
        "policy": "limits", "reason": "damaged", "message": "The records have no end",
        "records": [], "rejected_records": 0,
        "client": {"client": "127.0.0.1:4711"}, "batch": None, "configuration": None, "remedy": "Update the client",
    }  # fmt: skip
    monkeypatch.setattr(explain, "ask", lambda admin, page: known)
    assert CliRunner().invoke(app, ["explain", "x3k9qd-1f"]).output.splitlines() == [
        "orders-3: rejected at 2026-11-01T08:00:00Z by limits (damaged)",
        "  message     The records have no end",
        "  client      client 127.0.0.1:4711",
        "  what to do  Update the client",
    ]
