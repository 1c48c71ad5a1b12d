"""The state file: brokers are found again after a restart, and no file problem stops the sidecar."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_sidecar.proxy import remembered

BROKERS = [(1, "kafka-1", 9092), (1005, "::1", 9093)]


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    remembered.save(path, reversed(BROKERS))
    assert remembered.load(path) == BROKERS
    assert [entry.name for entry in tmp_path.iterdir()] == ["nodes.json"]


def test_no_file_yet_means_no_brokers(tmp_path: Path) -> None:
    assert remembered.load(tmp_path / "nodes.json") == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"brokers": 3}', '{"brokers": [[1, "a"]]}', '{"brokers": [["x", "a", 1]]}']
)
def test_a_damaged_file_is_logged_and_ignored(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(text)
    assert remembered.load(path) == []
    assert "the state file cannot be used" in caplog.text


def test_a_folder_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    remembered.save(tmp_path / "nowhere" / "nodes.json", BROKERS)
    assert "the state file cannot be written" in caplog.text
