"""The tests run on the requested build, compiled or Python, and the program reports which one it has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.builds import PURE, SRC, extension, is_stale, source
from support.pages import ROOT

from kafka_sidecar.codec import compiled

each_module = pytest.mark.parametrize("module", compiled.MODULES)


def a_compiler_was_used() -> bool:
    wanted = os.environ.get("KAFKA_SIDECAR_COMPILE", "auto") != "no"
    return wanted and shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is not None


@each_module
def test_modules_are_compiled_if_there_is_a_compiler_and_pure_python_is_not_requested(module: str) -> None:
    loaded = Path(import_module(module).__file__ or "")
    if PURE or not a_compiler_was_used():
        assert loaded == source(module)
    else:
        assert loaded == extension(module), "`make install` builds it"


@each_module
def test_no_extension_is_older_than_its_source(module: str) -> None:
    assert not is_stale(module), "`make install` builds it again"


def test_exactly_the_modules_with_a_pxd_file_are_compiled() -> None:
    folders = (path.resolve() for path in (SRC / "kafka_sidecar").iterdir() if path.is_symlink())
    typed = {path.with_suffix(".py") for folder in folders for path in folder.rglob("*.pxd")}
    assert {source(module).resolve() for module in compiled.MODULES} == typed


def test_make_install_builds_every_compiled_module() -> None:
    patterns = re.search(r"^TYPED := \$\(wildcard (.+)\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert patterns is not None
    known = {path.with_suffix(".py") for pattern in patterns[1].split() for path in ROOT.glob(pattern)}
    assert known == {source(module).resolve() for module in compiled.MODULES}


def test_the_reported_build_is_the_one_in_use() -> None:
    extensions = {import_module(module).__file__ != str(source(module)) for module in compiled.MODULES}
    assert compiled.in_use() == (
        "partly compiled" if len(extensions) == 2 else "compiled" if True in extensions else "python"
    )


def test_a_build_with_only_some_modules_compiled_is_reported_as_partly_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "MODULES", ("one", "other"))
    monkeypatch.setattr(compiled, "is_compiled", lambda module: module == "one")
    assert compiled.in_use() == "partly compiled"


def test_a_module_that_is_not_found_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = SimpleNamespace(find_spec=lambda name, path: ModuleSpec(name, None))
    monkeypatch.setattr("sys.meta_path", [finder])
    assert not compiled.is_compiled("kafka_sidecar.codec.json.syntax")


def test_asking_for_the_build_imports_no_compiled_module() -> None:
    look = "import sys; from kafka_sidecar.codec import compiled; compiled.in_use(); print('lz4' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
