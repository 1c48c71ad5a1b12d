"""The navigation is README's table of the documentation: its first column are the parts, its links the pages."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

PARTS = {
    "learn it in twenty minutes": "Tutorial",
    "do one task": "How-to",
    "look something up": "Reference",
    "know why": "Why",
    "compare, deploy or extend it": "Further",
    "change it": "Project",
}
ROW = re.compile(r"^\| ([^|]+) \| (.+) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
PAGE_OF_FOLDER = {"docs/decisions/": "docs/site/decisions.md", "docs/site/api/": "docs/site/api/index.md"}


def parts(readme: str) -> dict[str, list[tuple[str, str]]]:
    """Each part's pages as (title, path), of the table under README's heading "Documentation"."""
    rows = ROW.findall(readme.partition("\n## Documentation\n")[2])
    found = {to: LINK.findall(links) for to, links in rows}
    return {name: found[to] for to, name in PARTS.items()}


def _trees(readme: str) -> str:
    trees = ""
    for name, pages in parts(readme).items():
        entries = [f"{title} <{PAGE_OF_FOLDER.get(path, path).removesuffix('.md')}>" for title, path in pages]
        lines = [":::{toctree}", ":hidden:", f":caption: {name}", "", *map(_capital, entries), ":::", ""]
        trees += "\n".join(["", *lines])
    return trees


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _with_navigation(app: Sphinx, name: str, content: list[str]) -> None:
    if name == app.config.root_doc:
        content[0] += _trees(content[0])


def _copy_front_page(app: Sphinx, error: Exception | None) -> None:
    """The front page under the name that servers look for; its own name is in links and in the search."""
    front = Path(app.outdir, f"{app.config.root_doc}.html")
    if error is None and front.exists():
        shutil.copyfile(front, front.with_name("index.html"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _with_navigation)
    app.connect("build-finished", _copy_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
