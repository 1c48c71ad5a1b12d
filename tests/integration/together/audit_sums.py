"""The events of a run's audit topic, summed by client, and the sums that there must be."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from integration.front import logged
from integration.scenarios.target import headers_of
from integration.together.connection import Reading
from integration.together.features import Place
from integration.together.model import INVALID, NOT_AS_REQUIRED, OTHERS_INVALID, Isolation, Model, Segments, stored
from integration.together.records import Read, Sent
from integration.together.scenario import PARTITIONS

LARGE = ("large_count", "segment_count")
FIELDS = ("count", "reject_count", "hidden_count", "aborted_count", "redelivered_count", *LARGE)
# A consumer that goes on for another is sent again what that one had not given to its application.
OF_GROUPS = ("count",)
Key = tuple[str, str, str]  # tier, type, client: the end of its id
Sums = dict[str, int]


@dataclass(frozen=True, slots=True)
class Counted:
    """What was sent and read in a run, and must be counted."""

    model: Model
    sent: Sequence[Sent]
    reads: Mapping[str, Read]
    readings: Sequence[Reading]
    share: str  # the member of the share group

    def differences(self, direct: str, place: Place) -> Iterator[str]:
        """Of each sum that is not what it must be, one line."""
        found, expected = _found(direct, place), self._expected(_segments(direct, place.topic))
        for producer in {one.producer for one in self.sent if one.end}:
            _leave_out_retries(found, expected, producer)
        groups = {how.name for how in self.readings if how.is_group}
        for key in sorted({*found, *expected}):
            if self._is_uncertain(key, groups):
                continue
            names = OF_GROUPS if key[2] in groups else FIELDS
            pairs = [(name, expected.get(key, {}).get(name, 0), found.get(key, {}).get(name, 0)) for name in names]
            if differing := [f"{name} {got}, not {wanted}" for name, wanted, got in pairs if wanted != got]:
                yield f"audit: {' '.join(key)}: {', '.join(differing)}"

    def _is_uncertain(self, key: Key, groups: Iterable[str]) -> bool:
        """What docs/reference/audit.md says is not exact."""
        if "workers" in self.model.features and key[2] in groups:
            return True  # each counts what it relays itself: the second member may have come to another one
        # What was acquired in a response that a quota has withheld is redelivered to all but its member.
        return "quotas" in self.model.features and key[2] == self.share

    def _expected(self, segments: Segments) -> dict[Key, Sums]:
        found: dict[Key, Sums] = {}
        for one in self.sent:
            self._add_produced(one, found, segments)
        for how in self.readings:
            if (read := self.reads.get(how.name)) is None:
                continue
            found["fetch_delivered", "SUCCESS", how.name] = self._delivered(how.isolation, segments)
            if how.is_group:  # its first commit says where it is
                advanced = sum(read.positions.values()) - sum(read.half.values())
                found["commit", "SUCCESS", how.name] = {"count": advanced}
        if self.share in self.reads:
            shared = self._delivered("read_uncommitted", segments)
            found["share_delivered", "SUCCESS", self.share] = shared
            found["commit", "SUCCESS", self.share] = {"count": shared["count"]}
        return found

    def _add_produced(self, sent: Sent, found: dict[Key, Sums], segments: Segments) -> None:
        """Attempts and acknowledgements; each segment of li is a record like others."""
        batch, errors = sent.batch, {outcome.error for outcome in sent.outcomes}
        is_rejected = errors != {""}
        # Of a message in segments no more are sent once one is rejected, but by Java, which is not asked in between.
        stops = is_rejected and bool(batch.segments) and sent.library != "java"
        count = 1 if stops else len(batch.segments or batch.records)
        is_ours = is_rejected and errors <= {INVALID, OTHERS_INVALID, NOT_AS_REQUIRED}
        large = [] if batch.segments else [self.model.segments(*place, segments) for place in stored([sent])]
        sums = {"count": count, **_total(large)}
        _add(found, ("produce_attempt", "ATTEMPT", sent.producer), sums)
        type_ = "FAILURE" if is_rejected else "SUCCESS"
        _add(found, ("produce_ack", type_, sent.producer), {**sums, "reject_count": count if is_ours else 0})

    def _delivered(self, isolation: Isolation, segments: Segments) -> Sums:
        model, places = self.model, stored(self.sent)
        delivered = model.delivered(self.sent, isolation)
        ended = [one for _, _, _, one in places if isolation == "read_committed" and one.end == "abort"]
        aborted = sum(len(one.batch.segments) or 1 for one in ended)  # what is aborted is not put together
        shown = {(one.partition, one.offset) for one in delivered}
        large = [model.segments(*place, segments) for place in places if place[:2] in shown]
        hidden = len(places) - len(ended) - len(delivered)
        return {"count": len(delivered), "hidden_count": hidden, "aborted_count": aborted, **_total(large)}


def _total(large: Iterable[tuple[int, int]]) -> Sums:
    """Of large messages and their segments."""
    return dict(zip(LARGE, map(sum, zip((0, 0), *large, strict=True)), strict=True))


def _add(found: dict[Key, Sums], key: Key, more: Sums) -> None:
    old = found.setdefault(key, {})
    for name, value in more.items():
        old[name] = old.get(name, 0) + value


def _leave_out_retries(found: dict[Key, Sums], expected: Mapping[Key, Sums], producer: str) -> None:
    """Takes what a broker failed and the producer sent again out of its attempts.

    While the broker still completes a producer's transaction, it fails the first batch of the next one with
    CONCURRENT_TRANSACTIONS, and the producer sends it again (KIP-890).
    """
    failure = ("produce_ack", "FAILURE", producer)
    if failure in expected or failure not in found or found[failure]["reject_count"]:
        return
    failed, attempts = found.pop(failure), found["produce_attempt", "ATTEMPT", producer]
    for name, value in failed.items():
        attempts[name] -= value


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


def _segments(direct: str, topic: str) -> Segments:
    """In how many slices each carrier's message is in the log, which is read past the sidecar."""
    counts: Counter[bytes] = Counter()
    carriers = dict[tuple[int, int], bytes]()
    for partition in range(PARTITIONS):
        for message in logged(direct, topic, partition):
            headers = dict(headers_of(message))
            if (header := headers.get("_lm")) is None:
                continue
            counts[header[1:17]] += 1  # the id of the message
            if "_lmr" in headers:
                carriers[partition, message.offset() or 0] = header[1:17]
    return {place: counts[name] for place, name in carriers.items()}
