"""JSON Schemas in a process of their own, for what would hold up all others.

The library keeps the interpreter's lock while it compiles a schema or validates a value: a thread does not help. So a
large value, and a schema that is not trusted, go to another process, which is ended where it takes too long or too much
memory. It is started when it is needed, and ends with this one.
"""

from __future__ import annotations

import atexit
import pickle
import select
import subprocess
import sys
import time
from math import ceil
from threading import Lock
from typing import Any

from kafka_sidecar.codec.checkpoint import ThreadRequiredError, checkpoint

LIMIT_S = 5.0  # of one schema, or one value
LOOK_S = 0.02  # between two looks at whether the result is still wanted
WORKER = "kafka_sidecar.schemas.json_worker"
Source = tuple[str, tuple[tuple[str, str], ...], bool]  # text, documents by name, whether formats are asserted


class TookTooLongError(Exception):
    """The process was ended: it took longer than `LIMIT_S`, or more memory than it has."""


class SchemaProcess:
    """The process, for one caller at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._turn = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def compile(self, source: Source) -> float:
        """The seconds that it takes. Raises TookTooLongError; ValueError: it is not a schema."""
        found = self._ask(("compile", source))
        if isinstance(found, ValueError):
            raise found
        return float(found)

    def find_fault(self, source: Source, text: bytes) -> Any:
        """As `JsonSchema.fault_of` of a text that is well-formed JSON, of a depth that was checked."""
        return self._ask(("find", source, text))

    def close(self) -> None:
        with self._turn:
            self._end()

    def _ask(self, question: object) -> Any:
        """The answer of the process.

        Raises:
            ThreadRequiredError: this is the thread of the event loop, which must not wait.
            TookTooLongError: it has not answered in time.
        """
        if _is_event_loop():
            raise ThreadRequiredError
        while not self._turn.acquire(timeout=LOOK_S):
            checkpoint()
        try:
            return self._exchange(question)
        except BaseException:
            self._end()
            raise
        finally:
            self._turn.release()

    def _exchange(self, question: object) -> Any:
        if self._child is None or self._child.poll() is not None:
            self._end()
            self._child = _start(self._limit_s)
        requests, answers = self._child.stdin, self._child.stdout
        assert requests is not None
        assert answers is not None
        deadline = time.monotonic() + self._limit_s
        readable = select.poll()
        readable.register(answers, select.POLLIN)
        try:
            pickle.dump(question, requests)
            requests.flush()
            while not readable.poll(LOOK_S * 1000):
                checkpoint()
                if time.monotonic() > deadline:
                    raise TookTooLongError(f"more than {self._limit_s:g} s")
            return pickle.load(answers)  # noqa: S301 - of our own process
        except (OSError, EOFError, pickle.UnpicklingError):
            raise TookTooLongError("more memory than there is for it") from None

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()  # closes the pipes
            self._child = None


def _is_event_loop() -> bool:
    asyncio = sys.modules.get("asyncio")  # not imported by the process itself
    return asyncio is not None and asyncio._get_running_loop() is not None


def _start(limit_s: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", WORKER, str(ceil(limit_s) + 1)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the sidecar, which drains
    )


SHARED = SchemaProcess()
atexit.register(SHARED.close)
