"""Which rows a hole may have changed: holes that touch each other are one span, and a row's are found by bisection.

Holes are few beside rows, but each row compared with each of them would take most of the time of a large batch.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row, functions

from kafka_sidecar.pipeline.reconcile.intervals import DISCARDED
from kafka_sidecar.pipeline.reconcile.sql import column, is_small

Span = tuple[int, int]  # ms: from, to
SPANS = "array<struct<begin: long, end: long>>"
NAMED = f"array<struct<topic: string, counted: {SPANS}, event: {SPANS}>>"


@dataclass(frozen=True, slots=True)
class Spans:
    """Ascending and disjoint: of the time of counting, and of the event time where only that is known."""

    counted: tuple[Span, ...] = ()
    event: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Touches:
    """The spans of holes by whom they concern."""

    all: Spans
    unnamed: Spans  # of sidecars that have reported no topic
    named: Mapping[str, Spans]  # by topic: with the unnamed ones


def touches_of(holes: Iterable[Row]) -> Touches:
    """Of rows as `HOLES`."""
    every: list[Row] = []
    unnamed: list[Row] = []
    named: defaultdict[str, list[Row]] = defaultdict(list)
    for hole in holes:
        every.append(hole)
        for found in [named[topic] for topic in hole.topics] or [unnamed]:
            found.append(hole)
    by_topic = {topic: _spans([*found, *unnamed]) for topic, found in named.items()}
    return Touches(_spans(every), _spans(unnamed), by_topic)


def _spans(holes: Iterable[Row]) -> Spans:
    spans: dict[bool, list[Span]] = {False: [], True: []}
    for hole in holes:
        spans[hole.cause == DISCARDED].append((hole.from_ms, hole.to_ms))
    return Spans(tuple(joined(spans[False])), tuple(joined(spans[True])))


def joined(spans: Iterable[Span]) -> list[Span]:
    """Spans that overlap or meet as one.

    >>> joined([(5, 7), (1, 3), (3, 4), (2, 3)])
    [(1, 4), (5, 7)]
    """
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def with_touched(rows: DataFrame, touches: Touches, settles: Column, balanced: Column, clock_skew: int) -> DataFrame:
    """The rows with a column ``is_touched``: whether a hole may belong to their bucket, whose last event is made at
    ``settles``.

    A sidecar may have had its first contact with a topic in its hole, and reported nothing of that topic at any time.
    So whatever is not ``balanced`` is touched by the holes of all sidecars.
    """
    if touches.all == Spans():
        return rows.withColumn("is_touched", functions.lit(False))
    named = _table(rows, touches.named)
    begin, end = column("bucket_start"), column("bucket_start") + column("bucket_ms")

    def found(kind: str, after: Column, before: Column) -> Column:
        mine = functions.coalesce(column(kind), _literal(getattr(touches.unnamed, kind)))
        spans = functions.when(balanced, mine).otherwise(_literal(getattr(touches.all, kind)))
        most = max(len(getattr(one, kind)) for one in (touches.all, *touches.named.values()))
        return _is_inside(spans, most, after, before)

    touched = found("counted", begin - clock_skew, settles + clock_skew) | found("event", begin, end)
    named = named if is_small(rows.sparkSession) else functions.broadcast(named)
    joined_rows = rows.join(named, column("topic") == column("named_topic"), "left")
    return joined_rows.select(*rows.columns, touched.alias("is_touched"))


def is_in_spans(spans: Iterable[Span], at: Column) -> Column:
    """Whether a time is inside one of ascending, disjoint spans."""
    kept = list(spans)
    return _is_inside(_literal(kept), len(kept), at, at + 1) if kept else functions.lit(False)


def _table(rows: DataFrame, named: Mapping[str, Spans]) -> DataFrame:
    """The spans by topic: ``named_topic``, ``counted``, ``event``."""
    values = [
        {"topic": topic, "counted": _values(one.counted), "event": _values(one.event)}
        for topic, one in sorted(named.items())
    ]
    whole = rows.sparkSession.range(1).select(functions.inline(functions.from_json(_text(values), NAMED)))
    return whole.withColumnRenamed("topic", "named_topic")


def _literal(spans: Iterable[Span]) -> Column:
    """Spark computes it once, when it plans."""
    return functions.from_json(_text(_values(spans)), SPANS)


def _values(spans: Iterable[Span]) -> list[dict[str, int]]:
    return [{"begin": begin, "end": end} for begin, end in spans]


def _text(values: object) -> Column:
    return functions.lit(json.dumps(values))


def _is_inside(spans: Column, most: int, after: Column, before: Column) -> Column:
    """Whether one of at most so many spans begins before ``before`` and ends after ``after``: if any, the last of those
    that begin before."""
    steps = functions.array(*(functions.lit(1 << bit) for bit in reversed(range(most.bit_length()))))

    def search(count: Column, step: Column) -> Column:
        return functions.when(functions.get(spans, count + step - 1)["begin"] < before, count + step).otherwise(count)

    begun = functions.aggregate(steps, functions.lit(0), search) if most else functions.lit(0)
    return functions.coalesce(functions.get(spans, begun - 1)["end"] > after, functions.lit(False))
