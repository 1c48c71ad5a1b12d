"""Kafka's own definitions of its messages: the JSON files inside the newest kafka-clients jar, and one before 4.0.

They are fetched by Maven into .cache/kafka/definitions once, and read only by tests.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

NEWEST_CLIENTS = "4.4.0"
OLD_CLIENTS = "3.9.2"  # the last that have the versions which brokers dropped in 4.0 (KIP-896)
_FOLDER = Path(__file__).resolve().parents[2] / ".cache/kafka/definitions"
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)

Definition = dict[str, Any]


@cache
def definitions(clients: str = NEWEST_CLIENTS) -> dict[str, Definition]:
    """Name of a message -> its definition as Kafka wrote it."""
    found = {}
    with zipfile.ZipFile(fetched(clients)) as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                definition = json.loads(_COMMENT.sub("", jar.read(name).decode()))
                found[definition["name"]] = definition
    return found


def fetched(clients: str) -> Path:
    """The jar. Whoever comes first fetches it; it appears under its name only when it is whole."""
    wanted = _FOLDER / f"kafka-clients-{clients}.jar"
    if not wanted.exists():
        wanted.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part.", dir=wanted.parent))
        try:
            artifact = f"-Dartifact=org.apache.kafka:kafka-clients:{clients}"
            maven = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={part}"]
            subprocess.run(maven, check=True, cwd=part, stdin=subprocess.DEVNULL)
            (part / wanted.name).replace(wanted)
        finally:
            shutil.rmtree(part)
    return wanted
