"""Files of JSON lines that another process may be writing to: a sidecar's log, its events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(file: Path, message: str | None = None) -> list[dict[str, Any]]:
    """The whole lines that are objects, in order; with ``message`` those that say so.

    The last line may be half written, even in the middle of a character: it counts with its newline.
    """
    return objects(file.read_bytes(), message)


def objects(written: bytes, message: str | None = None) -> list[dict[str, Any]]:
    """The same of what was read already."""
    found = [json.loads(line) for line in whole(written) if line.startswith(b"{")]
    return [line for line in found if message is None or line.get("message") == message]


def whole(written: bytes) -> list[bytes]:
    """The lines that have ended.

    >>> whole('{"a": 1}\\n{"b": "é'.encode()[:-1]), whole(b'{"a"')
    ([b'{"a": 1}'], [])
    """
    return written[: written.rfind(b"\n") + 1].splitlines()
