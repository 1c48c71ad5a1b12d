"""How letters, their overview and what a replay has done are printed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence

from kafka_sidecar.codec.records import Header
from kafka_sidecar.dead_letters.letter import Reasons
from kafka_sidecar.dead_letters.letters import Letter
from kafka_sidecar.dead_letters.overview import Overview
from kafka_sidecar.proxy.cli.dead_letters.options import time_text
from kafka_sidecar.proxy.cli.dead_letters.replay import Tally

INDENT = 18
TITLES = ("letters", "topic", "policy", "reason", "mode", "client", "first", "last", "example")


def overview_lines(overview: Overview) -> Iterator[str]:
    """A table of groups, and what is no letter."""
    rows = [
        (str(seen.letters), group.topic, group.policy, group.reason, group.mode, group.client_id, time_text(seen.first),
         time_text(seen.last), seen.example)
        for group, seen in overview.rows()
    ]  # fmt: skip
    yield from table([TITLES, *rows]) if rows else ["no dead letters"]
    for why, seen in sorted(overview.others.items()):
        yield f"{no_letters(seen.letters)} ({why}), such as {seen.example}"


def overview_json(overview: Overview) -> str:
    groups = [{**group._asdict(), **seen._asdict()} for group, seen in overview.rows()]
    others = [{"why": why, **seen._asdict()} for why, seen in sorted(overview.others.items())]
    return json.dumps({"letters": overview.letters, "groups": groups, "no_letters": others}, indent=2)


def no_letters(count: int) -> str:
    """Of records in a dead letter topic that the sidecar has not written."""
    are = "record is no dead letter" if count == 1 else "records are no dead letters"
    return f"{count} {are} of a sidecar"


def letter_lines(place: str, letter: Letter, with_values: bool) -> Iterator[str]:
    """A letter for a person. Without its values what the record has is measured, not shown."""
    yield place
    for name, value in _reasons(letter.reasons):
        yield f"  {name:{INDENT - 2}}{value}"
    yield f"  {'timestamp':{INDENT - 2}}{time_text(letter.timestamp)}"
    for name, data in (("key", letter.key), ("value", letter.value)):
        yield f"  {name:{INDENT - 2}}{_shown(data, with_values)}"
    for header in letter.headers:
        yield f"  {'header':{INDENT - 2}}{_name(header)}: {_shown(header.value, with_values)}"


def letter_json(place: str, letter: Letter, with_values: bool) -> dict[str, object]:
    """The same for a program."""
    found: dict[str, object] = {"letter": place, **dict(_reasons(letter.reasons)), "timestamp": letter.timestamp}
    for name, data in (("key", letter.key), ("value", letter.value)):
        found |= _json_of(name, data, with_values)
    found["headers"] = [
        {"name": _name(header), **_json_of("value", header.value, with_values)} for header in letter.headers
    ]
    return found


def tally_lines(tally: Tally, fine: str) -> Iterator[str]:
    """What a replay has done; ``fine`` is what it calls records that were not refused."""
    titles = ("records", "topic", "policy", "reason", "outcome", "message")
    rows = [(str(count), *row) for row, count in sorted(tally.rows.items(), key=lambda one: (-one[1], one[0]))]
    if rows:
        yield from table([titles, *rows])
    for why, count in sorted(tally.not_letters.items()):
        yield f"{no_letters(count)}: {why}"
    yield f"{tally.sent} {fine}, {tally.refused} rejected, {tally.passed_over} passed over"


def asked_lines(file: str, trouble: str | None) -> Iterator[str]:
    """What the answers of a dry run are worth."""
    yield f"asked were the policies of {file}; rules, limits and interceptors of a sidecar were not"
    if trouble is not None:
        yield f"policies that are set on topics are not known: {trouble}"


def tally_json(tally: Tally, is_dry: bool, fine: str) -> str:
    rows = [{"records": count, **row._asdict()} for row, count in sorted(tally.rows.items())]
    return json.dumps(
        {
            "dry_run": is_dry, "read": tally.read, fine.replace(" ", "_"): tally.sent,
            "rejected": tally.refused, "passed_over": tally.passed_over, "no_letters": tally.not_letters.total(),
            "bytes": tally.bytes, "rows": rows,
        },
        indent=2,
    )  # fmt: skip


def progress_line(tally: Tally, fine: str, seconds: float) -> str:
    """One line of numbers while a replay runs."""
    rate = tally.sent / max(seconds, 0.001)
    return (
        f"{tally.read} read, {tally.sent} {fine} ({tally.bytes / 1_000_000:.1f} MB, "
        f"{rate:.0f} records/s), {tally.refused} rejected"
    )


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines with columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _reasons(why: Reasons) -> Iterator[tuple[str, str | int]]:
    for name in Reasons.__dataclass_fields__:
        value = getattr(why, name)
        if value is not None:
            yield name, time_text(value) if name == "rejected_at" else value


def _shown(data: bytes | None, with_values: bool) -> str:
    if data is None:
        return "null"
    if not with_values:
        return f"{len(data)} bytes"
    text = _text(data)
    return json.dumps(text, ensure_ascii=False) if text is not None else f"base64 {base64.b64encode(data).decode()}"


def _json_of(name: str, data: bytes | None, with_values: bool) -> dict[str, object]:
    if not with_values:
        return {f"{name}_bytes": None if data is None else len(data)}
    text = None if data is None else _text(data)
    if data is not None and text is None:
        return {f"{name}_base64": base64.b64encode(data).decode()}
    return {name: text}


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _name(header: Header) -> str:
    return header.key.encode("utf-8", "backslashreplace").decode()
