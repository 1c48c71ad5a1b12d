"""The tables of faults are those of the sources and the tests as they are; `make mutations` runs them."""

from __future__ import annotations

import re

from mutants.run import MUTANTS
from support.pages import ROOT


def test_each_fault_is_in_its_source_once_and_leaves_it_python() -> None:
    for mutant in MUTANTS:
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        compile(mutant.mutated(text), mutant.path, "exec")


def test_each_test_that_must_fail_exists() -> None:
    for mutant in MUTANTS:
        assert mutant.tests
        for test in mutant.tests:
            path, name = test.split("::")
            text = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), test
