"""The audit's table of a run: which offsets the events say were sent and read, and when that cannot be known."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from integration.front import logged
from integration.large_messages.mixed_readers import Place

Event = dict[str, Any]
Epoch = tuple[str, int]  # a process: emitter_id, emitter_epoch
Sums = dict[tuple[Epoch, str, str], tuple[Counter[str], set[Place]]]  # by process, tier and client or group


@dataclass(slots=True)
class Table:
    """Of each process: offsets and sums by tier and client, and from when until when its counts are not known."""

    places: dict[tuple[Epoch, str, str], set[Place]] = field(default_factory=dict)
    sums: dict[tuple[Epoch, str, str], Counter[str]] = field(default_factory=dict)
    unknown: list[tuple[float, float]] = field(default_factory=list)  # time.time
    incomplete: list[str] = field(default_factory=list)  # intervals that lack events

    def of(self, tier: str, clients: Iterable[str]) -> set[Place]:
        wanted = set(clients)
        found = (places for (_, its, client), places in self.places.items() if its == tier and client in wanted)
        return set[Place]().union(*found)

    def by_group(self, groups: Mapping[str, str]) -> Sums:
        """Sums and offsets, those of clients in ``groups`` together."""
        found: Sums = {}
        for (epoch, tier, client), sums in self.sums.items():
            if tier != "commit":
                both = found.setdefault((epoch, tier, groups.get(client, client)), (Counter(), set()))
                both[0].update(sums)
                both[1].update(self.places[epoch, tier, client])
        return found


def read_table(
    direct: str, audit: str, partitions: int, topic: str, killed: Mapping[str, Sequence[float]], until: float
) -> Table:
    """From the events of all processes that were started before ``until`` (time.time).

    ``killed``: of each emitter, when its processes were ended by SIGKILL, in order.
    """
    events: dict[str, Event] = {}
    for partition in range(partitions):
        for message in logged(direct, audit, partition):
            event = json.loads(message.value() or b"")
            if event["emitter_epoch"] < until * 1000:
                events[event["audit_id"]] = event  # one that was sent twice counts once
    table = Table()
    for event in events.values():
        if event["kind"] == "counts" and event["topic"] == topic and event["type"] == "SUCCESS":
            _count(table, event)
    _find_unknown(table, list(events.values()), killed)
    return table


def _count(table: Table, event: Event) -> None:
    key = (event["emitter_id"], event["emitter_epoch"]), event["tier"], event["client_id"]
    assert event["ranges_exact"]
    places = table.places.setdefault(key, set())
    for first, last in event["ranges"]:
        places.update((event["partition"], offset) for offset in range(first, last + 1))
    names = ("count", "large_count", "segment_count", "redelivered_count", "hidden_count", "aborted_count")
    table.sums.setdefault(key, Counter()).update({name: event[name] for name in names})


def _find_unknown(table: Table, events: list[Event], killed: Mapping[str, Sequence[float]]) -> None:
    intervals, arrived = dict[Epoch, dict[int, Event]](), Counter[tuple[Epoch, int]]()
    for event in events:
        epoch = event["emitter_id"], event["emitter_epoch"]
        if event["kind"] == "interval":
            intervals.setdefault(epoch, {})[event["interval_seq"]] = event
        else:
            arrived[epoch, event["interval_seq"]] += 1
    for epoch, ends in sorted(intervals.items()):
        number, last = 0, epoch[1] / 1000
        # What follows the first interval that is not whole is taken for unknown, as the pipeline does.
        while (end := ends.get(number)) is not None and arrived[epoch, number] == end["interval_events"]:
            last = end["emitted_at"] / 1000
            if end["lost_events"]:
                table.incomplete.append(f"{epoch} {number} has lost {end['lost_events']}")
            number += 1
        if number == len(ends) and ends[number - 1]["is_closing"]:
            continue
        deaths = [at for at in killed.get(epoch[0], ()) if at >= last]
        if deaths:
            table.unknown.append((last, min(deaths)))
        else:
            table.incomplete.append(f"{epoch} ends with {number} of {max(ends) + 1} intervals, and was not killed")
