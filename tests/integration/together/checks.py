"""The comparison of what clients got with what the model says: the first difference of each client, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness import json_lines
from integration.together.connection import Reading
from integration.together.model import Look, Model, stored
from integration.together.records import Read, Seen, Sent


def outcomes(model: Model, name: str, sent: Sequence[Sent]) -> Iterator[str]:
    """What a producer got for each record."""
    for number, one in enumerate(sent):
        expected, reported = model.errors(one), [outcome.error for outcome in one.outcomes]
        if reported != expected:
            yield f"{name}: batch {number} ({_ids(one)}): expected {_errors(expected)}, got {_errors(reported)}"
            return


def _ids(sent: Sent) -> str:
    return " ".join(f"{record.id}{record.does and ':' + record.does}" for record in sent.batch.records)


def _errors(errors: Iterable[str]) -> str:
    return ",".join(error or "ok" for error in errors)


def offsets(model: Model, sent: Sequence[Sent]) -> Iterator[str]:
    """That producers got the offsets at which records are: without slices and segments there are no gaps."""
    if model.leaves_gaps:
        return
    # Also where its batch was rejected: the partition was added to the transaction before.
    markers = {(one.batch.partition, one.transaction) for one in sent if one.transaction}
    for partition in sorted({one.batch.partition for one in sent}):
        found = sorted(offset for at, offset, _, _ in stored(sent) if at == partition)
        extra = sum(at == partition for at, _ in markers)
        if len(set(found)) != len(found) or found[0] < 0 or found[-1] + 1 != len(found) + extra:
            yield f"producers: partition {partition}: {len(found)} offsets up to {found[-1]}, {extra} markers"


def records(name: str, expected: Sequence[Seen], got: Sequence[Seen]) -> Iterator[str]:
    """What a reader got, partition by partition in its order."""
    for partition in sorted({one.partition for one in [*expected, *got]}):
        pairs = zip_longest(_of(expected, partition), _of(got, partition))
        for number, (wanted, found) in enumerate(pairs):
            if wanted != found:
                yield f"{name}: partition {partition}, record {number}: {difference(wanted, found)}"
                return


def _of(seen: Sequence[Seen], partition: int) -> list[Seen]:
    return [one for one in seen if one.partition == partition]


def difference(wanted: Seen | None, found: Seen | None) -> str:
    """The fields that are not the same.

    >>> difference(Seen(0, 1, "61", "62", ()), Seen(0, 1, "61", "63", ()))
    'offset 1: expected value 62, got 63'
    """
    if wanted is None or found is None or wanted.offset != found.offset:
        return f"expected {_brief(wanted)}, got {_brief(found)}"
    fields = [name for name in ("key", "value", "headers") if getattr(wanted, name) != getattr(found, name)]
    reported = [f"expected {name} {getattr(wanted, name)}, got {getattr(found, name)}" for name in fields]
    return f"offset {wanted.offset}: {'; '.join(reported)}"


def _brief(one: Seen | None) -> str:
    if one is None:
        return "no record"
    names = ",".join(name for name, _ in one.headers)
    return f"offset {one.offset} ({bytes.fromhex(one.value).decode() if _is_text(one.value) else one.value}; {names})"


def _is_text(value: str) -> bool:
    return value.startswith("7b")  # of JSON, short


def read(model: Model, how: Reading, sent: Sequence[Sent], got: Read, denied: bool) -> Iterator[str]:
    """All that a consumer's read is checked for."""
    yield from records(how.name, model.delivered(sent, how.isolation), got.seen)
    ends = model.ends(sent)
    if got.positions != ends:
        yield f"{how.name}: its position is {got.positions}, not {ends}"
    if how.is_group and got.committed != ends:
        yield f"{how.name}: it has committed {got.committed}, not {ends}"
    reported = {"TOPIC_AUTHORIZATION_FAILED"} if denied and how.library == "librdkafka" and not how.is_group else set()
    if got.denied != reported:
        yield f"{how.name}: of the denied topic it got {got.denied}"


def looked_at(events: Path, topic: str, expected: Counter[Look]) -> Iterator[str]:
    """What the interceptor that only looks was shown: (hook, client id, header id, size of the value)."""
    lines = _events(events)
    clients = {client for _, client, _, _ in expected}
    found: Counter[Look] = Counter(
        (one["hook"], one["client"], one["id"], one["size"])
        for one in lines
        if one["hook"] != "on_commit" and one["client"] in clients
    )
    for what, count in sorted(((expected - found) | (found - expected)).items(), key=str):
        hook, client, name, size = what
        yield (
            f"looks: {hook} of {client.removeprefix(topic)} for id {name} with {size} bytes: "
            f"{found[what]} calls, not {expected[what]} (differs by {count})"
        )
        return


def commits(events: Path, groups: Mapping[str, Read]) -> Iterator[str]:
    """What the interceptor that only looks was shown of the commits of groups: half-way, and at the end."""
    expected = Counter(
        (group, partition, offset)
        for group, read in groups.items()
        for offsets in (read.half, read.positions)
        for partition, offset in offsets.items()
    )
    shown = [one for one in _events(events) if one["hook"] == "on_commit" and one["group"] in groups]
    found = Counter((one["group"], one["partition"], one["offset"]) for one in shown)
    if found != expected:
        yield f"looks: on_commit: expected {sorted(expected - found)}, got {sorted(found - expected)}"


def _events(file: Path) -> list[dict[str, Any]]:
    return json_lines.read(file) if file.exists() else []
