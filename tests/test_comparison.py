"""The comparison with other gateways: what it says of another program has a source, or says that there is none."""

from __future__ import annotations

import re

import pytest
from support.pages import page

COMPARISON = page("docs/comparison.md")
# The sections whose tables compare, and not those of versions and measurements.
SECTIONS = ("What they have and this does not", "Validation", "Limits on clients",
            "Records, commits, large messages, audit", "Security and operations")  # fmt: skip
WITHOUT = ("not found", "not compared", "does not apply")
SOURCE = re.compile(r"\[([A-Z]\d+)\](?!\()")
ADDRESS = re.compile(r"^\[([A-Z]\d+)\]: https://\S+$", re.MULTILINE)


def rows(section: str) -> list[list[str]]:
    lines = [line for line in COMPARISON.section(section).splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_cell_of_another_program_has_its_source(section: str) -> None:
    assert rows(section)
    for what, ours, *others in rows(section):
        assert ours, what
        assert [(what, cell) for cell in others if not SOURCE.search(cell) and cell not in WITHOUT] == []


def test_every_source_has_its_address_and_every_address_is_used_once() -> None:
    addresses = ADDRESS.findall(COMPARISON.text)
    assert len(addresses) == len(set(addresses))
    assert set(SOURCE.findall(ADDRESS.sub("", COMPARISON.text))) == set(addresses)


def test_no_two_sources_are_the_same_page() -> None:
    pages = re.findall(r"^\[[A-Z]\d+\]: (\S+)$", COMPARISON.text, re.MULTILINE)
    assert sorted(pages) == sorted(set(pages))
