"""Several features of one sidecar on one topic, composed as a configuration composes them.

tests/integration/together compares all pairs of features with a model, with real clients and a broker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from support import oracle
from support.client import FakeClient
from support.driven import Driven, Step
from support.features import begun, started
from support.fetches import fetch_request, values_by_partition
from support.interception import fetch_response, headers_in
from support.large_logs import Log
from support.large_messages import LogBroker, answered
from support.letters import kept_in
from support.produce_requests import produce_request, results, topic_id
from support.share_fetches import partition, partitions_in, share_request, share_response

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.config.loading import ROOM_IN_FRAME
from kafka_sidecar.proxy.exchanges.commits import Commits
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords
from kafka_sidecar.proxy.features.authorization.authorization import CHECKED_APIS
from kafka_sidecar.proxy.relay.exchange import Send

VALUE = bytes(range(256)) * 40
ORDERS = topic_id("orders")
LARGE: Mapping[str, Any] = {"large_messages": {"topics": [{"name": "orders"}]}}
ADDS, READS = ({"type": f"support.interception:{kind}", "topics": ["orders"]} for kind in ("Adds", "Reads"))
# Interceptors that look at these records and change none of them.
LOOKING = [READS, {"type": "remove_header", "topics": ["orders"], "keys": ["none"]}, {"type": "latency"}]
SHOWN = [(0, b"first"), (11, VALUE), (12, b"last")]


def large_log() -> Log:
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 11, 1, topic_id=ORDERS)
    log.add(b"last")
    return log


def met(exchange: Driven, step: Step, serve: Any = None) -> Step:
    """The step after all needs of an exchange are met; ``serve`` answers its own requests."""
    while isinstance(step, Need):
        match step:
            case Work():
                step = exchange.answer(step.run())
            case Send(frames=frames, take=take):
                step = exchange.answer(answered(tuple(serve(one) for one in frames), take))
            case _:
                raise AssertionError(step)
    return step


def test_a_dead_letter_is_what_the_client_has_sent_whatever_interceptors_add() -> None:
    topics = [{"name": "orders", "policy": "json", "dead_letters": "orders.dlq"}]
    features, own = started(ADDS, topics=topics), Header("own", b"1")
    sent = build_batch([NewRecord(b"{", b"key", (own,))])
    request = produce_request(9, {"orders": {0: sent}})
    exchange = begun(features, ApiKey.PRODUCE, 9, request)
    assert exchange is not None
    met(exchange, exchange.request(request))
    letters = features.dead_letters
    assert letters is not None
    [letter] = kept_in(letters.store.buffer.take(1))
    assert (letter.key, letter.value, letter.headers) == (b"key", b"{", [own])


@pytest.mark.parametrize("interceptor", LOOKING, ids=lambda one: str(one["type"]))
def test_a_consumer_gets_large_messages_whole_whatever_interceptor_looks_at_them(interceptor: dict[str, Any]) -> None:
    features, request = started(interceptor, **LARGE), fetch_request(13, {"orders": {0: 0}})
    exchange = begun(features, ApiKey.FETCH, 13, request)
    assert exchange is not None
    met(exchange, exchange.request(request))
    response = fetch_response(13, {"orders": {0: {"records": large_log().fetch(0, 1 << 20), "high_watermark": 13}}})
    assert values_by_partition(13, met(exchange, exchange.response(response))) == {("orders", 0): SHOWN}


@pytest.mark.parametrize("interceptor", LOOKING, ids=lambda one: str(one["type"]))
def test_a_share_group_gets_them_whole_as_well(interceptor: dict[str, Any]) -> None:
    exchange = begun(started(interceptor, **LARGE), ApiKey.SHARE_FETCH, 1, share_request(1))
    assert exchange is not None
    met(exchange, exchange.request(share_request(1)))
    response = share_response(1, {"orders": [partition(large_log().fetch(0, 1 << 20), (0, 12))]})
    one = partitions_in(1, met(exchange, exchange.response(response)))["orders", 0]
    records = [record for found in batches(one.records) if not found.header.is_control for record in found.records()]
    assert [record.value for record in records] == [b"first", VALUE, b"last"]


ANYTHING: Mapping[str, Any] = {"authorization": {"rules": [{"topics": ["*"], "groups": ["*"]}]}}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("settings", [ANYTHING, LARGE, {**ANYTHING, **LARGE}], ids=["rules", "large", "both"])
@pytest.mark.parametrize("topic", ["orders", "free"])
def test_whatever_looks_into_a_share_fetch_asks_for_no_more_than_may_be_buffered(
    topic: str, settings: Mapping[str, Any], version: int
) -> None:
    asked = share_request(version, max_bytes=2**31 - 1)
    features = started({"type": "latency", "topics": [topic]}, **settings)
    exchange = begun(features, ApiKey.SHARE_FETCH, version, asked)
    assert exchange is not None
    limit = features.site.config.connections.max_frame - ROOM_IN_FRAME
    assert met(exchange, exchange.request(asked)) == share_request(version, max_bytes=limit)


def test_a_masked_field_is_not_shown_in_slices() -> None:
    value = b'{"card":"4111","rest":"' + b"x" * 9000 + b'"}'
    log = Log()
    log.add_large(value, 11, 1, topic_id=ORDERS)
    mask = {"type": "mask_fields", "topics": ["orders"], "fields": ["$.card"]}
    features, request = started(mask, **LARGE), fetch_request(13, {"orders": {0: 0}})
    for records in (log.fetch(0, 1 << 20), b"".join(log.batches[:-1])):  # all of it, and slices alone
        exchange = begun(features, ApiKey.FETCH, 13, request)
        assert exchange is not None
        met(exchange, exchange.request(request))
        response = fetch_response(13, {"orders": {0: {"records": records, "high_watermark": 10}}})
        step = met(exchange, exchange.response(response))
        assert isinstance(step, bytes)
        assert b"4111" not in step


def produced(value: bytes, broker: LogBroker, *interceptors: Mapping[str, Any]) -> Step:
    """What a client gets for a record that is sent through a sidecar whose topic allows 4096 bytes."""
    features = started(*interceptors, **LARGE)
    frame = produce_request(12, {"orders": {0: build_batch([NewRecord(value, b"key")])}})
    exchange = begun(features, ApiKey.PRODUCE, 12, frame, FakeClient())
    assert exchange is not None
    step = met(exchange, exchange.request(frame), broker.serve)
    if not isinstance(step, bytes):
        return step
    return met(exchange, exchange.response(broker.serve(step)), broker.serve)


@pytest.mark.parametrize("size", [100, 3900, 4050, 10_000, 3_000_000])
def test_interceptors_change_records_that_are_split_afterwards(size: int) -> None:
    broker = LogBroker(max_batch=4096 if size < 1_000_000 else 1 << 20)
    step = produced(os.urandom(size), broker, ADDS)
    assert results(12, step)[0][2] == 0
    (record,) = headers_in(broker.log["orders", 0][-1])
    assert record[0][0] == "added"
    assert (len(broker.log["orders", 0]) > 1) == (size > 4000)


def test_a_change_that_makes_a_batch_too_large_to_be_split_is_undone() -> None:
    """A compacted topic refuses slices; without the header the batch fits."""
    broker = LogBroker(is_compacted=True)
    step = produced(bytes(4016), broker, ADDS)
    assert results(12, step)[0][2] == 0
    assert headers_in(broker.log["orders", 0][-1]) == [[]]


def metadata(version: int, *topics: str) -> bytes:
    named = [{"name": one, "topic_id": None} for one in topics]
    return oracle.request_frame(oracle.request(ApiKey.METADATA, version, topics=named), 7)


@pytest.mark.parametrize("version", range(14))
def test_a_denied_topic_does_not_reach_the_broker_in_any_version_of_metadata(version: int) -> None:
    """Which might create it. In version 0 a request that names none asks for all."""
    rules = [{"principals": ["*"], "permission": "allow", "operations": ["all"], "topics": ["open"]}]
    features = started(authorization={"default": "deny", "rules": rules})
    frame = metadata(version, "secret")
    exchange = begun(features, ApiKey.METADATA, version, frame)
    assert exchange is not None
    step = met(exchange, exchange.request(frame))
    assert isinstance(step, bytes)
    assert b"secret" not in step
    topics = [{"name": name, "error_code": 17} for name in ("-/-",) if name.encode() in step]
    response = oracle.response_frame(oracle.response(ApiKey.METADATA, version, topics=topics, brokers=[]), 7)
    shown = met(exchange, exchange.response(response))
    assert isinstance(shown, bytes)
    _, found = oracle.read_response(ApiKey.METADATA, version, shown)
    assert [(one.name, int(one.error_code)) for one in found.topics] == [("secret", 29)]


def composed(features: Any) -> dict[str, list[str]]:
    """By API, what its requests are taken through, in order: stages of records, within theirs, and runs of others."""
    found = {}
    for key, exchanges in features._exchanges.items():
        stages = [*getattr(exchanges, "guards", filter(None, [getattr(exchanges, "guard", None)])), *exchanges.stages]
        version = APIS[ApiKey(key)].max_version
        found[ApiKey(key).name] = [
            type(one(FakeClient(), version) if callable(one) else one).__name__
            for stage in stages
            for one in (stage, *(stage.stages if isinstance(stage, AcquiredRecords | Commits) else ()))
        ]
    return found


# Of all features together, where there is more than the check of rules; in the order of design D8.
ORDER = {
    "PRODUCE": [
        "CheckProduce", "HeadStage", "RejectStage", "HabitsStage", "SegmentStage", "ValidationStage", "SendStage",
        "ObjectStage", "SplitStage",
    ],
    "FETCH": ["CheckFetchRun", "AssembleStage", "SafeOffsetStage", "CheckStage", "ConsumeStage"],
    "SHARE_FETCH": [
        "CheckSharedRun", "AcquiredRecordsRun", "ShareAssembleStage", "ShareCheckStage", "ShareStage",
        "LimitedResponse",
    ],
    "OFFSET_COMMIT": ["CheckRun", "CommitRun", "CommitStage", "OffsetStage"],
    "TXN_OFFSET_COMMIT": ["CheckRun", "CommitRun", "CommitStage", "OffsetStage"],
    "OFFSET_FETCH": ["DescribedOffsetsRun", "StoredOffsetsRun"],
    "METADATA": ["DescribedTopicsRun", "NamedTopicsRun"],
    "SHARE_ACKNOWLEDGE": ["CheckSharedRun"],
    "DESCRIBE_TOPIC_PARTITIONS": ["CheckPagesRun"],
    "STREAMS_GROUP_HEARTBEAT": ["CheckStreamsRun", "StreamsRun"],
    "CREATE_TOPICS": ["CheckCreationRun", "CreationRun", "AlterConfigsRun"],
    "ALTER_CONFIGS": ["CheckRun", "GuardTopicsRun", "AlterConfigsRun"],
    "INCREMENTAL_ALTER_CONFIGS": ["CheckRun", "IncrementalRun", "AlterConfigsRun"],
    "DELETE_TOPICS": ["CheckDeletionRun", "GuardTopicsRun", "DeleteTopicsRun"],
    "CREATE_PARTITIONS": ["CheckRun", "GuardTopicsRun"],
    "DELETE_RECORDS": ["CheckRun", "DeletionsRun"],
    "DESCRIBE_CONFIGS": ["CheckRun", "DescribeConfigsRun"],
    "DESCRIBE_SHARE_GROUP_OFFSETS": ["CheckShareOffsetsRun"],
    "SYNC_GROUP": ["CheckSyncRun"],
}  # fmt: skip


def test_the_stages_of_all_features_together_are_in_the_order_of_design_d8() -> None:
    """An interceptor that changes, one that hides, one that only looks; with an audit and logins, which add none."""
    large = {"topics": [{"name": "orders", "store": "object", "deliver_headers": True}], "object_store": "memory://"}
    commits = {"type": "commit_metadata", "name": "metadata"}
    features = started(
        ADDS, READS, commits, large_messages=large, topics=[{"name": "orders", "policy": "json", "consume": "hide"}],
        authorization={"default": "deny"}, topic_configs={"topic": "other"},
        producers=[{"topics": ["orders"], "acks": "all"}],
        rate_limits=[{"name": "shop", "produce_bytes": 1, "action": "reject"}],
        topic_guards=[{"partitions": {"max": 50}, "delete": "deny", "other_configs": "deny"}],
    )  # fmt: skip
    found = composed(features)
    assert {name: found.pop(name) for name in tuple(found) if found[name] != ["CheckRun"]} == ORDER
    assert found.keys() == {ApiKey(key).name for key in CHECKED_APIS} - {
        "FETCH", "SHARE_FETCH", "SHARE_ACKNOWLEDGE", "DESCRIBE_TOPIC_PARTITIONS", "STREAMS_GROUP_HEARTBEAT",
        "OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "CREATE_TOPICS", "ALTER_CONFIGS",
        "INCREMENTAL_ALTER_CONFIGS", "DELETE_TOPICS", "DELETE_RECORDS", "DESCRIBE_CONFIGS", "CREATE_PARTITIONS",
        "DESCRIBE_SHARE_GROUP_OFFSETS", "SYNC_GROUP",
    }  # fmt: skip
