"""The program of a worker. Its only argument is the descriptor of its end of the channel."""

from __future__ import annotations

import signal
import socket
import sys


def main() -> None:
    """Serve until drained."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # see cli/entry.py
    from kafka_sidecar.proxy.runtime.program import runner, share_arena
    from kafka_sidecar.proxy.server.workers.worker import serve

    share_arena()  # before plug-ins are loaded, which may start threads
    with socket.socket(fileno=int(sys.argv[1])) as end, runner() as loop:
        sys.exit(loop.run(serve(end)))


if __name__ == "__main__":
    main()
