"""What rules deny can be seen: counted, written and stored, whichever API a client was denied something in."""

from __future__ import annotations

import json
import logging
import uuid
from collections import Counter
from typing import Any
from weakref import WeakSet

import pytest
from support import oracle
from support.authorization import IDS, Site
from support.client import FakeClient

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.message import Message
from kafka_sidecar.proxy.exchanges import repeated
from kafka_sidecar.proxy.exchanges.repeated import MAX_NAME_BYTES
from kafka_sidecar.proxy.features.authorization.acls import Operation, Resource
from kafka_sidecar.proxy.features.authorization.authorization import CHECKED_APIS
from kafka_sidecar.proxy.features.authorization.checked_apis import Need
from kafka_sidecar.proxy.features.denials import MAX_NAMED, Denials, Denied
from kafka_sidecar.proxy.telemetry import log_limiter
from kafka_sidecar.proxy.telemetry.log_limiter import write_held_back
from kafka_sidecar.proxy.telemetry.logs import KEYS, JsonLines

KNOWN = CHECKED_APIS.keys() - {ApiKey.UNREGISTER_CONTROLLER}  # to kio


@pytest.fixture(autouse=True)
def _no_limits_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limiter, "_limiters", WeakSet())


def denied(name: str, operation: Operation = Operation.WRITE) -> Denied:
    return Denied(29, "not allowed", Need(operation, Resource.TOPIC, name), f"id of {name[:20]}")


def metadata(site: Site, version: int, topics: list[dict[str, Any]] | None, answered: tuple[str, ...] = ()) -> None:
    """A Metadata request, and the broker's response with these topics."""
    exchange = site.exchange(ApiKey.METADATA, version)
    exchange.request(oracle.request_frame(oracle.request(ApiKey.METADATA, version, topics=topics), 5))
    found = [{"name": name, "topic_id": uuid.UUID(bytes=IDS[name])} for name in answered]
    exchange.response(oracle.response_frame(oracle.response(ApiKey.METADATA, version, topics=found), 5))


def names(site: Site) -> list[tuple[str, str, str, str]]:
    return [(one.api, one.operation, one.resource_type, one.resource) for one in site.denials.newest()]


def test_a_topic_of_metadata_is_a_denial_as_any_other(caplog: pytest.LogCaptureFixture) -> None:
    site = Site()
    metadata(site, 9, [{"name": "open"}, {"name": "closed"}], ("open",))
    assert site.denied == {("Metadata", "describe", "topic"): 1}
    assert names(site) == [("Metadata", "describe", "topic", "closed")]
    (line,) = [vars(one) for one in caplog.records if one.getMessage() == "denied"]
    assert line["levelname"] == "WARNING"
    wanted = {
        "principal": "User:alice", "operation": "describe", "resource_type": "topic", "resource": "closed",
        "api": "Metadata", "client_id": "app", "session": 7, "suppressed": 0,
    }  # fmt: skip
    assert {name: line[name] for name in wanted} == wanted
    assert wanted.keys() <= KEYS


def test_a_topic_that_metadata_names_by_its_id_is_one_too() -> None:
    site = Site()
    metadata(site, 12, [{"topic_id": uuid.UUID(bytes=IDS["closed"]), "name": None}], ("closed",))
    assert names(site) == [("Metadata", "describe", "topic", "closed")]


def test_what_a_list_of_all_leaves_out_is_none() -> None:
    site = Site()
    metadata(site, 9, None, ("open", "closed"))
    assert site.denied == {}
    assert names(site) == []


def test_offsets_that_are_asked_for_are_denied_by_group_and_topic() -> None:
    site = Site()
    groups = [
        {"group_id": "closed", "topics": [{"name": "open", "partition_indexes": [0]}]},
        {"group_id": "open", "topics": [{"name": "closed", "partition_indexes": [0]}]},
    ]
    frame = oracle.request_frame(oracle.request(ApiKey.OFFSET_FETCH, 8, groups=groups), 5)
    site.exchange(ApiKey.OFFSET_FETCH, 8).request(frame)
    assert names(site) == [
        ("OffsetFetch", "describe", "topic", "closed"),
        ("OffsetFetch", "describe", "group", "closed"),
    ]


@pytest.mark.parametrize(
    "key", sorted(key for key, api in CHECKED_APIS.items() if api.request is Message and not api.shown and key in KNOWN)
)
def test_an_api_that_is_denied_as_a_whole_is_one_denial(key: int) -> None:
    site, version = Site(), APIS[key].max_version
    site.exchange(key, version).request(oracle.request_frame(oracle.request(key, version), 5))
    ((api, _, resource_type),) = site.denied
    assert (api, resource_type) == (APIS[key].name, "cluster")
    assert len(names(site)) == 1


def test_a_denial_again_is_counted_and_keeps_its_id(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    site = Denials(Counter(), lambda: now[0])
    for _ in range(3):
        site.record(ApiKey.PRODUCE, [denied("secret")], FakeClient())
        now[0] += 1
    (one,) = site.newest()
    assert (one.times, one.since, one.at) == (3, 0, 2)
    assert site.find(one.id) == one
    assert [line.getMessage() for line in caplog.records] == ["denied"]
    now[0] = 60
    write_held_back()
    assert vars(caplog.records[-1])["suppressed"] == 2
    assert "denied, User:ANONYMOUS, write, topic, secret" in vars(caplog.records[-1])["detail"]


def test_of_a_request_with_many_only_some_are_named_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    counts: Counter[tuple[str, str, str]] = Counter()
    site = Denials(counts, lambda: 0.0)
    site.record(ApiKey.PRODUCE, [denied(f"t{number}") for number in range(10_000)], FakeClient())
    assert counts.total() == 10_000
    assert len(list(site.newest())) == MAX_NAMED
    write_held_back(is_last=True)
    lines = [vars(one) for one in caplog.records]
    assert sum(line["message"] == "denied" for line in lines) == MAX_NAMED
    assert sum(line["suppressed"] for line in lines) == 10_000 - MAX_NAMED


def test_names_that_clients_choose_are_bounded_in_number_and_bytes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(repeated, "MAX_RECENT", 10)
    client = FakeClient()
    client.client_id = client.client_software = client.principal = "\u4e2d" * 100_000
    site = Denials(Counter(), lambda: 0.0)
    for number in range(100):
        site.record(ApiKey.PRODUCE, [denied(f"{number}" + "\u4e2d" * 100_000)], client)
    kept = list(site.newest())
    assert len(kept) == 10
    for one in kept:
        for text in (one.resource, one.principal, one.client_id, one.client_software, one.message):
            assert len((text or "").encode()) <= MAX_NAME_BYTES
    longest = max(len(JsonLines().format(line)) for line in caplog.records)
    assert longest < 3000


def test_a_name_that_is_no_text_is_written(caplog: pytest.LogCaptureFixture) -> None:
    site = Denials(Counter(), lambda: 0.0)
    site.record(ApiKey.PRODUCE, [denied("\udcff\x1b[2J" * 200)], FakeClient())
    (line,) = caplog.records
    assert json.loads(JsonLines().format(line))["resource"].startswith("?\x1b")
    assert "\x1b" not in JsonLines().format(line)
    assert line.levelno == logging.WARNING


def test_what_no_rule_rejects_is_no_denial() -> None:
    from kafka_sidecar.proxy.exchanges.messages import UNKNOWN_ID

    counts: Counter[tuple[str, str, str]] = Counter()
    Denials(counts, lambda: 0.0).record(ApiKey.PRODUCE, [UNKNOWN_ID], FakeClient())
    assert counts == {}
