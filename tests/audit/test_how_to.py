"""The example on the page about auditors runs as it is written."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from support.in_process import config
from support.pages import page

from kafka_sidecar.audit.contract import AuditedClient, Result
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.proxy.features.auditing.audit import Audit

PAGE = page("docs/how-to/auditors.md")
BUCKET = 600_000


def example(language: str) -> str:
    (text,) = (block.text for block in PAGE.blocks if block.language == language)
    return text


async def test_the_example_writes_what_was_counted(tmp_path: Path) -> None:
    (tmp_path / "ledger.py").write_text(example("python"))
    section = yaml.safe_load(example("yaml"))["audit"]
    assert Path(section["settings"]["path"]).suffix == ".csv"
    section |= {"class_path": str(tmp_path), "settings": {"path": str(tmp_path / "ledger.csv")}}
    names: Any = SimpleNamespace(name_of=None, last_id_of=None)
    audit = Audit(config("a:1", audit=section), names)
    await audit.start_up()
    client = AuditedClient("app", None, None)
    audit.auditor.produced(client, "orders", 0, BatchCount(5 * BUCKET, 10, 700, result=Result.ACKED, first_offset=0))
    audit.auditor.produced(client, "orders", 0, BatchCount(-1, 10, 700, result=Result.ACKED, first_offset=10))
    audit.auditor.delivered(client, "g", "orders", 0, BatchCount(5 * BUCKET, 4, 300, first_offset=0))
    await audit.shut_down(10.0)
    assert not audit.counting.stats.uncounted
    assert (tmp_path / "ledger.csv").read_text().splitlines() == ["orders,5,ATTEMPT,10,700", "orders,5,SUCCESS,14,1000"]
