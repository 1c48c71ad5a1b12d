"""Are the faults found? `make mutations`: tests that must fail with each of them, and pass without."""

from __future__ import annotations

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from mutants.audit import MUTANTS as OF_AUDIT
from mutants.copies import Copy, Mutant
from mutants.large_message_stages import MUTANTS as OF_STAGES
from mutants.large_messages import MUTANTS as OF_LIBRARY
from mutants.pipeline import MUTANTS as OF_PIPELINE
from mutants.who_may import MUTANTS as OF_WHO_MAY

COPIES = 2  # at once
MUTANTS = OF_LIBRARY + OF_STAGES + OF_WHO_MAY + OF_AUDIT + OF_PIPELINE


def main() -> int:
    """All of them, or those of the sources that the arguments name; the exit code says whether each was found."""
    mutants = [one for one in MUTANTS if not sys.argv[1:] or any(name in one.path for name in sys.argv[1:])]
    began, survived = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        copies = SimpleQueue[Copy]()
        for number in range(COPIES):
            copies.put(Copy(Path(folder) / str(number)))

        def missed(mutant: Mutant | None) -> list[str]:
            copy = copies.get()
            try:
                return copy.missed(mutant) if mutant is not None else copy.failed(tests)
            finally:
                copies.put(copy)

        tests = sorted({test for one in mutants for test in one.tests})
        if failed := missed(None):
            print("without a fault these fail:", *failed, sep="\n    ")
            return 1
        with ThreadPoolExecutor(COPIES) as threads:
            for mutant, passed in zip(mutants, threads.map(missed, mutants), strict=True):
                if passed:
                    survived += 1
                    print(f"NOT FOUND in {mutant.path}: {mutant.about}", *passed, sep="\n    ")
    found = len(mutants) - survived
    print(f"{found} of {len(mutants)} faults found, {time.monotonic() - began:.0f} s")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
