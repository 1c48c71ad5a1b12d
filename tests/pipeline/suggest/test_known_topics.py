"""What is proposed for topics of which the truth is known is that truth, row by row."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.in_process import config

from kafka_sidecar.pipeline.records.segments import find_segments
from kafka_sidecar.pipeline.replay.job import Job as ReplayJob
from kafka_sidecar.pipeline.replay.job import Outcome
from kafka_sidecar.pipeline.replay.source import replay_slice
from kafka_sidecar.pipeline.suggest.files import write_files
from kafka_sidecar.pipeline.suggest.formats import format_of
from kafka_sidecar.pipeline.suggest.job import Job, summarize
from kafka_sidecar.pipeline.suggest.proposal import Proposal, propose
from kafka_sidecar.pipeline.suggest.summary import Summary
from kafka_sidecar.proxy.config.loading import load
from pipeline.records.logs import write_log
from pipeline.suggest.topics import PARTITIONS, RECORDS, TOPICS, Known, exceptions

BY_TOPIC = pytest.mark.parametrize("known", TOPICS, ids=[one.name for one in TOPICS])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("segments")
    for known in TOPICS:
        for partition in range(PARTITIONS):
            write_log(place, known.name, partition, known.log(partition))
    return place


@cache
def found(spark: SparkSession, folder: Path, known: Known) -> tuple[Summary, Proposal]:
    summary = summarize(spark, Job(config("a:1")), find_segments(folder, [known.name]))
    return summary, propose(known.name, summary, known.options)


def truth(known: Known) -> dict[str, Any]:
    return {f"{known.name}-{name}": settings for name, settings in known.policies.items()}


@BY_TOPIC
def test_the_policies_are_the_truth(spark: SparkSession, folder: Path, known: Known) -> None:
    _, proposal = found(spark, folder, known)
    assert proposal.records == RECORDS
    assert {one.name: {"type": one.type, **one.settings} for one in proposal.policies} == truth(known)
    assert proposal.limits == ()


@BY_TOPIC
def test_the_schemas_are_the_truth(spark: SparkSession, folder: Path, known: Known) -> None:
    _, proposal = found(spark, folder, known)
    for part in ("key", "value"):
        assert proposal.schemas.get(part) == known.full_schema(part)


@BY_TOPIC
def test_the_formats_ids_and_headers_are_the_truth(spark: SparkSession, folder: Path, known: Known) -> None:
    summary, proposal = found(spark, folder, known)
    tolerance = known.options.tolerance
    formats = [format_of(part, tolerance).text for part in (summary.value, summary.key)]
    assert formats == [known.value, known.key]
    if known.ids:
        assert {name: tally.count for name, tally in (summary.value.ids or {}).items()} == known.ids
    assert tuple(one.text for one in proposal.findings if one.about == "header") == known.headers


@BY_TOPIC
def test_what_is_written_loads_and_rejects_the_exceptions_alone(
    spark: SparkSession, folder: Path, tmp_path: Path, known: Known
) -> None:
    _, proposal = found(spark, folder, known)
    settings = load(write_files(proposal, ["a:1"], tmp_path), {}, {})
    (topic,) = settings.topics
    assert (topic.name, topic.mode) == (known.name, "shadow")
    rows = [row for part in find_segments(folder, [known.name]) for row in replay_slice(ReplayJob(settings), part)]
    rejected = sorted((row.partition, row.offset) for row in rows if row.outcome == Outcome.REJECTED.value)
    expected = sorted((number % PARTITIONS, number // PARTITIONS) for number in exceptions(known))
    assert rejected == expected
    assert len(rejected) == known.rejected
    assert sum(row.records for row in rows if row.outcome == Outcome.VALIDATED.value) == RECORDS


def test_what_is_otherwise_is_named_by_partition_and_offset(spark: SparkSession, folder: Path) -> None:
    (known,) = (one for one in TOPICS if one.name == "mixed")
    _, proposal = found(spark, folder, known)
    (value, *_) = proposal.findings
    assert value.text == "JSON (3,999 of 4,000, 0 null)"
    assert {name: (tally.count, [str(one) for one in tally.first]) for name, tally in value.exceptions.items()} == {
        "text": (1, ["0:50"])
    }
