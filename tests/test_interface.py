"""The interface for plug-ins: its pages are those that the how-to lists, and every public name is explained."""

from __future__ import annotations

import ast
import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import ROOT, page, tree

PAGES = ROOT / "docs" / "site" / "api"


def listed() -> list[str]:
    """The modules that the how-to names as the interface."""
    (line,) = re.findall(r"^These modules are the interface for plug-ins; (.+), all under", page(HOW_TO).text, re.M)
    return re.findall(r"`([a-z_.]+)`", line)


HOW_TO = "docs/how-to/plug-ins.md"
MODULES = listed()


def path_of(module: str) -> Path:
    path = Path(*module.split("."))
    return path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")


def sources(module: str) -> Iterator[tuple[Path, set[str] | None]]:
    """The files that define what a module offers, with the names of each; None: all without an underscore."""
    path = path_of(module)
    if path.name != "__init__.py":
        yield path, None
        return
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"kafka_sidecar.{module}."):
            of = path_of((node.module or "").removeprefix("kafka_sidecar."))
            yield of, {alias.asname or alias.name for alias in node.names}


def unexplained(body: list[ast.stmt], prefix: str, names: set[str] | None, module: str = "") -> Iterator[str]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or (names is not None and node.name not in names):
            continue
        if ast.get_docstring(node) is None and not has_that_of_another(node, f"{module}.{prefix}{node.name}"):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from unexplained(node.body, f"{prefix}{node.name}.", None, module)


def has_that_of_another(node: ast.stmt, name: str) -> bool:
    """Whether it overrides what is explained, or is one of several forms of one function."""
    if "overload" in [ast.unparse(one) for one in getattr(node, "decorator_list", [])]:
        return True
    of_class = pydoc.locate(name.rpartition(".")[0])
    is_method = inspect.isclass(of_class) and not isinstance(node, ast.ClassDef)
    return is_method and inspect.getdoc(inspect.getattr_static(of_class, name.rpartition(".")[2])) is not None


def test_each_module_of_the_interface_has_its_page_and_no_other() -> None:
    assert sorted(path.stem for path in PAGES.glob("*.md") if path.stem != "index") == sorted(MODULES)
    for module in MODULES:
        text = (PAGES / f"{module}.md").read_text(encoding="utf-8")
        assert text.startswith(f"# `{module}`\n")
        assert f".. automodule:: kafka_sidecar.{module}\n" in text


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_of_the_interface_has_a_docstring(module: str) -> None:
    assert ast.get_docstring(tree(path_of(module)))
    found = [
        f"{path}: {name}"
        for path, names in sources(module)
        for name in unexplained(tree(path).body, "", names, f"kafka_sidecar.{'.'.join(path.with_suffix('').parts)}")
    ]
    assert found == []


def test_a_name_without_a_docstring_is_found() -> None:
    lines = ["class A:", "    'It.'", "    def b(self): ...", "    def _c(self): ...", "def d(): ...", "def e(): 'It.'"]
    source = "\n".join(lines)
    assert list(unexplained(ast.parse(source).body, "", None)) == ["A.b", "d"]
