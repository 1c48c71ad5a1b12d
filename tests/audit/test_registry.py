"""Auditors are found by name, by class and on a class path, as policies and interceptors are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.logging_auditor import LoggingAuditor
from kafka_sidecar.audit.registry import AUDITORS

BATCHES = "from kafka_sidecar.audit.contract import BatchAuditor\n\n\nclass Ledger(BatchAuditor):\n"


def test_built_in_auditors_are_found_by_name_and_configured() -> None:
    auditor, hints = AUDITORS.open("events", "events", None, {"emitter_id": "pod-1"})
    assert isinstance(auditor, EventAuditor)
    assert (auditor.settings.emitter_id, hints) == ("pod-1", None)
    assert AUDITORS.find("logging") is LoggingAuditor


def test_an_auditor_is_found_on_a_class_path(tmp_path: Path) -> None:
    (tmp_path / "ledger.py").write_text(BATCHES + "    settings = None\n")
    auditor, _ = AUDITORS.open("ledger", "ledger:Ledger", str(tmp_path), {})
    assert type(auditor).__name__ == "Ledger"


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("async def produced(self, *batch): ...", r"produced\(\) is async: hooks are not awaited"),
        ("def produced(self, client): ...", r"produced\(self, client\) must be produced\(self, client, topic, "),
        ("def on_tik(self): ...", r"on_tik\(\) is not a hook: did you mean on_tick"),
        ("def on_tick(self, last_stats): ...", r"on_tick\(\) is never called: extend AbstractAuditor"),
    ],
)
def test_a_method_that_could_not_be_called_is_an_error_when_the_class_is_loaded(
    method: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "ledger.py").write_text(f"{BATCHES}    {method}\n")
    with pytest.raises(ValueError, match=problem):
        AUDITORS.open("ledger", "ledger:Ledger", str(tmp_path), {})


def test_a_wrong_setting_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"^auditor audit: auditor\.bucket\.ms: write 1 or more$"):
        AUDITORS.open("audit", "logging", None, {"auditor.bucket.ms": 0})
