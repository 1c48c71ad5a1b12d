"""A process of its own for calls of libraries that would hold up all others.

Some libraries keep the interpreter's lock until they return: a thread does not help. So what takes them long goes to
another process, which is ended where it takes too long or too much memory. It is started when it is needed, and ends
with this one.
"""

from __future__ import annotations

import atexit
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable
from math import ceil
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from kafka_sidecar.codec.checkpoint import ThreadRequiredError, checkpoint

LIMIT_S = 5.0  # of one call
LOOK_S = 0.02  # between two looks at whether the result is still wanted
WORKER = "kafka_sidecar.schemas.own_process_worker"
P = ParamSpec("P")
T = TypeVar("T")


class TookTooLongError(Exception):
    """The process was ended: it took longer than `LIMIT_S`, or more memory than it has."""


class OwnProcess:
    """The process, for one caller at a time."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._turn = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What a function of a module returns there. It is sent by its name; arguments and result are pickled.

        Raises:
            ThreadRequiredError: this is the thread of the event loop, which must not wait.
            TookTooLongError: it has not returned in time.
            ValueError: as it did there.
        """
        if _is_event_loop():
            raise ThreadRequiredError
        while not self._turn.acquire(timeout=LOOK_S):
            checkpoint()
        try:
            found = self._exchange((function, arguments, named))
        except BaseException:
            self._end()
            raise
        finally:
            self._turn.release()
        if isinstance(found, ValueError):
            raise found
        result: T = found
        return result

    def close(self) -> None:
        with self._turn:
            self._end()

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


SHARED = OwnProcess()  # by all, so that its memory is needed once
atexit.register(SHARED.close)
