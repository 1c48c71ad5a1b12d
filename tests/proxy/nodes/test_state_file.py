"""The state file: brokers are known after a restart, and an invalid file is only a log line."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy.nodes.state_file import load, save

BROKERS = [(2, "broker-2.internal", 9092), (1, "lone\udcffsurrogate", 9093)]


def test_saved_brokers_are_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "state.json", BROKERS)
    assert load(tmp_path / "state.json") == sorted(BROKERS)
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]
    assert caplog.records == []


def test_a_later_state_replaces_an_earlier_one(tmp_path: Path) -> None:
    save(tmp_path / "state.json", BROKERS)
    save(tmp_path / "state.json", BROKERS[:1])
    assert load(tmp_path / "state.json") == BROKERS[:1]


def test_a_missing_file_has_no_brokers_and_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert load(tmp_path / "state.json") == []
    assert caplog.records == []


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "null", "{}", '{"brokers": 7}', '{"brokers": [[1, "a"]]}', '{"brokers": [["x", "a", 1]]}',
     '{"brokers": [[1, "a", null]]}', '{"brokers": [[Infinity, "a", 1]]}'],
)  # fmt: skip
def test_an_invalid_file_has_no_brokers_and_logs_one_warning(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state.json").write_text(text)
    assert load(tmp_path / "state.json") == []
    assert [record.message for record in caplog.records] == ["state file unreadable"]


def test_a_file_that_is_not_utf_8_has_no_brokers(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_bytes(b"\xff\xfe\x00")
    assert load(tmp_path / "state.json") == []


def test_a_failed_write_logs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "no such folder" / "state.json", BROKERS)
    assert [record.message for record in caplog.records] == ["state file not written"]
