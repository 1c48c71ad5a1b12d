"""`status`: one screen, troubles first, and an exit code that says whether the sidecar is ready."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from harness.ports import free_ports
from support.admin import command, pages
from support.commands import CliRunner
from support.fake_broker import FakeBroker
from support.snapshots import admin_port, family, sidecar, snapshot, worker
from typer.testing import Result

from kafka_sidecar.proxy.cli import output
from kafka_sidecar.proxy.cli.main import app
from kafka_sidecar.proxy.server.admin.live.troubles import MAX_TROUBLES
from kafka_sidecar.proxy.telemetry.logs import timestamp

HOSTILE = "evil\x1b[31m\n‮name"


def status(value: dict[str, Any], *flags: str) -> Result:
    with admin_port({"/snapshot": value}) as server:
        return CliRunner().invoke(app, ["status", "--admin", server.address, *flags])


def test_a_ready_sidecar_is_one_screen_and_exits_with_0() -> None:
    made = status(snapshot())
    lines = made.output.splitlines()
    assert made.exit_code == 0
    assert lines[0] == "ready: kafka-sidecar 0.1.0 (compiled), up 1d 2h"
    assert lines[1] == "  nothing needs attention"
    assert len(lines) <= 24
    assert "listens at     127.0.0.1:19092" in lines
    assert "brokers        kafka-1:9092; metadata received; login ok" in lines
    assert "process        pid 100, 25 % of a CPU, 50 MiB, 3 connections" in lines
    assert "memory         1 MiB of 256 MiB buffered; none waits" in lines
    assert any(line.startswith("configuration  generation 3, hash abc123, applied 2026-11-27T08:00") for line in lines)
    assert "Produce  12          1 ms  20 ms  1,000" in lines
    assert "1       kafka-1:9092  19094      3            yes        -" in lines


def test_a_sidecar_that_is_not_ready_says_why_first_and_exits_with_3() -> None:
    found = sidecar(ready=False, reasons=["no broker has responded yet: kafka-1:9092 refused the connection"])
    made = status(snapshot(sidecar=found, workers=[worker(ready=False)]))
    assert made.exit_code == 3
    assert made.output.startswith("NOT READY: ")
    why = "  !! not ready: no broker has responded yet: kafka-1:9092 refused the connection"
    assert made.output.splitlines()[1] == why


def test_a_sidecar_that_drains_is_not_ready() -> None:
    found = sidecar(ready=False, reasons=["the sidecar drains"], draining=True, listeners=[])
    made = status(snapshot(sidecar=found, workers=[worker(ready=False)]))
    assert (made.exit_code, made.output.startswith("draining: ")) == (3, True)
    assert "listens at     no port: it drains" in made.output


def test_where_none_answers_the_exit_code_is_1() -> None:
    made = CliRunner().invoke(app, ["status", "--admin", f"127.0.0.1:{free_ports(1)[0]}"])
    assert (made.exit_code, "no sidecar answers there" in made.output) == (1, True)


def test_workers_are_the_sum_and_each() -> None:
    both = sidecar(
        nodes=[{"node": 1, "broker": "kafka-1:9092", "port": 19094, "worker": number} for number in (1, 2)],
        configuration={
            "hash": {"1": "abc", "2": "def"}, "generation": 2, "last_reload": "applied",
            "applied_at": {"1": "2026-11-27T08:00:00.000Z", "2": "2026-11-27T08:00:01.000Z"},
            "restart_required_by": [],
        },
    )  # fmt: skip
    rows = [worker(None, ready=None, connections=None), worker(1), worker(2, ready=False)]
    made = status(snapshot(sidecar=both, workers=rows))
    assert made.exit_code == 3
    assert "up 1d 2h, 2 workers" in made.output
    assert "worker 1       pid 101, " in made.output
    assert "worker 2       NOT READY, pid 102, " in made.output
    assert "!! workers do not have the same configuration: abc (worker 1), def (worker 2)" in made.output
    assert "1       kafka-1:9092  19094      2       -            not tried  -" in made.output


def test_a_broker_that_was_not_reached_is_shown_with_why_and_since_when() -> None:
    down = {
        "node": 2, "broker": "kafka-2:9092", "port": 19095, "connections": 0, "reachable": False,
        "last_failure": "refused the connection", "failed_at": timestamp(time.time() - 125),
    }  # fmt: skip
    made = status(snapshot(sidecar=sidecar(nodes=[down])))
    assert re.search(r"2 +kafka-2:9092 +19095 +0 +no +2m \ds ago: refused the connection", made.output), made.output


def test_what_the_audit_has_not_sent_is_shown_with_its_age_and_what_it_has_lost() -> None:
    state = {"auditor": "EventAuditor", "intervals": 7, "buffered_events": 12, "sent_events": 30}
    made = status(snapshot(features={"auditing": {**state, "oldest_seconds": 125.0, "discarded_events": 3}}))
    wanted = "EventAuditor: 7 intervals, 12 events waiting (the oldest for 2m 5s), 30 sent, 3 lost"
    assert f"audit          {wanted}" in made.output.splitlines()


def test_the_same_for_programs() -> None:
    value = snapshot(sidecar=sidecar(reasons=["the sidecar drains"]))
    found = json.loads(status(value, "--json").output)
    assert found["ready"] is True
    assert found["troubles"] == [{"severity": "bad", "text": "not ready: the sidecar drains", "view": "now"}]
    assert found["sidecar"] == value["sidecar"]


def test_names_that_clients_choose_cannot_make_lines_or_move_the_cursor() -> None:
    labels = ["topic", "policy", "mode", "reason"]
    row = {"of": [HOSTILE, HOSTILE, "enforce", HOSTILE], "value": 5, "rate": 1.0}
    rejected = family("rejected_records", "counter", labels, row)
    nodes = [{"node": 1, "broker": HOSTILE, "port": 1}]
    made = status(snapshot(rejected, sidecar=sidecar(nodes=nodes, reasons=[HOSTILE])))
    assert not {"\x1b", "‮"} & set(made.output)
    assert "evil\\x1b[31m\\n\\u202ename" in made.output
    assert not any(line.startswith("name") for line in made.output.splitlines())


def test_letters_of_records_that_were_replayed_do_not_count_as_dropped() -> None:
    rows = [
        {"of": ["orders", reason], "value": value} for reason, value in (("replayed", 3), ("rate", 2), ("outage", 5))
    ]
    dropped = family("dead_letters_dropped", "counter", ["topic", "reason"], *rows)
    letters = {"waiting_letters": 1, "buffered_bytes": 100, "sent": 15}
    made = status(snapshot(dropped, features={"dead_letters": letters}))
    assert "1 wait (100 B in memory), 15 sent, 7 dropped" in made.output


def test_thousands_of_troubles_are_cut() -> None:
    found = sidecar(reasons=[f"reason {number}" for number in range(5000)])
    made = status(snapshot(sidecar=found))
    assert len(made.output.splitlines()) < 40
    assert f"and {MAX_TROUBLES - 12} more: see --json" in made.output


async def test_a_real_sidecar_is_shown() -> None:
    async with FakeBroker(1) as broker, pages(broker) as (_, port):
        made = await command(port, "status")
        assert made.exit_code == 0, made.output
        assert made.output.startswith("ready: kafka-sidecar ")
        assert ", up " in made.output.splitlines()[0]
        assert f"{broker.address}; metadata received" in made.output
        assert "nothing needs attention" in made.output
        assert json.loads((await command(port, "status", "--json")).output)["troubles"] == []


def test_in_a_narrow_terminal_long_facts_are_folded_below_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "width", lambda: 60)
    lines = status(snapshot(sidecar=sidecar(reasons=["because " * 20]))).output.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith("  !! not ready: because")
    assert lines[2].startswith("     because")


@pytest.mark.parametrize("columns", [20, 60, 400])
def test_narrow_and_wide_terminals_get_all_of_a_table(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "width", lambda: columns)
    lines = list(output.table(("name", "port"), [("a-broker-with-a-rather-long-name", 19094), ("日本", 1)]))
    assert all(len(line) <= columns for line in lines)
    assert "".join("".join(lines).split()).count("19094") == 1
