"""The cost of TLS: from clients, to brokers and on both sides, compared with haproxy doing the same.

usage: tls.py [--only TEXT] [--reps N] [--seconds S] [--markdown FILE]

How it measures and how to read it: bench/README.md
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from rig import frames
from rig.connection import Loop
from rig.driver import Driver, Workload
from rig.peers import Peer, Setting, found, free_ports, kafka_sidecar_with, sidecar_program
from rig.secured import Secured, contexts, write_certificate
from rig.target import Target

SIDES: Final = {"from clients": (True, False), "to brokers": (False, True), "both": (True, True)}
WORKLOADS = (
    Workload("Produce 1 KB, 8 connections, 1 in flight", 8, 1, produce_bytes=1 << 10, target=1.3),
    Workload("Produce 64 KB, 8 connections, 2 in flight", 8, 2, produce_bytes=64 << 10, target=1.0),
    Workload("Fetch 64 KB, 8 connections, 1 in flight", 8, 1, fetch_bytes=64 << 10, target=1.0),
)
CONNECTION = "A connection, its handshakes and one request"
CONNECTIONS = 100
HAPROXY = """global
    nbthread 1
    nosplice
    maxconn 1000
    ssl-server-verify none
defaults
    mode tcp
    timeout connect 5s
    timeout client 10m
    timeout server 10m
listen kafka
    bind {listen}{bind}
    server broker {broker}{server}
"""


def haproxy(certificate: Path, clients: bool, brokers: bool) -> Callable[[Setting], list[str]]:
    def command(setting: Setting) -> list[str]:
        config = setting.folder / f"haproxy-{setting.listen.port}.cfg"
        bind = f" ssl crt {certificate}" if clients else ""
        server = f" ssl verify required ca-file {certificate} sni str(localhost)" if brokers else ""
        config.write_text(HAPROXY.format(listen=setting.listen, broker=setting.broker, bind=bind, server=server))
        return [found("haproxy") or "haproxy", "-db", "-f", str(config)]

    return command


def settings(certificate: Path, clients: bool, brokers: bool) -> str:
    """Of kafka-sidecar."""
    lines = [f"clients: {{tls: {{certificate: {certificate}}}}}"] if clients else []
    lines += [f"brokers: {{security_protocol: SSL, tls: {{ca: {certificate}}}}}"] if brokers else []
    return "\n".join(lines)


def targets(loop: Loop, folder: Path) -> dict[tuple[str, str], Target]:
    """By side and peer."""
    certificate = write_certificate(folder)
    of_client, of_broker = contexts(certificate)
    made = {}
    for side, (clients, brokers) in SIDES.items():
        peers = (
            Peer("haproxy", haproxy(certificate, clients, brokers), "haproxy", is_yardstick=True),
            Peer("kafka-sidecar", kafka_sidecar_with(settings(certificate, clients, brokers)), sidecar_program(),
                 reads_kafka=True),
        )  # fmt: skip
        for peer in peers:
            driver = Driver(loop)
            if clients:
                driver.secure = lambda sock: Secured(sock, of_client, is_broker=False)
            if brokers:
                driver.broker.secure = lambda sock: Secured(sock, of_broker, is_broker=True)
            made[side, peer.name] = Target(f"{peer.name} {side}", driver, free_ports(), peer, folder)
    return made


def measure(options: argparse.Namespace, folder: Path, core: int | None) -> list[str]:
    made, chance = targets(Loop(), folder), random.Random(1)
    cpu_us: dict[tuple[str, str, str], list[float]] = {}
    workloads = [load for load in WORKLOADS if options.only in load.title]
    try:
        for target in made.values():
            target.start(core)
            target.check_addresses()
        for rep in range(options.reps):
            for load in workloads:
                for key, target in chance.sample(sorted(made.items(), key=lambda one: one[0]), len(made)):
                    result = target.run(load, 0.2, options.seconds)
                    cpu_us.setdefault((load.title, *key), []).append(result.cpu_us_per_request)
            for key, target in chance.sample(sorted(made.items(), key=lambda one: one[0]), len(made)):
                cpu_us.setdefault((CONNECTION, *key), []).append(cpu_us_per_connection(target))
            print(f"repetition {rep + 1} of {options.reps} done", file=sys.stderr)
    finally:
        for target in made.values():
            target.stop()
    rows = [row(load.title, side, cpu_us, load.target) for load in workloads for side in SIDES]
    return rows + [row(CONNECTION, side, cpu_us) for side in SIDES]


def cpu_us_per_connection(target: Target) -> float:
    """Of the proxy: connections with full handshakes and one request each, one after the other."""
    assert target.process is not None
    before_ns = target.process.cpu_ns()
    for _ in range(CONNECTIONS):
        with target.driver.dial(target.address) as sock:
            target.driver.ask(sock, frames.api_versions_request())
    return (target.process.cpu_ns() - before_ns) / CONNECTIONS / 1e3


def row(title: str, side: str, cpu_us: dict[tuple[str, str, str], list[float]], target: float | None = None) -> str:
    ours, theirs = (cpu_us[title, side, name] for name in ("kafka-sidecar", "haproxy"))
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    verdict = "" if target is None else f"<= {target}x {'met' if ratio <= target else 'MISSED'}"
    cells = (f"{median(each):.3g}" for each in (theirs, ours))
    return f"| {title} | {side} | {' | '.join(cells)} | {ratio:.2f}x | {verdict} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT", help="only workloads with this in their name")
    parser.add_argument("--reps", type=int, default=9, help="repetitions; default: %(default)s")
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one run; default: %(default)s")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= 2:
        os.sched_setaffinity(0, {cores[1]})
    with tempfile.TemporaryDirectory(prefix="tls-bench-") as folder:
        rows = measure(options, Path(folder), cores[0] if len(cores) >= 2 else None)
    heading = "| workload | TLS | haproxy, CPU us | kafka-sidecar | ratio | target |"
    text = "\n".join([heading, "|---|---|---:|---:|---:|---|", *rows, ""])
    print(text)
    if options.markdown:
        options.markdown.write_text(text)


if __name__ == "__main__":
    main()
