"""Which rows holes touch, compared with each row beside each hole."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import Row, SparkSession

from kafka_sidecar.pipeline.reconcile.intervals import DISCARDED, MISSING
from kafka_sidecar.pipeline.reconcile.sql import column
from kafka_sidecar.pipeline.reconcile.touches import touches_of, with_touched

SKEW, BUCKET_MS = 3, 10
TOPICS = ("a", "b", "c")
COLUMNS = "number long, topic string, bucket_start long, bucket_ms long, settles long, balanced boolean"


def hole(dice: random.Random) -> Row:
    begin = dice.randrange(400)
    topics = dice.sample(TOPICS[:2], dice.choice((0, 1, 1, 2)))  # of c nothing was ever reported
    return Row(cause=dice.choice((MISSING, DISCARDED)), from_ms=begin, to_ms=begin + dice.randint(1, 15), topics=topics)


def rows(dice: random.Random) -> list[Row]:
    made = []
    for number in range(60):
        begin = dice.randrange(0, 400, BUCKET_MS)
        settles = begin + BUCKET_MS + dice.choice((0, 0, 25))
        made.append(Row(number, dice.choice(TOPICS), begin, BUCKET_MS, settles, dice.random() < 0.5))
    return made


def is_touched(row: Row, hole: Row) -> bool:
    _, topic, begin, length, settles, balanced = row
    if balanced and hole.topics and topic not in hole.topics:
        return False
    if hole.cause == DISCARDED:
        return bool(hole.from_ms < begin + length and hole.to_ms > begin)
    return bool(hole.from_ms < settles + SKEW and hole.to_ms > begin - SKEW)


@pytest.mark.parametrize(("seed", "count"), [(1, 0), (2, 1), (3, 4), (4, 17), (5, 17)])
def test_a_row_is_touched_by_the_holes_of_its_topic_and_unbalanced_ones_by_all(
    spark: SparkSession, seed: int, count: int
) -> None:
    dice = random.Random(seed)
    holes, made = [hole(dice) for _ in range(count)], rows(dice)
    frame = with_touched(
        spark.createDataFrame(made, COLUMNS), touches_of(holes), column("settles"), column("balanced"), SKEW
    )
    found = {row.number: row.is_touched for row in frame.collect()}
    assert found == {row[0]: any(is_touched(row, one) for one in holes) for row in made}
    assert count < 4 or set(found.values()) == {True, False}
