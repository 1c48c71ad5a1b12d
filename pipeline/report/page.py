"""The report as one HTML page: no script, nothing to load, one column that a phone shows as well as a screen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files

from kafka_sidecar.pipeline.report import charts, html
from kafka_sidecar.pipeline.report.html import Cell, Row
from kafka_sidecar.pipeline.report.sections import MAX_ROWS, MAX_TOPICS, Report

Rows = Mapping[str, list[Row]]
PERCENTILES = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99", "p999_ms": "p99.9", "max_ms": "max"}
HOPS = {
    "produce": "Produce: request to response",
    "deliver": "Deliver: event time to delivery",
    "share": "Share groups: event time to delivery",
    "read": "Consumers without a group: event time to delivery",
}


def render(report: Report, made_at: int) -> str:
    """The page. ``made_at`` is in ms UTC."""
    rows: Rows = {name: table.to_pylist() for name, table in report.sections.items()}
    parts = [_head(report, made_at)]
    if report.end == 0:
        parts.append(html.paragraph("There is no data: reconcile has no bucket in this period."))
    else:
        parts += [
            _summary(rows),
            _section("Completeness", _completeness(rows, report)),
            _section("Worst buckets", _worst(rows)),
            _section("Losses", _losses(rows)),
            _section("Holes", _holes(rows)),
            _section("Alerts", _alerts(rows)),
            _section("Latency", _latency(rows, report)),
            _section("Rejections", _rejections(rows)),
            _section("Lateness", _lateness(rows, report)),
        ]
    style = files("kafka_sidecar.pipeline.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Kafka audit report</title><style>{style}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _head(report: Report, made_at: int) -> str:
    period = f"{charts.clock(report.begin)} to {charts.clock(report.end)} UTC, " if report.end else ""
    return f"<h1>Kafka audit report</h1>{html.paragraph(f'{period}made {charts.clock(made_at)} UTC', 'note')}"


def _section(title: str, body: Iterable[str]) -> str:
    return f'<section id="{title.lower().replace(" ", "-")}"><h2>{title}</h2>{"".join(body)}</section>'


def _summary(rows: Rows) -> str:
    total = {hop: [row for row in rows["topics"] if row["hop"] == hop] for hop in HOPS}

    def summed(name: str, *hops: str) -> int:
        return sum(row[name] for hop in hops for row in total[hop])

    lost, unknown = summed("missing", "deliver"), summed("unknown", *HOPS)
    alerts = sum(not row["is_resolved"] for row in rows["alerts"])
    return html.figures(
        {
            "records acknowledged": (html.count(summed("seen", "produce")), ""),
            "records delivered, all groups": (html.count(summed("seen", "deliver", "share")), ""),
            "records lost": (html.count(lost), "bad" if lost else "good"),
            "records not read yet": (html.count(summed("pending", "deliver", "share")), ""),
            "buckets UNKNOWN": (html.count(unknown), "unknown" if unknown else "good"),
            "alerts": (html.count(alerts), "bad" if alerts else "good"),
        }
    )


def topic(row: Row) -> str:
    """The topic, with its cluster where that is known."""
    return f"{row['topic']} ({row['cluster']})" if row["cluster"] else str(row["topic"])


def hop(row: Row) -> str:
    if row["group"] is None:
        name = str(row.get("hop", "produce"))
        return "without a group" if name == "read" else name
    return f"group {row['group']}"


TOPIC = Cell(lambda row: escape(topic(row)))
TOPIC_AND_HOP = Cell(lambda row: f"{escape(topic(row))}<br>{escape(hop(row))}")


def _spans(rows: Iterable[Row], step: int) -> list[tuple[int, int]]:
    """Neighbouring steps with a bucket that is UNKNOWN as one span."""
    found: list[tuple[int, int]] = []
    for at in sorted({row["at"] for row in rows if row["unknown"]}):
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + step)
        else:
            found.append((at, at + step))
    return found


def _completeness(rows: Rows, report: Report) -> Iterable[str]:
    yield html.paragraph("Of the records that are due, those that arrived. Shaded: some of it is unknown.", "note")
    pictures: dict[str, list[Row]] = defaultdict(list)
    for row in rows["completeness"]:
        pictures[topic(row)].append(row)
    for title in dict.fromkeys(topic(row) for row in rows["topics"] if topic(row) in pictures):
        points = pictures[title]
        series: dict[str, charts.Line] = {}
        for name in sorted({hop(row) for row in points}):
            known = [row for row in points if hop(row) == name and row["completeness"] is not None]
            series[name] = [row["at"] for row in known], [100 * row["completeness"] for row in known]
        least = min((value for _, values in series.values() for value in values), default=100.0)
        margin = 0.05 * (100 - least) or 0.5
        scale = charts.Scale("complete (%)", least - margin, 100, margin, span=(report.begin, report.end))
        yield charts.lines(f"{title}: completeness", scale, series, _spans(points, report.step), report.step)
    yield html.table(rows["topics"], {
        "topic": TOPIC_AND_HOP, "missing": html.number("missing"), "complete": html.share("completeness"),
        "expected": html.number("expected"), "seen": html.number("seen"), "pending": html.number("pending"),
        "surplus": html.number("surplus"),
        "sent again": html.number("redelivered"), "hidden": html.number("hidden"), "aborted": html.number("aborted"),
        "buckets UNKNOWN": html.number("unknown"),
    })  # fmt: skip
    yield _limit(rows["topics"], f"the first {MAX_TOPICS} topics have a picture, ")


def _limit(rows: list[Row], note: str = "") -> str:
    is_cut = len(rows) == MAX_ROWS or note
    return html.paragraph(f"Worst first; {note}at most {MAX_ROWS} rows.", "note") if is_cut else ""


def _worst(rows: Rows) -> Iterable[str]:
    if not rows["worst"]:
        yield html.paragraph("No record is missing, none is surplus, nothing is unknown.", "good")
        return
    yield html.table(rows["worst"], {
        "topic": TOPIC_AND_HOP, "bucket (UTC)": html.time("bucket_start"),
        "missing": Cell(lambda row: html.link(_loss_of(row, rows), html.count(row["missing"])), is_number=True),
        "state": Cell(lambda row: html.link(_hole_of(row, rows), row["state"])),
        "expected": html.number("expected"), "seen": html.number("seen"), "pending": html.number("pending"),
        "surplus": html.number("surplus"), "complete": html.share("completeness"),
    }, "bucket")  # fmt: skip
    yield _limit(rows["worst"])


def _loss_of(row: Row, rows: Rows) -> str | None:
    """The anchor of the first range of offsets that is in this bucket."""
    for index, loss in enumerate(rows["losses"]):
        is_there = all(loss[name] == row[name] for name in ("cluster", "topic", "group"))
        if is_there and row["bucket_start"] in loss["buckets"] and loss["finding"] in ("lost", "unknown"):
            return f"loss-{index}"
    return None


def _hole_of(row: Row, rows: Rows) -> str | None:
    if row["state"] != "UNKNOWN":
        return None
    holes = enumerate(rows["holes"])

    def distance(one: tuple[int, Row]) -> tuple[bool, int]:
        is_other = bool(one[1]["topics"]) and row["topic"] not in one[1]["topics"]
        return is_other, abs(one[1]["from_ms"] - row["bucket_start"])

    nearest = min(holes, key=distance, default=None)
    return None if nearest is None else f"hole-{nearest[0]}"


def _losses(rows: Rows) -> Iterable[str]:
    yield html.paragraph(
        "Offsets in the worst buckets. lost: acknowledged, and passed by the group without being sent to it. "
        "unknown: the same, but a hole may explain it. unaudited: sent to it, and acknowledged by no sidecar. "
        "unreported: the same, but a hole may explain it. duplicate: stored twice, as the producer has sent it again; "
        "resent: the same, but perhaps stored once.",
        "note",
    )
    if not rows["losses"]:
        yield html.paragraph("There are none.", "good")
        return
    yield html.table(rows["losses"], {
        "finding": html.state("finding"), "topic": TOPIC_AND_HOP, "partition": html.number("partition"),
        "first offset": html.number("first_offset"),
        "last offset": html.number("last_offset"),
        "offsets": Cell(lambda row: html.count(row["last_offset"] - row["first_offset"] + 1), is_number=True),
        "first bucket (UTC)": Cell(lambda row: charts.clock(row["buckets"][0])),
        "buckets": Cell(lambda row: html.count(len(row["buckets"])), is_number=True),
    }, "loss")  # fmt: skip
    yield _limit(rows["losses"])


def _holes(rows: Rows) -> Iterable[str]:
    yield html.paragraph("What sidecars have counted and did not report. Buckets that they touch are UNKNOWN.", "note")
    if not rows["holes"]:
        yield html.paragraph("There are none: every sidecar has reported all of its intervals.", "good")
        return
    yield html.table(rows["holes"], {
        "sidecar": html.text("emitter_id"), "cause": html.text("cause"), "from (UTC)": html.time("from_ms"),
        "to (UTC)": html.time("to_ms"), "first interval": html.number("from_seq"),
        "last interval": html.number("to_seq"), "lost events": html.number("lost_events"),
        "topics": Cell(lambda row: escape(", ".join(row["topics"]))),
    }, "hole")  # fmt: skip


def _alerts(rows: Rows) -> Iterable[str]:
    if not rows["alerts"]:
        yield html.paragraph("There are none: no final bucket is below the target.", "good")
        return
    anchors = {_key(row): f"bucket-{index}" for index, row in enumerate(rows["worst"])}
    yield html.table(rows["alerts"], {
        "bucket (UTC)": Cell(lambda row: html.link(anchors.get(_key(row)), charts.clock(row["bucket_start"]))),
        "topic": TOPIC_AND_HOP, "missing then": html.number("raised_missing"),
        "complete then": html.share("raised_completeness"),
        "missing now": html.number("missing"), "complete now": html.share("completeness"), "state": html.state(),
        "resolved": Cell(lambda row: "yes" if row["is_resolved"] else "no"),
    })  # fmt: skip
    yield _limit(rows["alerts"])


def _key(row: Row) -> tuple[object, ...]:
    return tuple(row[name] for name in ("cluster", "topic", "hop", "group", "bucket_start"))


def _by_hop(rows: list[Row], name: str) -> dict[str, list[Row]]:
    """The rows of each hop in which a column is not null."""
    found = {hop: [row for row in rows if row["hop"] == hop and row[name] is not None] for hop in HOPS}
    return {hop: points for hop, points in found.items() if points}


def _latency(rows: Rows, report: Report) -> Iterable[str]:
    yield html.paragraph("Percentiles of merged log buckets: each is the upper bound of its bucket.", "note")
    measured = _by_hop(rows["latency"], "p50_ms")
    if not measured:
        yield html.paragraph("No latency was measured.")
        return
    scale = charts.Scale("latency (ms)", is_log=True, span=(report.begin, report.end))
    for name, points in measured.items():
        at = [row["at"] for row in points]
        series = {title: (at, [row[column] for row in points]) for column, title in PERCENTILES.items()}
        yield charts.lines(HOPS[name], scale, series, step=report.step)
    timed = [row for row in rows["topics"] if row["p50_ms"] is not None]
    yield html.table(
        timed, {"topic": TOPIC_AND_HOP} | {title: html.duration(column) for column, title in PERCENTILES.items()}
    )


def _rejections(rows: Rows) -> Iterable[str]:
    yield from _replayed(rows)
    found = rows["rejections"]
    if not found:
        yield html.paragraph("Every attempt was acknowledged.", "good")
        yield from _dead_letters(rows)
        return
    parts = {"rejected": "rejected by the sidecar", "failed": "error of the broker", "unanswered": "no response"}
    series = {title: [row[name] for row in found[:MAX_TOPICS]] for name, title in parts.items()}
    yield charts.bars("Records not acknowledged", "records", [topic(row) for row in found[:MAX_TOPICS]], series)
    cells = {"topic": TOPIC, "attempted": html.number("attempted")}
    yield html.table(found, cells | {title: html.number(name) for name, title in parts.items()})
    yield _limit(found)
    yield from _dead_letters(rows)


def _dead_letters(rows: Rows) -> Iterable[str]:
    """Where the rejected records are, if reconcile was given dead letter topics."""
    if "dead_letters" not in rows:
        return
    yield html.paragraph(
        "Topics with dead letters. sent = stored + rejected + other; lost: rejected, and in no dead letter topic.",
        "note",
    )
    names = (
        "sent", "stored", "rejected", "other", "dead_letters", "lost", "lost_at_most", "surplus", "doubled", "replayed",
    )  # fmt: skip
    cells = {name.replace("_", " "): html.number(name) for name in names}
    unknown = Cell(lambda row: "some hours are UNKNOWN" if row["is_unknown"] else "")
    yield html.table(rows["dead_letters"], {"topic": html.text("topic")} | cells | {"state": unknown})
    yield _limit(rows["dead_letters"])


def _replayed(rows: Rows) -> Iterable[str]:
    """What policies would have rejected, if there was a replay."""
    if "replay" not in rows:
        return
    yield html.paragraph("What a replay of policies over the history would have rejected:")
    yield html.table(rows["replay"], {
        "topic": html.text("topic"), "policy": html.text("policy"), "reason": html.text("reason"),
        "error code": html.number("error_code"), "records": html.number("records"), "batches": html.number("batches"),
    })  # fmt: skip
    yield html.paragraph("What happened:")


def _lateness(rows: Rows, report: Report) -> Iterable[str]:
    yield html.paragraph(
        "How long after the end of a bucket the last event about it was made: pipeline.reconcile.lateness must be "
        "longer than what is usual here.",
        "note",
    )
    measured = _by_hop(rows["lateness"], "lateness_ms")
    series = {
        name: ([row["at"] for row in points], [row["lateness_ms"] / 1000 for row in points])
        for name, points in measured.items()
    }
    yield charts.lines(
        "Lateness", charts.Scale("greatest lateness (s)", 0, span=(report.begin, report.end)), series, step=report.step
    )
    ahead = max((row["clock_ahead_ms"] or 0 for row in rows["lateness"]), default=0)
    yield html.paragraph(f"Event times were up to {html.milliseconds(ahead)} ahead of a sidecar's clock.")
