"""Events that say who was allowed or denied what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kafka_sidecar.audit import access
from kafka_sidecar.audit.access import MAX_OF_REQUEST, REPEAT_S, AccessEvents, Who

SCHEMA = json.loads((Path(access.__file__).parent / "access.schema.json").read_text())
LABELS: dict[str, str | None] = {"emitter_id": "gateway-0", "cluster": None, "dc": "eu", "app": None}
ALICE = Who(7, "User:alice", "10.1.2.3", "shop", None)
SECRET = ("describe", "topic", "secret-1")


class Site:
    def __init__(self) -> None:
        self.now = 1000.0
        self.woken = 0
        self.events = AccessEvents(LABELS, lambda: self.now, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def taken(self) -> list[dict[str, Any]]:
        return [json.loads(one.value) for one in self.events.take(1_000_000, 1 << 30)]


def test_an_event_is_as_its_schema_says() -> None:
    site = Site()
    site.events.add("Metadata", [SECRET], False, ALICE)
    site.events.add("Produce", [("write", "topic", "orders")], True, Who(8, "User:ANONYMOUS", None, None, "a 1"))
    denied, allowed = site.taken()
    for event in (denied, allowed):
        jsonschema.Draft202012Validator(SCHEMA).validate(event)
    assert (denied["outcome"], denied["principal"], denied["resource"]) == ("denied", "User:alice", "secret-1")
    assert (denied["at"], denied["client"], denied["dc"]) == (1_000_000, "10.1.2.3", "eu")
    assert (allowed["outcome"], allowed["operation"], allowed["api"]) == ("allowed", "write", "Produce")
    assert site.woken == 2


def test_each_denial_is_an_event_and_what_is_allowed_one_in_a_while() -> None:
    site = Site()
    for _ in range(3):
        site.events.add("Metadata", [SECRET], False, ALICE)
        site.events.add("Metadata", [("describe", "topic", "orders")], True, ALICE)
    assert [one["outcome"] for one in site.taken()].count("denied") == 3
    site.events.add("Metadata", [("describe", "topic", "orders")], True, ALICE)
    assert site.taken() == []
    site.now += REPEAT_S
    site.events.add("Metadata", [("describe", "topic", "orders")], True, ALICE)
    assert len(site.taken()) == 1


def test_of_one_request_some_are_events_and_the_others_are_counted() -> None:
    site = Site()
    site.events.add("Metadata", [("describe", "topic", f"t{number}") for number in range(1000)], False, ALICE)
    assert len(site.taken()) == MAX_OF_REQUEST
    assert site.events.discarded["too_many"] == 1000 - MAX_OF_REQUEST


def test_what_waits_is_bounded_in_bytes_and_the_oldest_is_discarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_BYTES", 5000)
    site = Site()
    for number in range(100):
        site.events.add("Metadata", [("describe", "topic", f"t{number}")], False, ALICE)
        assert site.events.bytes <= 5000
    assert site.taken()[-1]["resource"] == "t99"
    assert site.events.discarded["buffer_full"] > 50
    assert site.events.bytes == 0


def test_what_clients_choose_is_cut_and_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_SEEN", 10)
    site = Site()
    long = "\udcff" + "\u4e2d" * 100_000
    for number in range(50):
        site.events.add("Metadata", [("describe", "group", long)], True, Who(number, long, None, long, long))
    assert len(site.events._seen) <= 10
    for event in site.taken():
        assert all(
            len(event[name].encode()) <= 249 for name in ("principal", "client_id", "client_software", "resource")
        )
