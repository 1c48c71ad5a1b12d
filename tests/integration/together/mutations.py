"""Are faults of composition found? `make mutations`: the runs of `make test` again, with a broken sidecar each time.

A mutation is found if a run fails; which one, and by what, is printed. Without a fault all runs must pass.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

from harness.sidecar import COMMAND
from harness.versions import ROOT

VARIABLE = "KAFKA_SIDECAR_MUTATION"
TESTS = ROOT / "tests"
SEED = "tests/integration/together/test_seed.py"
LIMIT_S = 400


def asked_for() -> str:
    """The name of the mutation with which the sidecars of this test run are started; empty: none."""
    return os.environ.get(VARIABLE, "")


def command(name: str, folder: Path) -> Path:
    """A program that is the sidecar with this fault, in all of its processes."""
    # Python imports this module first, also in workers, which are started without the command line.
    customize = folder / "mutated" / "sitecustomize.py"
    customize.parent.mkdir()
    customize.write_text(f"from integration.together import faults\n\nfaults.FAULTS[{name!r}].make()\n")
    program = folder / f"kafka-sidecar-{name}"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{customize.parent}:{TESTS}" exec "{COMMAND}" "$@"\n')
    program.chmod(0o755)
    return program


def found_by(name: str) -> tuple[str, str] | None:
    """The first run that fails with this fault, or without any, and its first difference; None: all pass."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = [sys.executable, "-m", "pytest", "--quiet", "-x", "-m", "integration", f"--junitxml={report}", SEED]
        environment = {**os.environ, VARIABLE: name}
        ended = subprocess.run(
            tests, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        failed = [
            (case.get("name", ""), (what.get("message") or "").strip())
            for case in ET.parse(report).iter("testcase")
            for what in (*case.iter("failure"), *case.iter("error"))
        ]
    if ended.returncode not in (0, 1) or (ended.returncode and not failed):
        raise RuntimeError(f"{name or 'no fault'}: pytest ended with {ended.returncode}\n{ended.stdout[-3000:]}")
    return failed[0] if failed else None


def main() -> int:
    """All of them, or those that the arguments name; the exit code says whether each was found."""
    from integration.together.faults import FAULTS

    names = sys.argv[1:] or list(FAULTS)
    if (broken := found_by("")) is not None:
        print(f"without a fault {broken[0]} fails: {broken[1]}")
        return 1
    missed = []
    for name in names:
        began = time.monotonic()
        found = found_by(name)
        print(f"{name}: {FAULTS[name].about}")
        if found is None:
            missed.append(name)
            print("    NOT FOUND")
        else:
            print(f"    {found[0]}, {time.monotonic() - began:.0f} s\n    {found[1].splitlines()[0]}")
    print(f"{len(names) - len(missed)} of {len(names)} found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
