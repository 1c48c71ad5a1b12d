"""`make demo`: it shows live figures, ends by itself, and reports an unexpected result."""

from __future__ import annotations

import json
import re
import signal
import socket
import sys
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from harness.processes import Program

pytestmark = pytest.mark.program

if TYPE_CHECKING:
    from examples.conftest import Runs

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = [sys.executable, str(EXAMPLES / "demo.py")]
PAGE = re.compile(r"^Look at (http://\S+/) in a browser", re.MULTILINE)
COMMAND = re.compile(r"^\$ kafka-sidecar run .*--listen 127\.0\.0\.1:(\d+)", re.MULTILINE)


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_stopped_demo_stops_its_sidecar(tmp_path: Path) -> None:
    demo = Program(DEMO, tmp_path / "output")
    try:
        port = listening_sidecar(demo)
        assert demo.stop() == 128 + signal.SIGTERM
    finally:
        demo.kill()
    assert not is_listening(port)


def test_the_demo_of_the_page_goes_on_and_its_page_is_live(tmp_path: Path) -> None:
    demo = Program([*DEMO, "--page"], tmp_path / "output")
    try:
        demo.wait_for(lambda: PAGE.search(demo.output()) is not None, "the address", 30)
        found = PAGE.search(demo.output())
        assert found is not None
        with urllib.request.urlopen(found[1]) as response:
            assert b"kafka-sidecar" in response.read()

        def rejects() -> bool:
            with urllib.request.urlopen(f"{found[1]}snapshot?with=rejections") as snapshot:
                return bool(json.load(snapshot)["rejections"])

        demo.wait_for(rejects, "rejections", 30)
        assert demo.stop() == 128 + signal.SIGTERM
    finally:
        demo.kill()


def listening_sidecar(demo: Program) -> int:
    """The port of the sidecar that the demo has started, once it accepts connections."""
    found: list[int] = []

    def listens() -> bool:
        found[:] = [int(port) for port in COMMAND.findall(demo.output())]
        return bool(found) and is_listening(found[0])

    demo.wait_for(listens, "listening", 20)
    return found[0]


def test_the_demo_shows_its_figures_and_results(runs: Runs) -> None:
    code = runs.demo.popen.wait(90)
    text = runs.demo.output()
    assert code == 0, text
    assert "1,000 records sent, 1,000 acknowledged, 1,000 read" in text
    assert "0 records lost, 0 read twice" in text
    assert "30 cut off records to 'payments': 30 INVALID_RECORD" in text
    assert "124 records rejected, by the sidecar's own count" in text
    assert "requires records to" in text
    assert re.search(r"in the log +written-by=demo-customers +\{.*4111111111111111", text)
    assert re.search(r"consumed +written-by=demo-customers +\{.*\*\*\*1111", text)
    assert "its consumer got the card number masked" in text
    assert re.search(
        r"a document of 5,000,000 bytes is stored in \d slices and a carrier, each below the 1,048,576", text
    )
    assert re.search(
        r"^\$ kafka-sidecar dead-letters list refunds\.dlq .*\nletters +topic .*\n1 +refunds +require_header ",
        text,
        re.M,
    )
    assert re.search(r"^\$ kafka-sidecar dead-letters replay refunds\.dlq .*\n.*\n1 +refunds .* accepted", text, re.M)
    assert "a refund without a trace-id: its producer got INVALID_RECORD, and 'refunds.dlq' has 1 dead letter" in text
    assert "once the policy had changed 1 was replayed: it is in 'refunds' as it was sent" in text
    assert "its consumer got it whole, at the offset that its producer got" in text
    assert "a broker's own address in a client's metadata: never" in text
    assert '"message": "connection ended"' in text
    assert re.search(r"Produce +\d+ +\d+ +[\d.]+ [KM]iB +[\d.]+ ms", text)
    assert "WRONG" not in text


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield import_module("ledger")
    del sys.modules["ledger"]


def message(number: int) -> SimpleNamespace:
    return SimpleNamespace(key=lambda: b"order-%d" % number, error=lambda: None)


def wrong(findings: Iterator[SimpleNamespace]) -> list[str]:
    return [finding.sentence for finding in findings if not finding.is_good]


@pytest.mark.parametrize(
    ("acknowledged", "read", "sentences"),
    [
        ([0, 1], [0, 1], []),
        ([0, 1], [0], ["2 records sent, 2 acknowledged, 1 read", "1 records lost, 0 read twice"]),
        ([0, 1], [0, 1, 1], ["0 records lost, 1 read twice"]),
        ([0], [0, 1], ["2 records sent, 1 acknowledged, 2 read"]),
    ],
)
def test_lost_and_duplicate_records_are_detected(
    acknowledged: list[int], read: list[int], sentences: list[str], ledger: ModuleType
) -> None:
    records = ledger.Ledger(sent=2)
    for number in acknowledged:
        records.was_delivered(None, message(number))
    for number in read:
        records.was_read(message(number))
    assert wrong(records.findings()) == sentences


def test_a_broker_address_in_a_clients_metadata_is_detected(ledger: ModuleType) -> None:
    assert wrong(ledger.address_findings({"b:1", "b:2"}, {"s:1", "s:2"}, {"s:1", "s:2"})) == []
    assert wrong(ledger.address_findings({"b:1", "b:2"}, {"s:1", "s:2"}, {"s:1", "b:2"}))[1].endswith(": b:2")


def test_records_that_bypassed_the_sidecar_are_detected(ledger: ModuleType) -> None:
    assert wrong(ledger.relay_findings(4, {"Produce": 1, "Fetch": 1})) == []
    assert wrong(ledger.relay_findings(4, {"Produce": 1}))
