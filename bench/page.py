"""What open pages cost the sidecar: its CPU at a fixed rate of records, without a reader of /live and with ten.

usage: page.py [--rate N] [--readers N] [--seconds S] [--reps N] [--checked]

How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

from rig.steady import loaded, reading, share

# As the views ask: Now, Topics, Rejections, Connections, and the others.
PARTS = ("?with=traffic", "?with=topics,traffic", "?with=rejections", "?with=connections", "")
LEASE_S = 3.5  # until nothing is counted for the readers before


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=50_000, help="records a second; default: %(default)s")
    parser.add_argument("--readers", type=int, default=10, help="open pages; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one run; default: %(default)s")
    parser.add_argument("--reps", type=int, default=7, help="repetitions; default: %(default)s")
    parser.add_argument("--checked", action="store_true", help="with the policy json on the topic")
    options = parser.parse_args()
    runs: dict[str, list[float]] = {"none": [], "open": []}
    with loaded(options.rate, options.checked) as sidecar:
        pages = [f"{sidecar.admin}/live{PARTS[number % len(PARTS)]}" for number in range(options.readers)]
        pid = sidecar.program.popen.pid
        for _ in range(options.reps):
            runs["none"].append(share(pid, options.seconds))
            with reading(pages):
                time.sleep(1)
                runs["open"].append(share(pid, options.seconds))
            time.sleep(LEASE_S)
        print(f"{options.rate:,} records/s, {options.readers} open pages, memory at the end {memory(pid) >> 20} MB")
    none, opened = (statistics.median(one) for one in runs.values())
    ratios = [after / before for before, after in zip(runs["none"], runs["open"], strict=True)]
    spread = f"from {min(ratios):.2f}x to {max(ratios):.2f}x"
    print(f"CPU without a page {none:.3f}, with them {opened:.3f}: {statistics.median(ratios):.2f}x ({spread})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
