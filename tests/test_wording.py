"""Plain technical English with Kafka's own terms: the words of the table below are used in no code, test or page.

A word or phrase matches whole words in any case, also as part of a name (``told_once``, ``in_hand``) and over the end
of a line. A normal meaning of a word goes into ``ALLOWED``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import PACKAGES, ROOT

USE_INSTEAD = {
    "anew": "again, new",
    "any more": "no longer",
    "behind": "after",
    "come along": "built-in",
    "comes along": "built-in",
    "had to do with": "the verb itself: used, changed, affected",
    "has to do with": "the verb itself: used, changed, affected",
    "in hand": "handled by an exchange",
    "judge": "validate; in tests: reference implementation",
    "judged": "validated",
    "judges": "validates; in tests: reference implementations",
    "left out": "omitted, suppressed, removed",
    "lets pass": "allows, forwards",
    "nobody": "no client, no policy, no other test",
    "put in front of": "deploy",
    "seldom": "rate-limited",
    "somebody": "a client, an operator, another program",
    "stands for": "represents, belongs to",
    "taken out": "disabled, removed",
    "the very same": "the same",
    "the way of": "the flow of, the path of",
    "told": "notified, reported, returned",
    "without a word": "silently",
    "what is none": "what is not one",
}

PLACES = (
    *PACKAGES, ".github", "bench", "docs", "examples", "helm", "tests", "compose.yaml",
    *("README.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md"),
)  # fmt: skip

# Where a word has its normal meaning, or was a name in an earlier release: file, and the phrase around it.
ALLOWED: set[tuple[str, str]] = set()  # file, phrase

SUFFIXES = (".html", ".js", ".md", ".pxd", ".py", ".yaml", ".yml")
VENDORED = ("uPlot.",)  # how the names of files begin that others have written
THIS_FILE = Path(__file__).resolve()


def pattern_of(phrase: str) -> re.Pattern[str]:
    """The words of a phrase, whole, with white space, underscores or the sign of a comment between them."""
    words = r"[\s_#>/*]+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<![A-Za-z]){words}(?![A-Za-z])", re.IGNORECASE)


def letters(text: str) -> set[str]:
    return set(re.findall("[a-z]+", text.lower()))


PATTERNS = {phrase: pattern_of(phrase) for phrase in USE_INSTEAD}
LETTERS = {phrase: letters(phrase) for phrase in USE_INSTEAD}  # a text without them need not be searched


def files(place: str) -> Iterator[Path]:
    path = ROOT / place
    for one in [path] if path.is_file() else sorted(path.rglob("*")):
        if one.suffix in SUFFIXES and not one.name.startswith(VENDORED) and one.resolve() != THIS_FILE:
            yield one


def found(name: str, text: str) -> Iterator[str]:
    """A line for each word of the table in a text, with what to use instead."""
    for file, phrase in ALLOWED:
        if file == name:
            text = text.replace(phrase, re.sub("[^\n]", " ", phrase))
    words = letters(text)
    for phrase, pattern in PATTERNS.items():
        for match in pattern.finditer(text) if LETTERS[phrase] <= words else ():
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: {match[0]!r}: {USE_INSTEAD[phrase]}"


@pytest.mark.parametrize("place", PLACES)
def test_plain_words_are_used(place: str) -> None:
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files(place)}
    assert texts
    assert [line for name, text in texts.items() for line in found(name, text)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The client is told twice. TOLD!", 2),
        ("def told_once(): ...", 1),
        ("// put in\n  // front of", 1),
        ("/* taken\n * out */", 1),
        ("a request taken in\n    # hand", 1),
        ("requests_in_hand = 0", 1),
        ("untold handles, behindhand", 0),
    ],
)
def test_whole_words_are_found_in_prose_names_and_over_line_ends(text: str, words: int) -> None:
    assert len(list(found("a.py", text))) == words


def test_the_page_of_the_admin_port_is_searched_without_what_others_have_written() -> None:
    names = {path.name for path in files("proxy") if path.parent.name == "page"}
    assert {"index.html", "page.js", "lists.js", "stream.js"} <= names
    assert not any(name.startswith(VENDORED) for name in names)


def test_what_is_allowed_is_still_there() -> None:
    assert [(file, phrase) for file, phrase in ALLOWED if phrase not in (ROOT / file).read_text(encoding="utf-8")] == []
