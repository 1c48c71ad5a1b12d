"""The outbox: nothing is lost below its bounds; above them the loss is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import orjson
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.audit import event_auditor
from kafka_sidecar.audit.contract import AuditedClient, Result
from kafka_sidecar.audit.counters import BatchCount
from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.events import Interval
from kafka_sidecar.audit.outbox import END_BYTES, Outbox

PLENTY = 1 << 30


def interval(number: int, counts: int, size: int = 0) -> Interval:
    events = [
        {
            "audit_id": f"{number}-{index}",
            "min_ts": 100 * number + index,
            "max_ts": 100 * number + index,
            "p": "x" * size,
        }
        for index in range(counts)
    ]
    end = {"audit_id": f"{number}-end", "lost_events": 0, "lost_min_ts": None, "lost_max_ts": None}
    return Interval(list(events), end)


def taken(outbox: Outbox, max_events: int = 1000, max_bytes: int = PLENTY) -> list[dict[str, Any]]:
    events = outbox.take(max_events, max_bytes)
    assert all(orjson.loads(event.value)["audit_id"] == event.key.decode() for event in events)
    return [orjson.loads(event.value) for event in events]


def ids(events: list[dict[str, Any]]) -> list[str]:
    return [event["audit_id"] for event in events]


def test_events_are_taken_in_order_the_end_of_an_interval_last() -> None:
    woken: list[int] = []
    outbox = Outbox(PLENTY, PLENTY, lambda: woken.append(1))
    outbox.add(interval(0, 0))
    outbox.add(interval(1, 2))
    assert (outbox.events, outbox.intervals, woken) == (4, 2, [1, 1])
    assert ids(taken(outbox, 2)) == ["0-end", "1-0"]
    assert ids(taken(outbox, 2)) == ["1-1", "1-end"]
    assert taken(outbox) == []
    assert (outbox.events, outbox.bytes, outbox.discarded) == (0, 0, 0)


def test_as_many_bytes_are_taken_as_are_wanted_but_one_event_at_least() -> None:
    outbox = Outbox(PLENTY, PLENTY)
    outbox.add(interval(0, 3, size=1000))
    assert ids(taken(outbox, max_bytes=1)) == ["0-0"]
    assert ids(taken(outbox, max_bytes=1500)) == ["0-1", "0-2"]


def test_the_oldest_counts_are_discarded_first_and_their_interval_says_so() -> None:
    outbox = Outbox(PLENTY, 5)
    outbox.add(interval(0, 2))
    outbox.add(interval(1, 2))
    outbox.add(interval(2, 1))
    assert outbox.discarded == 3
    events = taken(outbox)
    assert ids(events) == ["0-end", "1-1", "1-end", "2-0", "2-end"]
    ends = [event for event in events if "lost_events" in event]
    assert [(end["lost_events"], end["lost_min_ts"], end["lost_max_ts"]) for end in ends] == [
        (2, 0, 1), (1, 100, 100), (0, None, None),
    ]  # fmt: skip


def test_bytes_are_bounded() -> None:
    outbox = Outbox(3 * END_BYTES, PLENTY)
    outbox.add(interval(0, 10, size=500))
    assert outbox.bytes <= 3 * END_BYTES
    (*_, end) = taken(outbox)
    assert end["lost_events"] == outbox.discarded > 0


def test_without_counts_the_oldest_ends_are_discarded() -> None:
    outbox = Outbox(PLENTY, 2)
    for number in range(4):
        outbox.add(interval(number, 1))
    assert ids(taken(outbox)) == ["2-end", "3-end"]
    assert outbox.discarded == 6


def test_what_an_earlier_process_could_not_send_comes_first() -> None:
    before = Outbox(PLENTY, PLENTY)
    before.add(interval(0, 2))
    values = [event.value for event in before.take(100, PLENTY)]
    outbox = Outbox(PLENTY, PLENTY)
    assert outbox.restore([*values, b"", b"{}", b"[]", b"\xff"], at=1.0) == 3
    outbox.add(interval(9, 1))
    assert [event.value for event in outbox.take(3, PLENTY)] == values
    assert ids(taken(outbox)) == ["9-0", "9-end"]


def test_restored_events_are_discarded_first() -> None:
    outbox = Outbox(PLENTY, 3)
    outbox.restore([orjson.dumps({"audit_id": str(number)}) for number in range(3)], at=1.0)
    outbox.add(interval(9, 1))
    assert ids(taken(outbox)) == ["2", "9-0", "9-end"]
    assert outbox.discarded == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6))), st.integers(1, 12))
def test_every_event_is_taken_once_or_counted_as_lost(steps: list[tuple[int, int]], max_events: int) -> None:
    outbox, added, events = Outbox(PLENTY, max_events), 0, list[dict[str, Any]]()
    for number, (counts, wanted) in enumerate(steps):
        outbox.add(interval(number, counts))
        added += counts + 1
        events += taken(outbox, wanted)
        assert outbox.events <= max(max_events, 1)
        assert outbox.events == added - len(events) - outbox.discarded
    events += taken(outbox)
    assert len(set(ids(events))) == len(events) == added - outbox.discarded
    assert (outbox.events, outbox.bytes) == (0, 0)
    ends = {int(event["audit_id"].split("-")[0]): event["lost_events"] for event in events if "lost_events" in event}
    for number, lost in ends.items():
        arrived = [one for one in ids(events) if one.startswith(f"{number}-") and not one.endswith("end")]
        assert len(arrived) + lost == steps[number][0]


def test_a_name_that_is_not_utf8_costs_no_event() -> None:
    """Any client can send one, as client id, group, or topic; orjson takes no lone surrogates."""
    outbox = Outbox(PLENTY, PLENTY)
    strange, usual = interval(1, 1), interval(2, 1)
    strange.counts[0]["group"] = b"Caf\xc3\xa9 \xff".decode("utf-8", "surrogateescape")
    outbox.add(strange)
    outbox.add(usual)
    events = taken(outbox)
    assert ids(events) == ["1-0", "1-end", "2-0", "2-end"]
    assert events[0]["group"] == "Café \ufffd"


def test_names_that_are_not_utf8_are_sent_as_the_schema_has_it() -> None:
    auditor, outbox, strange = EventAuditor(lambda: 600_000), Outbox(PLENTY, PLENTY), "caf\udcff"
    auditor.configure({"emitter_id": "pod-1", "enable.auto.tick": False})
    auditor.emit = outbox.add
    auditor.start()
    client = AuditedClient(strange, strange, "10.0.0.3")
    auditor.produced(client, strange, 0, BatchCount(600_000, 10, 500, result=Result.ACKED, first_offset=0))
    auditor.delivered(client, strange, "orders", 0, BatchCount(600_000, 5, 500, first_offset=0))
    auditor.tick()
    events = taken(outbox)
    schema = json.loads((Path(event_auditor.__file__).parent / "event.schema.json").read_text())
    for event in events:
        jsonschema.validate(event, schema)
    names = ("topic", "group", "client_id", "principal")
    assert {name for name in names for event in events if event.get(name) == "caf\ufffd"} == set(names)
    assert events[-1]["kind"] == "interval"


def test_the_age_is_that_of_the_oldest_event_also_of_what_an_earlier_process_has_left_and_of_what_was_taken() -> None:
    now = [1000.0]
    outbox = Outbox(PLENTY, PLENTY, clock=lambda: now[0])
    assert (outbox.oldest_at, outbox.taken_at) == (None, None)
    outbox.restore([orjson.dumps({"audit_id": "old"})], at=900.0)
    outbox.add(interval(0, 1))
    now[0] = 1060.0
    outbox.add(interval(1, 1))
    ages = []
    while outbox.oldest_at is not None:
        ages.append(outbox.oldest_at)
        outbox.take(1, PLENTY)
        assert outbox.taken_at == ages[-1]
    assert ages == [900.0, 1000.0, 1000.0, 1060.0, 1060.0]
