"""What a Dockerfile says, and the files that `.dockerignore` leaves to build from."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch  # noqa: TID251 - of files, not of names
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a stage; ``text`` is what stands after its word, on one line."""

    word: str
    text: str

    def words(self, values: Mapping[str, str]) -> list[str]:
        """The text split and its variables replaced, as in ENV, LABEL and COPY."""
        return shlex.split(expand(self.text, values))

    def exec_form(self) -> list[str] | None:
        """The words of a JSON list, which runs without a shell; None for any other text."""
        return list(json.loads(self.text)) if self.text.startswith("[") else None


@dataclass(frozen=True, slots=True)
class Stage:
    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def last(self, word: str) -> Step:
        """The instruction that counts, of those that override each other."""
        return [step for step in self.steps if step.word == word][-1]


def expand(text: str, values: Mapping[str, str]) -> str:
    """A text with its variables replaced: ``$NAME`` and ``${NAME}``."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: values.get(found[1] or found[2], ""), text)


def read_stages(path: Path, arguments: Mapping[str, str]) -> list[Stage]:
    """The stages of a Dockerfile; ``arguments`` are those of ``--build-arg``."""
    stages: list[Stage] = []
    values: dict[str, str] = {}
    for step in _steps(path):
        if step.word == "FROM":
            base, _, name = expand(step.text, values).partition(" AS ")
            stages.append(Stage(base, name))
        elif not stages:
            name, _, default = step.text.partition("=")
            values[name] = arguments.get(name, default)
        else:
            stages[-1].steps.append(step)
    return stages


def _steps(path: Path) -> Iterator[Step]:
    lines = (line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    joined = "\n".join(lines).replace("\\\n", " ")
    for line in filter(None, map(str.strip, joined.splitlines())):
        word, _, text = line.partition(" ")
        yield Step(word, text.strip())


def copy_context(target: Path) -> Path:
    """Copies what `.dockerignore` leaves of the project, links as links; returns the folder."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    # A link is copied as it is, and what it leads to is ignored or copied where it is.
    return shutil.copytree(ROOT, target, symlinks=True, ignore=lambda folder, names: _ignored(folder, names, patterns))


def _ignored(folder: str, names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    below = Path(folder).relative_to(ROOT)
    paths = {name: str(below / name) for name in names}
    anywhere = [pattern.removeprefix("**/") for pattern in patterns if pattern.startswith("**/")]
    return {
        name
        for name, path in paths.items()
        if any(fnmatch(name, pattern) for pattern in anywhere)
        # fnmatch's * crosses folders, Docker's does not: a pattern without / is of the first folder only.
        or (below == Path() and any(fnmatch(path, pattern) for pattern in patterns))
    }
