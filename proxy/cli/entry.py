"""The entry point of the command: blocks SIGHUP before the imports, which take most of a second.

By default SIGHUP kills a process. One that comes before the handler is set is delivered to it afterwards.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line."""
    if sys.argv[1:2] == ["run"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    from kafka_sidecar.proxy.cli.main import main as run

    run()
