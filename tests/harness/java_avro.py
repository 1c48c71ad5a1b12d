"""Apache Avro's own reader and writer in Java (tests/jvm/avro); Maven fetches them into .cache/avro once."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = _ROOT / "tests/jvm/avro"
_FOLDER = _ROOT / ".cache/avro"


@dataclass(frozen=True, slots=True)
class Question:
    """A schema, values to read by it, and a number of random values to write."""

    schema: Any
    read: tuple[bytes, ...] = ()
    write: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What Java makes of it; the schema cannot be parsed where there is an error."""

    read: tuple[bytes | None, ...]  # each value as Java writes it again; None: Java cannot read it to its end
    written: tuple[bytes, ...]
    in_blocks: tuple[bytes, ...]  # the same values, with the sizes of blocks
    error: str | None


def asked(questions: Iterable[Question]) -> list[Answer]:
    """The answers of one JVM."""
    lines = [
        json.dumps(
            {
                "schema": json.dumps(one.schema),
                "read": [value.hex() for value in one.read],
                "write": one.write,
                "seed": one.seed,
            }
        )
        for one in questions
    ]
    # With a limit of its own, or a few bytes would be two thousand million nulls.
    options = ["-Xmx512m", "-Dorg.apache.avro.limits.collectionItems.maxLength=1000000"]
    command = ["java", *options, "-cp", f"{_fetched()}/*", str(_SOURCES / "JavaAvro.java")]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [_answer(json.loads(line)) for line in done.stdout.splitlines()]


def _answer(found: dict[str, Any]) -> Answer:
    return Answer(
        tuple(None if value is None else bytes.fromhex(value) for value in found.get("read", ())),
        tuple(map(bytes.fromhex, found.get("written", ()))),
        tuple(map(bytes.fromhex, found.get("in_blocks", ()))),
        found.get("error"),
    )


def _fetched() -> Path:
    """The folder of jars. It appears under its name only when it is whole, with the pom that it came from."""
    pom = _SOURCES / "pom.xml"
    if not (_FOLDER / "pom.xml").exists() or (_FOLDER / "pom.xml").read_bytes() != pom.read_bytes():
        _FOLDER.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part.", dir=_FOLDER.parent))
        maven = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        try:
            subprocess.run([*maven, f"-DoutputDirectory={part}"], check=True, stdin=subprocess.DEVNULL)
            shutil.copy(pom, part)
            shutil.rmtree(_FOLDER, ignore_errors=True)
            part.replace(_FOLDER)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return _FOLDER
