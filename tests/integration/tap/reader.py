"""Whoever reads a tap of a running sidecar, as the command does: by HTTP, line by line."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from harness.sidecar import Sidecar

LIMIT_S = 40.0
Line = dict[str, Any]


class TapReader:
    """The lines of one tap so far."""

    def __init__(self, response: Any) -> None:
        self.lines: list[Line] = []
        self._response = response
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for text in self._response:
                if text.strip():
                    self.lines.append(json.loads(text))
        except (OSError, ValueError):
            return  # it was closed

    def of(self, kind: str, **values: object) -> list[Line]:
        """The lines of a kind with these values."""
        return [
            line
            for line in list(self.lines)
            if line["kind"] == kind and all(line.get(name) == value for name, value in values.items())
        ]

    def wait(self, number: int, kind: str, **values: object) -> list[Line]:
        """Once there are so many of these lines."""
        until(lambda: len(self.of(kind, **values)) >= number, f"{number} lines of {kind} {values}, not {self.lines}")
        return self.of(kind, **values)


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextmanager
def tapping(sidecar: Sidecar, kind: str, **filters: object) -> Iterator[TapReader]:
    query = urlencode({"kind": kind, **filters}, doseq=True)
    response = urllib.request.urlopen(f"{sidecar.admin}/tap?{query}", timeout=LIMIT_S)
    reader = TapReader(response)
    reader.wait(1, "tap")
    try:
        yield reader
    finally:
        response.fp.raw._sock.shutdown(2)


def refusal(sidecar: Sidecar, query: str) -> tuple[int, str]:
    """The status and the error of a tap that is not opened."""
    try:
        urllib.request.urlopen(f"{sidecar.admin}/tap?{query}", timeout=LIMIT_S)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]
    raise AssertionError(query)
