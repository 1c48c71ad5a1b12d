"""Kafka's own definitions of its messages: the JSON files inside the newest kafka-clients jar.

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
_JAR = Path(__file__).resolve().parents[2] / ".cache/kafka/definitions" / f"kafka-clients-{NEWEST_CLIENTS}.jar"
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)

Definition = dict[str, Any]


@cache
def definitions() -> dict[str, Definition]:
    """Name of a message -> its definition as Kafka wrote it."""
    found = {}
    with zipfile.ZipFile(fetched()) as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                definition = json.loads(_COMMENT.sub("", jar.read(name).decode()))
                found[definition["name"]] = definition
    return found


def fetched() -> Path:
    """The jar. Whoever comes first fetches it; it appears under its name only when it is whole."""
    if not _JAR.exists():
        _JAR.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".part.", dir=_JAR.parent))
        try:
            artifact = f"-Dartifact=org.apache.kafka:kafka-clients:{NEWEST_CLIENTS}"
            maven = ["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={part}"]
            subprocess.run(maven, check=True, cwd=part, stdin=subprocess.DEVNULL)
            (part / _JAR.name).replace(_JAR)
        finally:
            shutil.rmtree(part)
    return _JAR
