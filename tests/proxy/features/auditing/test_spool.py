"""The spool keeps events over a restart, byte for byte; what cannot be read or written is logged."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.features.auditing import spool


def test_events_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "events"
    assert spool.load(path) == []
    assert spool.save(path, [b'{"a":1}', b"{}"])
    assert spool.save(path, [b'{"a":2}', b'{"b":"\xc3\xa9"}'])
    assert spool.load(path) == [b'{"a":2}', b'{"b":"\xc3\xa9"}']
    assert list(tmp_path.iterdir()) == [path]
    spool.remove(path)
    spool.remove(path)
    assert spool.load(path) == []


def test_a_path_that_cannot_be_used_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert spool.load(tmp_path) == []
    spool.remove(tmp_path)
    assert not spool.save(tmp_path / "missing" / "events", [b"{}"])
    assert [record.getMessage() for record in caplog.records] == [
        "audit spool unreadable",
        "audit spool not removed",
        "audit spool not written",
    ]
