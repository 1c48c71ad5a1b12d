"""``kafka-sidecar clean-objects``: what it refuses before it looks at anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import CliRunner

from kafka_sidecar.proxy.cli.clean_objects import _show_progress
from kafka_sidecar.proxy.cli.main import app


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--older-than", "59m"], "--older-than: 59m is too short"),
        (["--older-than", "soon"], "--older-than: "),
        ([], "large_messages.object_store is missing: name the store to clean"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], problem: str) -> None:
    config = tmp_path / "sidecar.yaml"
    config.write_text("bootstrap_servers: 127.0.0.1:1\n")
    done = CliRunner().invoke(app, ["clean-objects", "--config", str(config), *arguments])
    assert done.exit_code == 2
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_store_without_objects_is_clean(tmp_path: Path) -> None:
    config = tmp_path / "sidecar.yaml"
    config.write_text(
        "bootstrap_servers: 127.0.0.1:1\n"
        f"large_messages: {{object_store: 'file://{tmp_path / 'objects'}', topics: [{{name: a, store: object}}]}}\n"
    )
    done = CliRunner().invoke(app, ["clean-objects", "--config", str(config)])
    assert done.exit_code == 0
    assert done.stdout.split() == ["topic", "objects", "referenced", "young", "unreferenced", "bytes", "deleted"]


def test_a_topic_that_cannot_be_read_keeps_its_objects(tmp_path: Path) -> None:
    path = tmp_path / "objects" / "a" / ("0" * 32)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    config = tmp_path / "sidecar.yaml"
    config.write_text(
        "bootstrap_servers: 127.0.0.1:1\n"
        f"large_messages: {{object_store: 'file://{tmp_path / 'objects'}', topics: [{{name: a, store: object}}]}}\n"
    )
    done = CliRunner().invoke(app, ["clean-objects", "--config", str(config), "--delete"])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[1].split() == ["a", "1", "0", "0", "0", "0", "0"]
    assert "a: nothing was deleted: the topic cannot be read" in done.stderr
    assert path.exists()
    done = CliRunner().invoke(app, ["clean-objects", "--config", str(config), "--json"])
    assert '"trouble": "the topic cannot be read' in done.stdout


def test_a_store_that_is_none_is_a_mistake(tmp_path: Path) -> None:
    config = tmp_path / "sidecar.yaml"
    config.write_text(
        "bootstrap_servers: 127.0.0.1:1\n"
        "large_messages: {object_store: 'gopher://x', topics: [{name: a, store: object}]}\n"
    )
    done = CliRunner().invoke(app, ["clean-objects", "--config", str(config)])
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "large_messages.object_store" in done.stderr


def test_progress_is_one_line_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    _show_progress("orders", 5, 10)
    _show_progress("orders", 10, 10)
    assert capsys.readouterr().err == "\rorders: 5 of 10 offsets\rorders: 10 of 10 offsets\n"
