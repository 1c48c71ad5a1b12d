"""`bench/feature_instructions.py`: what valgrind runs is relayed in each column of each bench."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import feature_instructions as bench
import pytest

pytestmark = pytest.mark.program


@pytest.mark.parametrize(("name", "only"), [("rates", "Fetch 1 KB"), ("habits", "84"), ("consume", "Fetch 84")])
def test_a_measurement_of_each_column_begins_and_ends_with_a_mark(name: str, only: str, tmp_path: Path) -> None:
    marks: list[None] = []
    options = argparse.Namespace(bench=name, only=only, column="", requests=2)
    asyncio.run(bench.relay_all(options, tmp_path, lambda: marks.append(None)))
    benched = bench.BENCHES[name]
    measured = len(bench.loads_of(benched, only)) * len(bench.columns_of(benched, tmp_path, ""))
    assert measured
    assert len(marks) == 2 * measured


def test_a_column_comes_with_the_one_that_it_is_compared_with(tmp_path: Path) -> None:
    found = [peer.name for peer in bench.columns_of(bench.BENCHES["rates"], tmp_path, "of another topic")]
    assert found == ["no limit", "of another topic"]


def test_the_cpu_of_each_column_is_shown_with_its_ratio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "configure_allocator", lambda: None)  # it would freeze the garbage of other tests
    options = argparse.Namespace(bench="rates", only="Fetch 1 KB", column="of another topic", requests=2, cpu=1)
    asyncio.run(bench.show_cpu(options, tmp_path))
    head, _, row = capsys.readouterr().out.splitlines()
    assert head == "| CPU us of a request and its response | no limit | of another topic |"
    assert row.startswith("| Fetch 1 KB, 8 connections, 1 in flight | ")
    assert row.endswith("x of no limit) |")
