"""Writes java.jsonl: batches that Kafka's own classes wrote, and what those classes read in them.

usage: python tests/golden/batches/make.py    (needs a JDK and `make kafka`)
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.tool_host import ToolHost
from harness.versions import NEWEST

FILE = Path(__file__).with_name("java.jsonl")


def made() -> str:
    """One JSON object per line: name, hex and batches as tests/jvm/java/Kafka4BatchJudge.java describes them."""
    with ToolHost(NEWEST) as java:
        return java.run("Kafka4BatchJudge", "write")


def read_by_java(batches: list[bytes]) -> str:
    """One line for each of these: what Java reads in it, or its error."""
    with ToolHost(NEWEST) as java:
        return java.run("Kafka4BatchJudge", "read", stdin="\n".join(batch.hex() for batch in batches))


if __name__ == "__main__":
    FILE.write_text(made(), encoding="utf-8")
