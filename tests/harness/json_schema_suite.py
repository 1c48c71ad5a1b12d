"""The official test suite of JSON Schema, as the source distribution of the library ``jsonschema`` has it.

It is fetched by pip into .cache/json_schema once, and read only by tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERSION = "4.26.0"
REMOTES = "http://localhost:1234/"  # where the suite expects its remote documents
_FOLDER = Path(__file__).resolve().parents[2] / ".cache/json_schema"


def cases(draft: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case of a draft with its place; it has a description, a schema and tests."""
    folder = fetched() / "tests" / draft
    for path in sorted(folder.rglob("*.json")):
        for case in json.loads(path.read_text()):
            yield f"{path.relative_to(folder)}: {case['description']}", case


def remotes() -> dict[str, str]:
    """The documents that schemas of the suite refer to, by their addresses."""
    folder = fetched() / "remotes"
    return {REMOTES + str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.json")}


def fetched() -> Path:
    """The folder. Whoever comes first fetches it; it appears under its name only when it is whole."""
    wanted = _FOLDER / VERSION
    if not wanted.exists():
        wanted.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part.", dir=wanted.parent))
        try:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "jsonschema"]
            subprocess.run([*pip, f"jsonschema=={VERSION}", "--dest", str(part)], check=True, stdin=subprocess.DEVNULL)
            with tarfile.open(part / f"jsonschema-{VERSION}.tar.gz") as archive:
                archive.extractall(part, filter="data")
            (part / f"jsonschema-{VERSION}" / "json").replace(wanted)
        finally:
            shutil.rmtree(part)
    return wanted
