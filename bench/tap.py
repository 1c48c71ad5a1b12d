"""What an open tap costs the sidecar: its CPU at a fixed rate of records, without a tap and with one of each kind.

usage: tap.py [--rate N] [--seconds S] [--reps N] [--checked] [--consume]

How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from rig.steady import loaded, reading, share

TAPS = {
    "records": "kind=records",
    "records of another topic": "kind=records&topic=other",
    "requests": "kind=requests",
    "rejections": "kind=rejections",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=50_000, help="records a second; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one run; default: %(default)s")
    parser.add_argument("--reps", type=int, default=5, help="repetitions; default: %(default)s")
    parser.add_argument("--checked", action="store_true", help="with the policy json on the topic")
    parser.add_argument("--consume", action="store_true", help="a consumer reads them, too")
    options = parser.parse_args()
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in TAPS}
    with loaded(options.rate, options.checked, options.consume) as sidecar:
        pid = sidecar.program.popen.pid
        for _ in range(options.reps):
            for name, query in TAPS.items():
                without = share(pid, options.seconds)
                with reading([f"{sidecar.admin}/tap?{query}"]):
                    time.sleep(1)
                    runs[name].append((without, share(pid, options.seconds)))
    print(f"{options.rate:,} records/s; CPU of the sidecar without a tap, and with one:")
    for name, pairs in runs.items():
        without, opened = (statistics.median(one) for one in zip(*pairs, strict=True))
        ratios = [after / before for before, after in pairs]
        spread = f"from {min(ratios):.2f}x to {max(ratios):.2f}x"
        print(f"{name}: {without:.3f}, {opened:.3f}: {statistics.median(ratios):.2f}x ({spread})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
