"""The parts of a release that need no build: one version everywhere, and a changelog that has it."""

from __future__ import annotations

import re
import shutil
from datetime import date
from email import message_from_string
from pathlib import Path
from zipfile import ZipFile

import pytest
from artefacts.dockerfile import ROOT
from artefacts.release import (
    changelog_mistakes,
    metadata_mistakes,
    other_versions,
    places,
    wheel_mistakes,
    write_version,
)

from kafka_sidecar import __version__

TODAY = date(2027, 1, 31)
METADATA = """\
Metadata-Version: 2.4
Name: kafka-sidecar
Version: 1.2.3
License-Expression: Apache-2.0
Requires-Python: >=3.11
Description-Content-Type: text/markdown

# kafka-sidecar
"""


def test_every_file_has_the_version_of_the_program() -> None:
    assert list(other_versions(__version__)) == []


def test_the_chart_compose_and_pages_are_among_the_files() -> None:
    names = {str(place.path.relative_to(ROOT)) for place in places()}
    assert names >= {
        "helm/kafka-sidecar/Chart.yaml",
        "examples/orders-chart/Chart.yaml",
        "compose.yaml",
        "docs/reference/image.md",
    }


def test_another_version_is_found_in_each_file_and_written(tmp_path: Path) -> None:
    for place in places():
        path = tmp_path / place.path.relative_to(ROOT)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(place.path, path)
    changed = write_version("7.8.9", tmp_path)
    assert len(changed) == len(list(places()))
    assert {line.partition(" ")[0] for line in other_versions(__version__, tmp_path)} == set(changed)
    assert list(other_versions("7.8.9", tmp_path)) == []
    assert "version: 7.8.9\nappVersion: 7.8.9\n" in (tmp_path / "helm/kafka-sidecar/Chart.yaml").read_text()


def test_the_changelog_has_this_version() -> None:
    found = changelog_mistakes(__version__, (ROOT / "CHANGELOG.md").read_text(), date.max)
    assert [line for line in found if "under Unreleased" not in line] == []  # what the next one will have


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("## [1.2.3] - 2027-01-30\n\n* A.\n", None),
        ("## [Unreleased]\n\n## [1.2.3] - 2027-01-30\n\n* A.\n\n## [1.2.2] - 2026-01-01\n", None),
        ("## [1.2.3]\n\n* A.\n", "is the form"),
        ("## [1.2.3] - 30 January\n\n* A.\n", "is the form"),
        ("## [1.2.3] - 2027-02-01\n\n* A.\n", "in the future"),
        ("## [1.2.2] - 2027-01-30\n\n* A.\n", "the newest version is not 1.2.3"),
        ("nothing\n", "the newest version is not 1.2.3"),
        ("## [1.2.3] - 2027-01-30\n\n## [1.2.2] - 2026-01-01\n\n* A.\n", "has no entries"),
        ("## [Unreleased]\n\n* B.\n\n## [1.2.3] - 2027-01-30\n\n* A.\n", "under Unreleased"),
    ],
)
def test_a_changelog_is_dated_and_has_entries_of_the_version(text: str, mistake: str | None) -> None:
    found = list(changelog_mistakes("1.2.3", text, TODAY))
    assert len(found) == (mistake is not None)
    assert all(mistake in line for line in found if mistake)


@pytest.mark.parametrize("line", [*METADATA.splitlines()[1:6], "# kafka-sidecar"])
def test_metadata_lack_nothing(line: str) -> None:
    assert list(metadata_mistakes(message_from_string(METADATA), "1.2.3")) == []
    assert len(list(metadata_mistakes(message_from_string(METADATA.replace(line, "X: y")), "1.2.3"))) == 1


def test_a_wheel_has_the_program_and_nothing_else(tmp_path: Path) -> None:
    info = "kafka_sidecar-1.2.3.dist-info"
    with ZipFile(wheel := tmp_path / "a.whl", "w") as archive:
        archive.writestr(f"{info}/METADATA", METADATA)
        archive.writestr(f"{info}/entry_points.txt", "")
        archive.writestr(f"{info}/licenses/LICENSE", "")
        archive.writestr("tests/test_it.py", "")
        archive.writestr("kafka_sidecar/codec/crc.c", "")
    found = list(wheel_mistakes(wheel, "1.2.3"))
    others = [line for line in found if not re.fullmatch(r"kafka_sidecar\.\S+ is not compiled in the wheel", line)]
    assert sorted(others) == [
        "the wheel does not have NOTICE",
        "the wheel does not have the command",
        "the wheel has kafka_sidecar/codec/crc.c",
        "the wheel has tests/test_it.py",
    ]
    assert len(found) > len(others)
