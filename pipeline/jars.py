"""The jars of Spark's Kafka connector: where they are, whether they are the right ones, and how they are fetched.

Not `spark.jars.packages`: it resolves dependencies at each start, over the network, and none of them is verified.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_HERE = Path(__file__).parent
POM, SUMS = _HERE / "pom.xml", _HERE / "jars.sha256"
REMEDY = "`kafka-sidecar pipeline jars` fetches them"


class JarError(Exception):
    """A jar is missing or is not the expected one. The message has the remedy."""


def expected_jars() -> dict[str, str]:
    """File name to SHA-256."""
    rows = (line.split() for line in SUMS.read_text(encoding="utf-8").splitlines())
    return {name: digest for digest, name in rows}


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    cache = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".cache"
    return Path(cache, "kafka-sidecar", "spark-jars")


def find_jars(folder: Path | None) -> list[Path]:
    """The jars in the configured folder, or else in the default one. Raises JarError if one is missing or different."""
    place = folder or default_folder()
    found = []
    for name, digest in expected_jars().items():
        jar = place / name
        if not jar.is_file():
            raise JarError(f"pipeline.jars: {place} has no {name}; {REMEDY}")
        with jar.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != digest:
                raise JarError(f"pipeline.jars: {jar} is not the jar with SHA-256 {digest}; delete it, then {REMEDY}")
        found.append(jar.absolute())
    return found


def fetch_jars(folder: Path | None = None) -> Path:
    """Fetch what is missing with Maven. Returns the folder; raises JarError."""
    place = folder or default_folder()
    if not all((place / name).is_file() for name in expected_jars()):
        place.mkdir(parents=True, exist_ok=True)
        _run_maven(place)
    find_jars(place)
    return place


def _run_maven(place: Path) -> None:
    if shutil.which("mvn") is None:
        names = ", ".join(expected_jars())
        raise JarError(f"mvn is not installed; install Maven, or copy these files to {place}: {names}")
    command = ["mvn", "--quiet", "--batch-mode", f"--file={POM}", "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, "-DincludeScope=runtime", f"-DoutputDirectory={place.absolute()}"], capture_output=True, text=True
    )
    if done.returncode:  # in quiet mode Maven may print nothing at all
        output = (done.stdout + done.stderr).strip().splitlines()
        raise JarError(f"Maven failed with exit code {done.returncode}: {output[0] if output else 'no message'}")
