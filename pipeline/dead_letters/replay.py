"""A replay with Spark: each task replays one partition of a dead letter topic, as the command does.

A task that Spark starts a second time ends what the first attempt has left open, and goes on after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.records.tables import load_table
from kafka_sidecar.policies.plans import ignore_failure
from kafka_sidecar.proxy.cli.dead_letters.asking import PolicyAsker
from kafka_sidecar.proxy.cli.dead_letters.cluster import connect
from kafka_sidecar.proxy.cli.dead_letters.mending import InterceptorMender
from kafka_sidecar.proxy.cli.dead_letters.replay import Order, PartitionReplay, Row, Tally, fine_outcome
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.security.client_settings import client_settings

NAME = "kafka_sidecar_dead_letter_replay"
NUMBERS = "(numbers)"  # the row of a task with its sums
SCHEMA = (
    "topic string, policy string, reason string, outcome string, message string, records long, read long, "
    "passed_over long, bytes long"
)


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What is the same for all tasks. It is sent to workers, so nothing in it is connected or opened."""

    servers: tuple[str, ...]  # of the sidecar
    properties: Mapping[str, str]  # of a client
    order: Order  # without a mender
    mend: Config | None = None  # whose interceptors mend records
    policies: Config | None = None  # whose policies are asked, of a dry run

    @property
    def fine(self) -> str:
        """What records are called that are not refused."""
        return fine_outcome(self.order.is_dry, self.policies is not None)

    def opened(self) -> Order:
        """The order as a task uses it."""
        order = self.order
        if self.mend is not None:
            order = replace(order, mender=InterceptorMender(self.mend))
        if self.policies is not None:
            order = replace(order, asker=PolicyAsker(self.policies, order.codec, ignore_failure))
        return order


async def replay_partition(job: ReplayJob, topic: str, partition: int) -> Tally:
    """Raises ClusterError."""
    tally = Tally()
    async with connect(client_settings(job.servers, job.properties)) as cluster:
        await PartitionReplay(cluster, job.opened(), topic, partition, tally).run()
    return tally


def tally_rows(tally: Tally) -> list[tuple[Any, ...]]:
    """A tally as rows of a table; the last one has the sums."""
    rows: list[tuple[Any, ...]] = [(*row, count, 0, 0, 0) for row, count in tally.rows.items()]
    rows += [("", "", "", NUMBERS, why, count, 0, 0, 0) for why, count in tally.not_letters.items()]
    return [*rows, ("", "", "", NUMBERS, "", 0, tally.read, tally.passed_over, tally.bytes)]


def tally_of(rows: Sequence[Any]) -> Tally:
    """The tally of all tasks."""
    tally = Tally()
    for topic, policy, reason, outcome, message, records, read, passed_over, size in rows:
        tally.read += read
        tally.passed_over += passed_over
        tally.bytes += size
        if outcome != NUMBERS:
            tally.rows[Row(topic, policy, reason, outcome, message)] += records
        elif message:
            tally.not_letters[message] += records
    return tally


def run(spark: SparkSession, job: ReplayJob, partitions: Sequence[tuple[str, int]]) -> Tally:
    """Replay these partitions of dead letter topics, as many at once as Spark has cores."""

    def read(partition: tuple[str, int]) -> list[list[tuple[Any, ...]]]:
        return [tally_rows(asyncio.run(replay_partition(job, *partition)))]

    return tally_of(load_table(spark, NAME, SCHEMA, partitions, read).collect())
