"""Runs of the rig: its client and stub broker around sidecars with a feature each, on a core of their own."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from rig import frames
from rig.connection import Loop
from rig.driver import BenchError, Driver, Result
from rig.peers import Peer, free_ports, kafka_sidecar_with, sidecar_program
from rig.secured import Secured, contexts, write_certificate
from rig.target import Target

from kafka_sidecar.codec.records import NewRecord, build_batch
from pricing import model
from pricing.loads import Case, config, write_files

WARM_UP_S: Final = 0.1
HANDSHAKES: Final = 50
LEAST_REQUESTS, LONGEST_S = 300, 2.0
Features = frozenset[str]


def spread(figures: Sequence[float]) -> float:
    """From the smallest to the largest, as a share of the median."""
    return (max(figures) - min(figures)) / median(figures)


@dataclass(slots=True)
class Runs:
    """What was measured: CPU of a request by case, of a new connection by TLS, and the CPU that others took."""

    results: dict[str, list[Result]] = field(default_factory=dict)
    connection_us: dict[str, list[float]] = field(default_factory=dict)

    def observation(self, case: Case) -> model.Observation:
        figures = self.cpu_us(case)
        return model.Observation(case.title, (case.traffic(),), median(figures), spread(figures))

    def cpu_us(self, case: Case) -> list[float]:
        return [one.cpu_us_per_request for one in self.results[case.title]]

    def others(self) -> float:
        """Of a core, taken by other programs."""
        results = [one for each in self.results.values() for one in each]
        return sum(one.others_s for one in results) / sum(one.wall_s for one in results)


def target(features: Features, loop: Loop, folder: Path, certificate: Path, extra: str = "") -> Target:
    """A sidecar with these features that is not started, and the driver that speaks TLS where they want it."""
    driver, (of_client, of_broker) = Driver(loop), contexts(certificate)
    if model.TLS_CLIENTS in features:
        driver.secure = lambda sock: Secured(sock, of_client, is_broker=False)
    if model.TLS_BROKERS in features:
        driver.broker.secure = lambda sock: Secured(sock, of_broker, is_broker=True)
    settings = extra + config(features, folder, certificate)
    peer = Peer("kafka-sidecar", kafka_sidecar_with(settings), sidecar_program(), reads_kafka=True)
    name = " + ".join(sorted(features)) or "relay"
    return Target(name, driver, free_ports(), peer, folder)


def measure(cases: Sequence[Case], folder: Path, core: int | None, reps: int, seconds: float) -> Runs:
    """Every case ``reps`` times, in a new order each time."""
    certificate, loop, runs, chance = write_certificate(folder), Loop(), Runs(), random.Random(1)
    write_files(folder)
    targets = {features: target(features, loop, folder, certificate) for features in {case.features for case in cases}}
    try:
        for one in targets.values():
            one.start(core)
            one.check_addresses()
        for features, one in targets.items():
            check_rejections(features, one)
        for rep in range(reps):
            for case in chance.sample(cases, len(cases)):
                runs.results.setdefault(case.title, []).append(run(targets[case.features], case, seconds))
            connect(targets, runs)
            print(f"repetition {rep + 1} of {reps} done", file=sys.stderr)
    except BenchError as error:
        sys.exit(str(error))
    finally:
        for one in targets.values():
            one.stop()
    return runs


def run(one: Target, case: Case, seconds: float) -> Result:
    """One run, again and longer if the sidecar got so little of its core that a few requests are all."""
    result = one.run(case.workload(), WARM_UP_S, seconds)
    while result.requests < LEAST_REQUESTS and seconds < LONGEST_S:
        seconds *= 2
        result = one.run(case.workload(), WARM_UP_S, seconds)
    return result


def check_rejections(features: Features, one: Target) -> None:
    """A value that is of no schema is rejected by the sidecars that check values, by no other. Raises BenchError."""
    checking = bool(features & {model.JSON, model.JSON_SCHEMA, model.AVRO})
    with one.driver.dial(one.driver.learn_node(one.address)) as sock:
        answer = one.driver.ask(sock, frames.produce_batches([build_batch([NewRecord(b"}")])]))
    if (frames.produce_error(answer) != 0) is not checking:
        raise BenchError(f"{one.name} answered a value of no schema with {frames.produce_error(answer)}")


def connect(targets: Mapping[Features, Target], runs: Runs) -> None:
    """CPU of new connections with one request each, their handshakes included."""
    for features, one in targets.items():
        if features <= {model.TLS_CLIENTS, model.TLS_BROKERS}:
            assert one.process is not None
            before_ns = one.process.cpu_ns()
            for _ in range(HANDSHAKES):
                with one.driver.dial(one.address) as sock:
                    one.driver.ask(sock, frames.api_versions_request())
            cpu_us = (one.process.cpu_ns() - before_ns) / HANDSHAKES / 1e3
            runs.connection_us.setdefault(one.name, []).append(cpu_us)
