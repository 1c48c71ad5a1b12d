"""Of each API whose requests have several parts: the denied one gets Kafka's error, the rest goes on. Read by kio."""

from __future__ import annotations

import uuid
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from support import oracle
from support.authorization import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    IDS,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Site,
    codes_in,
    ids_in,
    pairs,
)
from support.driven import Driven

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response, encode_request, encode_response
from kafka_sidecar.codec.message import Struct, replace_fields
from kafka_sidecar.proxy.features.authorization.authorization import CHECKED_APIS
from kafka_sidecar.proxy.relay.exchange import Respond

BATCH: dict[str, Any] = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
Part = dict[str, Any]


def topic_id(name: str) -> uuid.UUID:
    return uuid.UUID(bytes=IDS[name])


# API -> the array of the request, one part of it by name, other fields, the error of the denied part.
REQUESTS: dict[ApiKey, tuple[str, Any, Part, int]] = {
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        "topics", lambda name: {"topic": name, "partitions": [{"partition": 3, "leader_epoch": 1}]}, {}, TOPIC_DENIED,
    ),
    ApiKey.DESCRIBE_PRODUCERS: (
        "topics", lambda name: {"name": name, "partition_indexes": [3]}, {}, TOPIC_DENIED,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("topics", lambda name: {"name": name}, {}, TOPIC_DENIED),
    ApiKey.OFFSET_DELETE: (
        "topics", lambda name: {"name": name, "partitions": [{"partition_index": 3}]}, {"group_id": "open"},
        TOPIC_DENIED,
    ),
    ApiKey.SHARE_FETCH: (
        "topics", lambda name: {"topic_id": topic_id(name), "partitions": [{"partition_index": 3}]},
        {"group_id": "open"}, TOPIC_DENIED,
    ),
    ApiKey.SHARE_ACKNOWLEDGE: (
        "topics",
        lambda name: {
            "topic_id": topic_id(name), "partitions": [{"partition_index": 3, "acknowledgement_batches": [BATCH]}],
        },
        {"group_id": "open"}, TOPIC_DENIED,
    ),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups", lambda name: {"group_id": name, "topics": []}, {}, GROUP_DENIED),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (
        "topics", lambda name: {"topic_name": name, "partitions": [{"partition_index": 3}]}, {"group_id": "open"},
        TOPIC_DENIED,
    ),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (
        "topics", lambda name: {"topic_name": name}, {"group_id": "open"}, TOPIC_DENIED,
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: ("transactional_ids", lambda name: name, {}, TRANSACTION_DENIED),
}  # fmt: skip


def of(exchange: Driven, key: ApiKey, version: int, **values: Any) -> Any:
    return exchange.request(oracle.request_frame(oracle.request(key, version, **values), 5))


@pytest.mark.parametrize(("key", "version"), pairs(*REQUESTS))
def test_the_denied_part_gets_an_error_and_the_rest_goes_on(key: ApiKey, version: int) -> None:
    array, part, others, code = REQUESTS[key]
    site = Site()
    exchange = site.exchange(key, version)
    forwarded = of(exchange, key, version, **others, **{array: [part("open"), part("closed")]})
    (denial,) = site.denials.newest()
    alone = oracle.request_frame(oracle.request(key, version, **others, **{array: [part("open")]}), 5)
    assert forwarded == alone
    answered = exchange.response(oracle.response_frame(oracle.response(key, version), 5))
    assert isinstance(answered, bytes)
    _, response = oracle.read_response(key, version, answered)
    assert len(getattr(response, CHECKED_APIS[key].results)) == 1
    assert codes_in(response) == {code}
    assert ids_in(response) <= {denial.id}
    assert bool(ids_in(response)) == has_messages(response)


ASKED_ALL_THE_SAME = (ApiKey.OFFSET_DELETE, ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS)
NO_GROUP = 69


