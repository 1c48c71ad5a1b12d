"""The process of `own_process`: calls functions, one after the other."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from typing import IO, Any

MAX_MEMORY = 1 << 30  # bytes of addresses


def serve(requests: IO[bytes], answers: IO[bytes], limit_s: int) -> None:
    """Answer until the requests end.

    A call that takes longer than ``limit_s`` ends the process by SIGALRM; who has asked ends it earlier, but may have
    been killed.
    """
    while True:
        try:
            function, arguments, named = pickle.load(requests)  # noqa: S301 - of the process that started this one
        except EOFError:
            return
        signal.alarm(limit_s)
        answer: Any
        try:
            answer = function(*arguments, **named)
        except ValueError as error:
            answer = ValueError(str(error))
        del arguments, named  # they may be large
        pickle.dump(answer, answers)
        answers.flush()
        signal.alarm(0)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    os.nice(5)  # the sidecar's own work goes first
    serve(sys.stdin.buffer, sys.stdout.buffer, int(sys.argv[1]))
