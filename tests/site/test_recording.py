"""The recording of a terminal: its timing, its lines, its colors, and nothing but text in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from support.pages import ROOT

pytestmark = pytest.mark.site
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_line_that_is_replaced_is_shown_for_as_long_as_it_stood() -> None:
    import recording

    found = recording.frames(iter([(0.0, b"one\r\n"), (1.0, b"\x1b[1Atwo\r\n")]))
    lines = list(recording.shown(found))
    assert [(line.line[0][1], line.begin_s, line.end_s) for line in lines] == [
        ("one", 0.0, 1.0),
        ("two", 1.0, 1.0 + recording.LAST_S),
    ]


def test_a_long_pause_is_shortened_and_lines_that_fly_by_are_held() -> None:
    import recording

    (_, after_pause) = recording.frames(iter([(0.0, b"a\r\n"), (60.0, b"b\r\n")]))
    assert after_pause.at_s == recording.PAUSE_S
    many = b"".join(b"%d\r\n" % number for number in range(recording.LINES + 3 * recording.PAGE_LINES))
    assert recording.frames(iter([(0.0, many)]))[-1].at_s >= 2 * recording.PAGE_S


def test_text_is_escaped_and_colored() -> None:
    import recording

    svg = recording.svg(recording.frames(iter([(0.0, b"\x1b[1;31m<b> & c\x1b[0m\r\n")])), "a <title>")
    assert texts(svg) == ["<b> & c"]
    assert recording.COLORS["red"] in svg
    assert 'font-weight="bold"' in svg


def test_what_a_command_writes_is_read_from_a_terminal_and_its_failure_ends_all() -> None:
    import recording

    def run(code: str) -> Iterator[tuple[float, bytes]]:
        return recording.output([sys.executable, "-c", code])

    assert b"True 118" in b"".join(
        chunk for _, chunk in run("import os, sys; print(sys.stdout.isatty(), os.get_terminal_size().columns)")
    )
    with pytest.raises(SystemExit, match="ended with 3"):
        list(run("raise SystemExit(3)"))
