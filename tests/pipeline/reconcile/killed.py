"""A run of the job that is killed at one moment. Started by test_kills.py as a process group of its own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kafka_sidecar.pipeline.reconcile import compaction
from kafka_sidecar.pipeline.reconcile.tables import Tables
from kafka_sidecar.pipeline.session import start_session
from pipeline.conftest import LOCAL
from pipeline.reconcile.conftest import run
from pipeline.reconcile.moments import Moment, replacements


def main() -> None:
    source, root, now, *wanted = sys.argv[1:]

    def act(moment: Moment) -> None:
        if moment == tuple(wanted):
            os.killpg(0, signal.SIGKILL)  # driver and JVM at once, as when the machine is switched off

    for name, method in replacements(act).items():
        setattr(Tables, name, method)
    compaction.MAX_FOLDERS = 2
    run(start_session(LOCAL, "killed", uses_kafka=False), Path(source), Path(root), lambda: int(now))


if __name__ == "__main__":
    main()