@pytest.mark.parametrize("key", ASKED_ALL_THE_SAME)
@pytest.mark.parametrize("code", [0, NO_GROUP])
def test_an_error_of_the_group_comes_before_that_of_its_topics(key: ApiKey, code: int) -> None:
    array, part, others, denied = REQUESTS[key]
    exchange = Site().exchange(key, 0)
    forwarded = of(exchange, key, 0, **others, **{array: [part("closed")]})
    assert forwarded == oracle.request_frame(oracle.request(key, 0, **others, **{array: []}), 5)
    frame = oracle.response_frame(oracle.response(key, 0, error_code=code), 5)
    answered = exchange.response(frame)
    assert isinstance(answered, bytes)
    if code:
        assert answered == frame
    else:
        assert codes_in(oracle.read_response(key, 0, answered)[1]) == {denied}


def has_messages(value: Any) -> bool:
    """Whether a response has fields for the text of errors."""
    if isinstance(value, tuple):
        return any(map(has_messages, value))
    return is_dataclass(value) and (
        hasattr(value, "error_message") or any(has_messages(getattr(value, one.name)) for one in fields(value))
    )


def test_brokers_verification_of_transactions_needs_the_right_of_a_broker() -> None:
    transaction = {"transactional_id": "open", "topics": [{"name": "open", "partitions": [1]}]}
    step = of(
        Site().exchange(ApiKey.ADD_PARTITIONS_TO_TXN, 4), ApiKey.ADD_PARTITIONS_TO_TXN, 4, transactions=[transaction]
    )
    assert isinstance(step, Respond)
    assert oracle.read_response(ApiKey.ADD_PARTITIONS_TO_TXN, 4, step.frame)[1].error_code == CLUSTER_DENIED


MEMBERS = [ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT]


@pytest.mark.parametrize(("key", "version"), pairs(*MEMBERS))
def test_a_member_may_describe_the_topics_to_which_it_subscribes(key: ApiKey, version: int) -> None:
    common = {"group_id": "open", "member_id": "m"}
    step = of(Site().exchange(key, version), key, version, **common, subscribed_topic_names=["open", "closed"])
    assert isinstance(step, Respond)
    assert oracle.read_response(key, version, step.frame)[1].error_code == TOPIC_DENIED
    allowed = of(Site().exchange(key, version), key, version, **common, subscribed_topic_names=["open"])
    assert isinstance(allowed, bytes)


def test_a_member_of_a_streams_group_may_describe_the_topics_of_its_topology() -> None:
    key = ApiKey.STREAMS_GROUP_HEARTBEAT
    for name, is_allowed in (("open", True), ("closed", False)):
        changelog = {"name": name, "partitions": 1, "replication_factor": 1}
        part = {"subtopology_id": "0", "source_topics": ["open"], "state_changelog_topics": [changelog]}
        topology = {"epoch": 1, "subtopologies": [part]}
        step = of(Site().exchange(key, 0), key, 0, group_id="open", member_id="m", topology=topology)
        assert isinstance(step, bytes) is is_allowed


TAGS = ((4000, b"of a newer version"),)


def tagged(value: Any) -> Any:
    """The same with an unknown field in each struct."""
    if isinstance(value, Struct):
        of: Any = value
        fields = {name: tagged(getattr(value, name)) for name in of._fields}
        return replace_fields(value, **fields | {"unknown_tags": TAGS})
    return tuple(map(tagged, value)) if isinstance(value, tuple) else value


def flexible_pairs() -> list[tuple[ApiKey, int]]:
    return [
        (key, version)
        for key, version in pairs(*REQUESTS)
        if CHECKED_APIS[key].request.declaration_.is_flexible(version)
    ]


@pytest.mark.parametrize(("key", "version"), flexible_pairs())
def test_unknown_fields_of_what_goes_on_are_kept(key: ApiKey, version: int) -> None:
    array, part, others, _ = REQUESTS[key]
    api = CHECKED_APIS[key]

    def asked(*names: str) -> bytes:
        frame = oracle.request_frame(oracle.request(key, version, **others, **{array: list(map(part, names))}), 5)
        return encode_request(tagged(decode_request(api.request, frame)[1].message), version, 5, "app")

    exchange = Site().exchange(key, version)
    assert exchange.request(asked("open", "closed")) == asked("open")
    answer = tagged(api.response())
    answered = exchange.response(encode_response(answer, version, 5))
    assert isinstance(answered, bytes)
    assert decode_response(api.response, answered, version).message.unknown_tags == TAGS
