"""The documentation as data: its pages, headings, links, code blocks and tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from kafka_sidecar.proxy.config.loading import Config

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]+?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced code block; ``mark`` is the HTML comment on the line before it."""

    language: str
    text: str
    mark: str | None


@dataclass(frozen=True, slots=True)
class Link:
    text: str
    target: str


class Page:
    """One Markdown file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = str(path.relative_to(ROOT))
        self.text = path.read_text(encoding="utf-8")
        self.blocks = [Block(found["language"], found["text"], found["mark"]) for found in _FENCE.finditer(self.text)]
        self.prose = _FENCE.sub("", self.text)
        self.links = [Link(found["text"], found["target"]) for found in _LINK.finditer(self.prose)]
        self.headings = [(len(marks), title.strip()) for marks, title in _HEADING.findall(self.prose)]

    def titles(self, level: int) -> list[str]:
        return [title for found, title in self.headings if found == level]

    def anchors(self) -> set[str]:
        """The anchors of this page: the parts after # in links."""
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for _, title in self.headings}

    def section(self, title: str) -> str:
        """The prose under a heading, up to the next of its level or above."""
        level = next(found for found, name in self.headings if name == title)
        start = self.prose.index(f"{'#' * level} {title}\n") + level + 1 + len(title)
        end = re.compile(rf"^#{{1,{level}}} ", re.MULTILINE).search(self.prose, start)
        return self.prose[start : end.start() if end else None]

    def first_column(self, title: str) -> list[str]:
        """The code words in the first column of the tables under a heading."""
        rows = [line.split("|")[1] for line in self.section(title).splitlines() if line.startswith("| `")]
        return [word for cell in rows for word in _CODE.findall(cell)]


@cache
def page(name: str) -> Page:
    return Page(ROOT / name)


def all_pages() -> list[Page]:
    top = (
        ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
    )
    pages = (path for folder in ("docs", "helm", "bench") for path in sorted((ROOT / folder).rglob("*.md")))
    return [Page(path) for path in [*top, *pages]]


PACKAGES = (
    "codec", "plugins", "outbound", "schemas", "policies", "interceptors", "audit", "dead_letters", "large_messages",
    "deploy", "proxy", "pipeline",
)  # fmt: skip


def modules(*folders: str) -> list[Path]:
    """The Python files of folders of the project, relative to its root."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def statements(module: ast.Module) -> Iterator[ast.AST]:
    """All of a module, also inside others: a tenth of what `ast.walk` finds."""
    waiting: list[ast.AST] = [*module.body]
    while waiting:
        yield (found := waiting.pop())
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(found, part, ())


@cache
def defined_names(path: Path) -> frozenset[str]:
    """Functions, classes, their methods as ``Class.method``, and what is assigned at the top of a module."""
    return frozenset(_names(tree(path).body, ""))


def _names(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from _names(node.body, f"{prefix}{name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name


def settings(section: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """The dotted names of all settings."""
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from settings(field.annotation, f"{prefix}{name}.")
        else:
            yield prefix + name
