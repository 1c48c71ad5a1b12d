"""The structure of the project from its imports: import contracts, circles, and the picture in docs/design.md.

`make picture` writes the picture. Its order is that of the layers in pyproject.toml, its arrows are the imports.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grimp
from grimp import ImportGraph
from importlinter import configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract
from importlinter.domain.contract import Contract

ROOT = Path(__file__).parents[2]
PACKAGE = "kafka_sidecar"
OTHER_PACKAGES = ("rig", "fuzz", "harness", "support")  # of bench/ and tests/
PAGE = ROOT / "docs" / "design.md"
BEGIN, END = "<!-- structure: written by `make picture` -->\n", "<!-- end of structure -->\n"
KINDS: dict[str, type[Contract]] = {"layers": LayersContract, "forbidden": ForbiddenContract}

Arrows = Mapping[str, frozenset[str]]  # name -> what it imports, itself excluded


@contextmanager
def _importable() -> Iterator[None]:
    before = sys.path[:]
    sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests", "bench")]
    try:
        yield
    finally:
        sys.path[:] = before


@cache
def graph() -> ImportGraph:
    """Every import of the program, those for types and those inside functions too. Copy it before changing it."""
    with _importable():
        return grimp.build_graph(PACKAGE, include_external_packages=True, cache_dir=None)


@cache
def whole_graph() -> ImportGraph:
    """The imports between the files of the program, its benches and what its tests share."""
    with _importable():
        return grimp.build_graph(PACKAGE, *OTHER_PACKAGES, cache_dir=None)


def _settings() -> Iterable[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts: Iterable[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


@cache
def contracts() -> dict[str, Contract]:
    """The contracts of pyproject.toml by name, as `lint-imports` makes them."""
    configuration.configure()
    made = {}
    session = {"root_packages": [PACKAGE], "include_external_packages": True}
    for one in _settings():
        options = {key: str(value) if isinstance(value, bool) else value for key, value in one.items()}
        made[one["name"]] = KINDS[one["type"]](one["name"], session, options)
    return made


def broken(imports: ImportGraph) -> list[str]:
    """The names of the contracts that do not hold."""
    return [name for name in contracts() if not holds(name, imports)]


def holds(contract: str, imports: ImportGraph) -> bool:
    """Of one contract. It changes the graph, so it gets its own."""
    return bool(contracts()[contract].check(deepcopy(imports), verbose=False).kept)


def with_import(importer: str, imported: str) -> ImportGraph:
    """The program with one more import; the names are below the package, or of another one."""
    changed = deepcopy(graph())
    changed.add_import(importer=_known(changed, importer), imported=_known(changed, imported))
    return changed


def _known(imports: ImportGraph, name: str) -> str:
    inside = f"{PACKAGE}.{name}"
    if inside in imports.modules:
        return inside
    if name not in imports.modules:
        imports.add_module(name, is_squashed=True)
    return name


def circles(arrows: Arrows) -> list[list[str]]:
    """Groups in which each imports each, in one or more steps."""
    reached = {name: reachable(arrows, name) for name in arrows}
    groups = {tuple(sorted(other for other in reached[name] if name in reached[other])) for name in arrows}
    return sorted(list(group) for group in groups if group)


def reachable(arrows: Arrows, start: str) -> set[str]:
    """What ``start`` imports, in one or more steps."""
    found: set[str] = set()
    waiting = list(arrows[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += arrows.get(name, ())
    return found


def files(imports: ImportGraph) -> Arrows:
    """The imports between modules."""
    return {name: frozenset(imports.find_modules_directly_imported_by(name)) - {name} for name in imports.modules}


@dataclass(frozen=True, slots=True)
class Floors:
    """The folders in one place from top to bottom, and what each imports."""

    where: Path
    folders: tuple[str, ...]
    arrows: Arrows

    def upwards(self) -> list[tuple[str, str]]:
        """Imports of something that lies above."""
        at = {name: number for number, name in enumerate(self.folders)}
        return [(one, other) for one, others in self.arrows.items() for other in others if at[other] < at[one]]

    def drawn(self, arrows: Arrows) -> str:
        """A diagram in Mermaid's notation."""
        lines = [f"    {one} --> {other}" for one in self.folders for other in self._in_order(arrows[one])]
        return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])

    def table(self) -> str:
        """All arrows, and what each folder is for."""
        rows = [
            f"| {self._link(one)} | {self._about(one)} | {', '.join(self._in_order(self.arrows[one])) or '-'} |"
            for one in self.folders
        ]
        return "\n".join(["| folder | contents | imports |", "| --- | --- | --- |", *rows])

    def reduced(self) -> Arrows:
        """The arrows without those that lead where others lead too."""
        return {
            one: direct - {other for by in direct for other in reachable(self.arrows, by)}
            for one, direct in self.arrows.items()
        }

    def _in_order(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=self.folders.index)

    def _path(self, one: str) -> Path:
        return self.where / one if (self.where / one).is_dir() else self.where / f"{one}.py"

    def _link(self, one: str) -> str:
        path = self._path(one)
        name = f"{one}/" if path.is_dir() else path.name
        return f"[`{name}`](../{path.relative_to(ROOT)}{'/' if path.is_dir() else ''})"

    def _about(self, one: str) -> str:
        path = self._path(one)
        source = (path / "__init__.py" if path.is_dir() else path).read_text(encoding="utf-8")
        return (ast.get_docstring(ast.parse(source)) or "").splitlines()[0]


def house(imports: ImportGraph) -> list[Floors]:
    """The whole program, then what is inside the proxy: in the order of the contracts."""
    return [_floors(imports, one) for one in _settings() if one["type"] == "layers"]


def _floors(imports: ImportGraph, contract: dict[str, Any]) -> Floors:
    (container,) = contract.get("containers", [PACKAGE])
    names = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
    folders = tuple(name.rpartition(".")[2] for name in names)
    arrows: dict[str, set[str]] = {name: set() for name in folders}
    for importer, others in files(imports).items():
        one = _folder(container, importer)
        if one in arrows:
            arrows[one] |= {_folder(container, other) for other in others} & arrows.keys() - {one}
    where = ROOT / container.removeprefix(PACKAGE).strip(".")
    return Floors(where, folders, {one: frozenset(others) for one, others in arrows.items()})


def _folder(container: str, module: str) -> str:
    inside = module.removeprefix(f"{container}.")
    return "" if inside == module else inside.partition(".")[0]


def picture(imports: ImportGraph) -> str:
    """What stands between the marks in the page."""
    program, proxy, *_ = house(imports)
    parts = [program.drawn(program.arrows), "Inside `proxy/`:", proxy.drawn(proxy.reduced()), proxy.table()]
    return "\n\n".join(parts) + "\n"


def page_with(text: str) -> str:
    """The page with another picture."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with(picture(graph())), encoding="utf-8")
