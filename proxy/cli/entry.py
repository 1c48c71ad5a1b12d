"""The entry point of the command: signals during the imports, which take most of a second.

By default SIGHUP kills a process. One that comes before the handler is set is delivered to it afterwards.
SIGTERM ends it, also as process 1 of a container: the kernel discards signals that process 1 has no handler for, and
Kubernetes would kill it after the whole grace period.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["run"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        # Nothing has been served. Not by an exception, which what is being imported could catch.
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
        from kafka_sidecar.proxy.cli.run import main as run_command  # alone: see there
    else:
        from kafka_sidecar.proxy.cli.main import main as run_command

    run_command()
