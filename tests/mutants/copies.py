"""Faults on purpose: each is one place of the sources changed, in a copy of them that runs as Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.pages import PACKAGES, ROOT

COPIED = ("src", *PACKAGES, "tests", "pyproject.toml")
NOT_COPIED = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "integration", "hostile", "jvm", "artefacts")
LIMIT_S = 300  # for the tests of one mutant; that they do not end is a failure as well


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault."""

    path: str  # of the source
    about: str  # what happens then
    old: str  # what occurs there once
    new: str
    tests: tuple[str, ...]  # that must fail, as `path::name`

    def mutated(self, text: str) -> str:
        """The source with the fault. Raises ValueError if it is no longer of this source."""
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(f"{self.path} has {text.count(self.old)} times {self.old!r}: {self.about}")
        return text.replace(self.old, self.new)


class Copy:
    """A copy of the sources and tests, in which one source at a time is changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=NOT_COPIED)
            else:
                shutil.copy(ROOT / name, folder / name)

    def missed(self, mutant: Mutant) -> list[str]:
        """The tests that do not fail with it though they must."""
        source = self.folder / mutant.path
        text = source.read_text(encoding="utf-8")
        self._write(source, mutant.mutated(text))
        try:
            failed = self.failed(mutant.tests)
        finally:
            self._write(source, text)
        return [test for test in mutant.tests if test not in failed]

    def failed(self, tests: Sequence[str]) -> list[str]:
        """Those of these tests that fail, with any of their parameters."""
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", f"--junitxml={report}", *tests],
                cwd=self.folder,
                env={**os.environ, "KAFKA_SIDECAR_PURE": "1", "PYTHONPATH": str(self.folder / "src")},
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return list(tests)
        if ended.returncode not in (0, 1):
            raise RuntimeError(f"pytest ended with {ended.returncode}\n{ended.stdout[-3000:]}")
        found = {
            f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').split('[')[0]}"
            for case in ET.parse(report).iter("testcase")
            if case.find("failure") is not None or case.find("error") is not None
        }
        return [test for test in tests if test in found]

    def _write(self, source: Path, text: str) -> None:
        source.write_text(text, encoding="utf-8")
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*"):
            compiled.unlink()  # it may be as old as the source, in seconds, and as long
