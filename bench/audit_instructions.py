"""What auditing adds to a request and its response, in instructions: one session in one process, without sockets.

usage: audit_instructions.py [--only TEXT] [--requests N] [--profile FOLDER]

Needs valgrind; other programs on the machine do not matter.
How to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import pack_into

from audit_counts import workloads
from rig import frames
from rig.driver import Workload

from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.proxy.features.auditing.audit import tap
from kafka_sidecar.proxy.features.auditing.counting import Counting
from kafka_sidecar.proxy.nodes.rewrites import Rewrites, local_response
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.relay.memory_budget import MemoryBudget
from kafka_sidecar.proxy.relay.routes import Routes
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.telemetry.metrics import Metrics

READ_BYTES = 256 << 10  # what a socket is read by
MAX_FRAME_BYTES = 100 << 20
WARM_UP = 20  # requests
BUCKET_MS = 600_000
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)

# Bytes of the client and of the broker, as they are read from the sockets.
RoundTrip = tuple[list[bytes], list[bytes]]


@dataclass(frozen=True, slots=True)
class Row:
    """One workload, and whether its offsets ascend, as those of brokers, or are the same again and again."""

    load: Workload
    ascends: bool

    @property
    def title(self) -> str:
        return self.load.title + (", new offsets" if self.ascends else "")


def table_rows(only: str) -> list[Row]:
    rows = [Row(load, ascends) for ascends in (False, True) for load in workloads()]
    return [row for row in rows if only in row.title]


def reads(data: bytes) -> list[bytes]:
    return [data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES)]


def round_trips(row: Row, count: int) -> Iterator[RoundTrip]:
    """Requests in flight are read at once, and so are their responses."""
    load = row.load
    request = load.request()
    for number in range(count):
        asked, answered = b"", b""
        for one in range(number * load.depth, (number + 1) * load.depth):
            asked += request.one(one)
            answered += frames.response(response_body(load, one if row.ascends else 0)).one(one)
        yield reads(asked), reads(answered)


def response_body(load: Workload, number: int) -> bytes:
    """The response to a request after ``number`` others."""
    if load.fetch_records:
        return frames.fetch_response(0, moved(load.fetch_records, number * load.records))
    return frames.produce_response(len(load.batches), number * load.records // len(load.batches))


def moved(records: bytes, offset: int) -> bytes:
    """The batches, so many offsets later."""
    data, at = bytearray(records), 0
    while at < len(data):
        base = int.from_bytes(data[at : at + 8], "big")
        pack_into(">q", data, at, base + offset)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return bytes(data)


def open_session(is_audited: bool) -> tuple[Session, Counting]:
    metrics = Metrics()
    auditor = EventAuditor()
    counting = Counting(
        auditor, {frames.TOPIC_ID: "bench"}.get, lambda topic: True, lambda *_: None, bucket_ms=BUCKET_MS
    )
    counting.call_later = lambda delay_s, count: None  # as in a sidecar; what waits is counted by `relay_all`
    auditor.start()
    rewrites = Rewrites(lambda node, host, port: (host, port), lambda *_: None)
    routes = Routes(
        metrics,
        rewrites.response,
        local_response,
        tap=(lambda key, version: tap(counting, key, version)) if is_audited else lambda key, version: None,
    )
    memory = MemoryBudget(MAX_FRAME_BYTES, metrics.buffered)
    session = Session(routes, time.monotonic, MAX_FRAME_BYTES, LoopBudget(), memory)
    return session, counting


def relay(session: Session, trips: list[RoundTrip]) -> None:
    for asked, answered in trips:
        for chunk in asked:
            session.from_client(chunk)
        for chunk in answered:
            session.from_broker(chunk)


def relay_all(rows: list[Row], requests: int, mark: Callable[[], object]) -> None:
    """Relay each row without auditing and with it; ``mark`` is called before and after each."""
    for row in rows:
        for is_audited in (False, True):
            trips = list(round_trips(row, WARM_UP + requests // row.load.depth))
            session, counting = open_session(is_audited)
            relay(session, trips[:WARM_UP])
            mark()
            relay(session, trips[WARM_UP:])
            counting.flush_pending()
            mark()
            if session.closing or counting.stats.uncounted or session.responses != len(trips) * row.load.depth:
                sys.exit(f"{row.title}: {session.closing}, {counting.stats.uncounted} not counted")


def counted(rows: list[Row], options: argparse.Namespace, folder: Path) -> list[int]:
    """Instructions of each row without auditing and with it.

    callgrind starts another file whenever the function of ``mark`` is called: every second one is of a measurement.
    """
    out = folder / "callgrind.out"
    words = ["valgrind", "--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={out}", "-q"]
    words += [sys.executable, __file__, "--relay", "--only", options.only, "--requests", str(options.requests)]
    # The allocator is the sidecar's; hashes, and so the paths through dictionaries, are the same in each run.
    subprocess.run(words, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    totals = [
        TOTAL.search((folder / f"callgrind.out.{2 * number}").read_text()) for number in range(1, 2 * len(rows) + 1)
    ]
    return [int(total[1]) for total in totals if total is not None]


def show(rows: list[Row], instructions: list[int], requests: int) -> None:
    print("| instructions of a request and its response | relayed | auditing adds | ratio |")
    print("| --- | ---: | ---: | ---: |")
    for row, plain, audited in zip(rows, instructions[::2], instructions[1::2], strict=True):
        done = requests // row.load.depth * row.load.depth
        print(f"| {row.title} | {plain / done:,.0f} | {(audited - plain) / done:,.0f} | {audited / plain:.3f}x |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    parser.add_argument("--requests", type=int, default=100, help="of each workload; default: %(default)s")
    parser.add_argument("--profile", type=Path, metavar="FOLDER", help="keep callgrind's files there")
    parser.add_argument("--relay", action="store_true", help=argparse.SUPPRESS)  # what valgrind runs
    options = parser.parse_args()
    rows = table_rows(options.only)
    if options.relay:
        relay_all(rows, options.requests, os.getppid)
        return
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed")
    with tempfile.TemporaryDirectory(prefix="audit-instructions-") as folder:
        show(rows, counted(rows, options, options.profile or Path(folder)), options.requests)


if __name__ == "__main__":
    main()
