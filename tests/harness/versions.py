"""Where the fetched brokers and tools are, and which versions there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "kafka"
_LISTED = (ROOT / "tests" / "jvm" / "versions.txt").read_text()

# Newest first.
BROKERS: tuple[str, ...] = tuple(line for line in _LISTED.splitlines() if re.match(r"\d", line))
NEWEST, *_, OLDEST = BROKERS
# The Java clients of the matrix: the newest and the oldest supported.
JAVA_CLIENTS: tuple[str, ...] = (NEWEST, OLDEST)


def jars(version: str) -> str:
    """The class path of one Kafka version; raises FileNotFoundError naming the remedy when it was not fetched."""
    folder = CACHE / version
    if not folder.is_dir():
        raise FileNotFoundError(f"Kafka {version} was not fetched: make kafka")
    return f"{folder}/*"


def as_numbers(version: str) -> tuple[int, ...]:
    """
    >>> as_numbers("4.0.2") < as_numbers("4.3.1")
    True
    """
    return tuple(map(int, version.split(".")))
