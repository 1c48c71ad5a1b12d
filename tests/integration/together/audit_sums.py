"""The events of a run's audit topic, summed by client, and the sums that there must be."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from integration.front import logged
from integration.scenarios.target import headers_of
from integration.together.connection import Reading
from integration.together.features import Place
from integration.together.model import INVALID, OTHERS_INVALID, Isolation, Model, Segments, stored
from integration.together.records import Read, Sent
from integration.together.scenario import PARTITIONS

FIELDS = ("count", "reject_count", "hidden_count", "aborted_count", "redelivered_count", "large_count", "segment_count")
# A consumer that goes on for another is sent again what that one had not given to its application.
ONLY_COUNT = ("count",)
Key = tuple[str, str, str]  # tier, type, client: the end of its id
Sums = dict[str, int]


def differences(
    model: Model, direct: str, place: Place, sent: Sequence[Sent], reads: Mapping[str, Read],
    readings: Sequence[Reading], share: str,
) -> Iterator[str]:  # fmt: skip
    """Of each sum that is not what it must be, one line."""
    found = _found(direct, place)
    expected = _expected(model, sent, reads, readings, share, _segments(direct, place.topic))
    groups = {how.name for how in readings if how.is_group}
    for key in sorted({*found, *expected}):
        names = ONLY_COUNT if key[2] in groups else FIELDS
        wanted = {name: expected.get(key, {}).get(name, 0) for name in names}
        got = {name: found.get(key, {}).get(name, 0) for name in names}
        if wanted != got:
            differing = [f"{name} {got[name]}, not {wanted[name]}" for name in names if got[name] != wanted[name]]
            yield f"audit: {' '.join(key)}: {', '.join(differing)}"


def _found(direct: str, place: Place) -> dict[Key, Sums]:
    events = {}
    for message in logged(direct, place.audit):
        event: dict[str, Any] = json.loads(message.value() or b"")
        events[event["audit_id"]] = event  # one that was sent twice counts once
    sums: dict[Key, Counter[str]] = defaultdict(Counter)
    for event in events.values():
        if event["kind"] == "counts" and event["topic"] == place.topic:
            client = str(event["client_id"]).removeprefix(f"{place.topic}-")
            sums[event["tier"], event["type"], client].update({name: event[name] for name in FIELDS})
    return {key: dict(counts) for key, counts in sums.items()}


def _expected(
    model: Model, sent: Sequence[Sent], reads: Mapping[str, Read], readings: Sequence[Reading], share: str,
    segments: Segments,
) -> dict[Key, Sums]:  # fmt: skip
    found: dict[Key, Sums] = {}
    for one in sent:
        _add_produced(model, one, found, segments)
    for how in readings:
        if how.name in reads:
            found["fetch_delivered", "SUCCESS", how.name] = _delivered(model, sent, how.isolation, segments)
        if how.is_group and how.name in reads:
            read = reads[how.name]
            advanced = sum(read.positions.values()) - sum(read.half.values())
            found["commit", "SUCCESS", how.name] = {"count": advanced}
    if share in reads:
        shared = _delivered(model, sent, "read_uncommitted", segments)
        found["share_delivered", "SUCCESS", share] = shared
        found["commit", "SUCCESS", share] = {"count": shared["count"]}
    return found


def _add_produced(model: Model, sent: Sent, found: dict[Key, Sums], segments: Segments) -> None:
    """Attempts and acknowledgements; each segment of li is a record like others."""
    count = len(sent.batch.segments or sent.batch.records)
    errors = [outcome.error for outcome in sent.outcomes]
    is_rejected = any(errors)
    if is_rejected and sent.batch.segments:
        count = 1  # the first one; the producer sends no more
    is_ours = {*errors} <= {INVALID, OTHERS_INVALID} and is_rejected
    # Segments of li pass as they are: to producers' sidecars they are records like others.
    stored_large = [] if sent.batch.segments else [model.segments(*place, segments) for place in stored([sent])]
    large = _total(stored_large)
    sums = {"count": count, "reject_count": count if is_ours else 0}
    _sum(found, ("produce_attempt", "ATTEMPT", sent.producer), {"count": count, **_large(large)})
    _sum(found, ("produce_ack", "FAILURE" if is_rejected else "SUCCESS", sent.producer), {**sums, **_large(large)})


def _delivered(model: Model, sent: Sequence[Sent], isolation: Isolation, segments: Segments) -> Sums:
    delivered = model.delivered(sent, isolation)
    aborted = sum(one.end == "abort" for _, _, _, one in stored(sent)) if isolation == "read_committed" else 0
    hidden = len(stored(sent)) - aborted - len(delivered)
    shown = {(one.partition, one.offset) for one in delivered}
    large = [
        model.segments(partition, offset, record, batch, segments)
        for partition, offset, record, batch in stored(sent)
        if (partition, offset) in shown
    ]
    sums = {"count": len(delivered), "hidden_count": hidden, "aborted_count": aborted}
    return {**sums, **_large(_total(large))}


def _total(large: Iterable[tuple[int, int]]) -> tuple[int, int]:
    found = [*large]
    return sum(count for count, _ in found), sum(count for _, count in found)


def _segments(direct: str, topic: str) -> Segments:
    """In how many slices each carrier's message is in the log, which is read past the sidecar."""
    counts: Counter[bytes] = Counter()
    carriers = dict[tuple[int, int], bytes]()
    for partition in range(PARTITIONS):
        for message in logged(direct, topic, partition):
            found = dict(headers_of(message))
            if (header := found.get("_lm")) is None:
                continue
            counts[header[1:17]] += 1  # the id of the message
            if "_lmr" in found:
                carriers[partition, message.offset() or 0] = header[1:17]
    return {place: counts[name] for place, name in carriers.items()}


def _large(counts: tuple[int, int]) -> Sums:
    return dict(zip(("large_count", "segment_count"), counts, strict=True))


def _sum(found: dict[Key, Sums], key: Key, more: Sums) -> None:
    old = found.setdefault(key, {})
    for name, value in more.items():
        old[name] = old.get(name, 0) + value
