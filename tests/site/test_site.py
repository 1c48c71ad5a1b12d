"""The built site: every link and anchor is there, no other host is asked for anything, every page can be found."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from support.pages import ROOT, all_pages

pytestmark = pytest.mark.site

SITE = ROOT / "build" / "site" / "html"
REPOSITORY = os.environ.get("KAFKA_SIDECAR_URL", "").rstrip("/")
# What a browser fetches by itself, in each element.
FETCHED = {
    "script": ["src"], "img": ["src", "srcset"], "iframe": ["src"], "source": ["src", "srcset"], "embed": ["src"],
    "object": ["data"], "video": ["src", "poster"], "audio": ["src"], "image": ["href", "xlink:href"],
    "use": ["href", "xlink:href"], "link": ["href"], "form": ["action"], "input": ["src"],
}  # fmt: skip
ELSEWHERE = re.compile(r"^\s*(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
IN_SCRIPTS = re.compile(
    r"(?:fetch|import|importScripts|Worker|\.src\s*=|\.open)\s*\(?\s*['\"`]((?:https?:)?//[^'\"`]+)"
)


class Html(HTMLParser):
    """The links, anchors and fetched addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.styles: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.fetched += [values[name] for name in FETCHED.get(tag, []) if name in values]
        self.styles += [values["style"]] if "style" in values else []
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.styles.append(data)


@cache
def html(path: Path) -> Html:
    return Html(path.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    found = sorted(SITE.rglob("*.html"))
    assert len(found) > 80, "`make docs` builds the site"
    return found


def asked_elsewhere(styles: str) -> Iterator[str]:
    for groups in IN_STYLES.findall(styles):
        yield from (address for address in groups if ELSEWHERE.match(address))


def foreign(path: Path) -> Iterator[str]:
    """The addresses at other hosts that a browser fetches because of this file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix in (".html", ".svg"):
        parsed = html(path)
        yield from (address for address in parsed.fetched if ELSEWHERE.match(address))
        yield from asked_elsewhere("\n".join(parsed.styles))
    elif path.suffix == ".css":
        yield from asked_elsewhere(text)
    elif path.suffix == ".js" and path.name != "searchindex.js":
        yield from IN_SCRIPTS.findall(text)


def test_nothing_is_fetched_from_another_host() -> None:
    files = [path for path in SITE.rglob("*") if path.suffix in (".html", ".svg", ".css", ".js")]
    assert [(str(path.relative_to(SITE)), address) for path in files for address in foreign(path)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://example.org/a.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//example.org/a.css">'),
        ("a.html", '<p style="background: url(https://example.org/a.png)">'),
        ("a.html", "<style>@import 'https://example.org/a.css';</style>"),
        ("a.css", "@font-face { src: url('https://example.org/a.woff2') }"),
        ("a.js", 'fetch("https://example.org/a")'),
        ("a.svg", '<svg><image href="https://example.org/a.png"/></svg>'),
    ],
)
def test_another_host_is_found_wherever_it_is_named(name: str, text: str, tmp_path: Path) -> None:
    (path := tmp_path / name).write_text(text)
    assert list(foreign(path)) != []


def dead(path: Path) -> Iterator[str]:
    for link in html(path).links:
        parts = urlsplit(link)
        if parts.scheme or link == "#":
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        anchor = unquote(parts.fragment) if target.suffix == ".html" else ""
        if not target.is_file() or (anchor and anchor not in html(target).anchors):
            yield link


def test_every_link_and_every_anchor_is_there() -> None:
    assert [(str(path.relative_to(SITE)), link) for path in pages() for link in dead(path)] == []


def test_links_to_sources_lead_to_the_repository_or_are_text() -> None:
    design = (SITE / "docs" / "design.html").read_text(encoding="utf-8")
    links = [link for link in html(SITE / "docs" / "design.html").links if "session.py" in link]
    assert "relay/session.py" in design
    assert links == ([f"{REPOSITORY}/blob/main/proxy/relay/session.py"] * len(links) if REPOSITORY else [])


def test_every_page_of_the_documentation_is_in_the_site_and_in_the_navigation() -> None:
    front = {urljoin("/", unquote(urlsplit(link).path)) for link in html(SITE / "index.html").links}
    for page in all_pages():
        built = page.path.relative_to(ROOT).with_suffix(".html")
        assert (SITE / built).is_file(), page.name
        is_in_a_list = built.parent.name in ("decisions", "api")
        assert f"/{built}" in front or is_in_a_list or page.name == "README.md", page.name


def test_the_search_finds_words_of_pages_and_names_of_the_interface() -> None:
    text = (SITE / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(re.fullmatch(r"Search\.setIndex\((.*)\)", text, re.DOTALL)[1])  # type: ignore[index]
    pages_with = {word: numbers if isinstance(numbers, list) else [numbers] for word, numbers in index["terms"].items()}
    assert "docs/reference/large-messages" in {index["docnames"][number] for number in pages_with["slice"]}
    assert "RecordValidationPolicy" in {entry[-1] for entries in index["objects"].values() for entry in entries} | {
        name for entries in index["objects"].values() if isinstance(entries, dict) for name in entries
    }


def test_diagrams_are_drawn() -> None:
    design = (SITE / "docs" / "design.html").read_text(encoding="utf-8")
    assert design.count('<div class="diagram"><svg') == 2
    assert "flowchart TD" not in design
