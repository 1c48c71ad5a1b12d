"""Every API that a rule may deny: what is denied gets Kafka's error, the rest goes on. Read by kio."""

from __future__ import annotations

import re
import uuid
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
    pairs,
)
from support.pages import ROOT

from kafka_sidecar.codec.apis import APIS, ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.message import first_version
from kafka_sidecar.codec.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kafka_sidecar.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_sidecar.proxy.config.sections import AclRule
from kafka_sidecar.proxy.features.authorization.acls import Acls, Operation
from kafka_sidecar.proxy.features.authorization.authorization import CHECKED_APIS, OPEN_APIS, Authorization, rules_of
from kafka_sidecar.proxy.features.authorization.checked_apis import on_topic
from kafka_sidecar.proxy.features.authorization.topic_apis import CHANGING
from kafka_sidecar.proxy.relay.exchange import Respond
from kafka_sidecar.proxy.relay.routes import versions as relayed_versions

NEW = [ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.CREATE_TOPICS]
PROTOCOL = {"protocol_type": "consumer", "protocol_name": "range"}
GROUPS = [
    ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.OFFSET_DELETE,
]  # fmt: skip


def request(key: int, version: int, *topics: str) -> bytes:
    partition = {"partition": 3, "partition_index": 3}
    named: list[dict[str, Any]] = [
        {"name": name, "topic": name, "topic_id": uuid.UUID(bytes=IDS[name]), "partitions": [partition]}
        for name in topics
    ]
    if key == ApiKey.CREATE_TOPICS:
        named = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in topics]
    fields: dict[str, Any] = {"topics": named}
    if key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
        fields |= {"group_id": "open", "transactional_id": "open"}
    return oracle.request_frame(oracle.request(key, version, **fields), 5)


def errors(key: int, version: int, frame: bytes) -> dict[object, int]:
    """Topic -> error code."""
    _, response = oracle.read_response(key, version, frame)
    found = {}
    for topic in getattr(response, CHECKED_APIS[key].results):
        name = getattr(topic, "name", None) or getattr(topic, "topic", None) or topic.topic_id.bytes
        (code,) = {one.error_code for one in getattr(topic, "partitions", (topic,))}
        found[name] = int(code)
    return found


@pytest.mark.parametrize(("key", "version"), pairs(*NEW))
def test_a_denied_topic_alone_is_answered_here(key: ApiKey, version: int) -> None:
    site = Site()
    step = site.exchange(key, version).request(request(key, version, "closed"))
    assert isinstance(step, Respond)
    assert list(errors(key, version, step.frame).values()) == [TOPIC_DENIED]
    assert {api: count for (api, *_), count in site.denied.items()} == {APIS[key].name: 1}


@pytest.mark.parametrize(("key", "version"), pairs(*NEW))
def test_the_other_topics_go_on_and_the_denied_one_is_added_to_the_response(key: ApiKey, version: int) -> None:
    exchange = Site().exchange(key, version)
    sent = exchange.request(request(key, version, "open", "closed"))
    assert sent == request(key, version, "open")
    answered = exchange.response(oracle.response_frame(oracle.response(key, version), 5))
    assert isinstance(answered, bytes)
    assert list(errors(key, version, answered).values()) == [TOPIC_DENIED]


@pytest.mark.parametrize(("key", "version"), pairs(*NEW))
def test_what_is_allowed_is_forwarded_unread(key: ApiKey, version: int) -> None:
    exchange, frame = Site().exchange(key, version), request(key, version, "open")
    assert exchange.request(frame) is frame
    assert not exchange.wants_response


@pytest.mark.parametrize(("key", "version"), pairs(*GROUPS))
def test_a_denied_group_is_answered_here(key: ApiKey, version: int) -> None:
    site, values = Site(), PROTOCOL if (key, version) == (ApiKey.SYNC_GROUP, 5) else {}
    frame = oracle.request_frame(oracle.request(key, version, group_id="closed", **values), 5)
    step = site.exchange(key, version).request(frame)
    assert isinstance(step, Respond)
    correlation_id, response = oracle.read_response(key, version, step.frame)
    assert (correlation_id, response.error_code) == (5, GROUP_DENIED)
    allowed = oracle.request_frame(oracle.request(key, version, group_id="open", **values), 5)
    assert site.exchange(key, version).request(allowed) is allowed
    assert {api: count for (api, *_), count in site.denied.items()} == {APIS[key].name: 1}


def test_a_deleted_topic_with_both_a_name_and_an_id_has_the_error_that_it_has_at_a_broker() -> None:
    topics = [{"name": name, "topic_id": uuid.UUID(bytes=topic_id)} for name, topic_id in IDS.items()]
    topics.append({"name": "open", "topic_id": None})
    exchange = Site().exchange(ApiKey.DELETE_TOPICS, 6)
    sent = exchange.request(oracle.request_frame(oracle.request(ApiKey.DELETE_TOPICS, 6, topics=topics), 5))
    assert sent == oracle.request_frame(oracle.request(ApiKey.DELETE_TOPICS, 6, topics=topics[2:]), 5)
    answer = oracle.response(ApiKey.DELETE_TOPICS, 6, responses=[{"name": "open"}])
    answered = exchange.response(oracle.response_frame(answer, 5))
    assert isinstance(answered, bytes)
    results = oracle.read_response(ApiKey.DELETE_TOPICS, 6, answered)[1].responses
    assert [(one.name, int(one.error_code)) for one in results] == [("open", 0), ("open", 42), ("closed", 42)]


def test_a_sync_without_a_protocol_has_the_error_that_it_has_at_a_broker() -> None:
    for group, protocol, code in (("closed", None, 23), ("open", None, 23), ("closed", "range", GROUP_DENIED)):
        values = PROTOCOL | {"group_id": group, "protocol_name": protocol}
        frame = oracle.request_frame(oracle.request(ApiKey.SYNC_GROUP, 5, **values), 5)
        step = Site().exchange(ApiKey.SYNC_GROUP, 5).request(frame)
        assert isinstance(step, Respond)
        assert oracle.read_response(ApiKey.SYNC_GROUP, 5, step.frame)[1].error_code == code


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.OFFSET_COMMIT))
def test_commits_of_a_denied_group_are_rejected_for_each_partition(key: ApiKey, version: int) -> None:
    topics = [
        {"name": name, "topic_id": uuid.UUID(bytes=IDS[name]), "partitions": [{"partition_index": 3}]} for name in IDS
    ]
    frame = oracle.request_frame(oracle.request(key, version, group_id="closed", topics=topics), 5)
    step = Site().exchange(key, version).request(frame)
    assert isinstance(step, Respond)
    assert list(errors(key, version, step.frame).values()) == [GROUP_DENIED, GROUP_DENIED]


def metadata(version: int, *topics: str) -> dict[str, tuple[int, int]]:
    """Topic -> error code and number of partitions, of a response with both topics."""
    asked = [{"name": name} for name in topics] if topics or not version else None
    exchange = Site().exchange(ApiKey.METADATA, version)
    sent = exchange.request(oracle.request_frame(oracle.request(ApiKey.METADATA, version, topics=asked), 5))
    assert isinstance(sent, bytes)
    assert b"closed" not in sent or topics == ("closed",)
    both = [
        {"name": name, "partitions": [{"partition_index": 0}]}
        for name in topics or IDS
        if name != "closed" or not topics
    ]
    answered = exchange.response(oracle.response_frame(oracle.response(ApiKey.METADATA, version, topics=both), 5))
    assert isinstance(answered, bytes)
    _, response = oracle.read_response(ApiKey.METADATA, version, answered)
    return {topic.name: (int(topic.error_code), len(topic.partitions)) for topic in response.topics}


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.METADATA))
def test_metadata_show_only_what_may_be_described(key: ApiKey, version: int) -> None:
    assert metadata(version) == {"open": (0, 1)}
    assert metadata(version, "open", "closed") == {"open": (0, 1), "closed": (TOPIC_DENIED, 0)}
    assert metadata(version, "closed") == {"closed": (TOPIC_DENIED, 0)}


@pytest.mark.parametrize("version", [12, 13])
def test_metadata_of_ids_have_an_error_without_a_name_for_what_may_not_be_described(version: int) -> None:
    ids = {name: uuid.UUID(bytes=topic_id) for name, topic_id in IDS.items()}
    # Brokers look at no name where there is an id.
    asked = [{"topic_id": ids["open"], "name": "closed"}, {"topic_id": ids["closed"], "name": None}]
    frame = oracle.request_frame(oracle.request(ApiKey.METADATA, version, topics=asked), 5)
    exchange = Site().exchange(ApiKey.METADATA, version)
    assert exchange.request(frame) is frame
    found = [{"name": name, "topic_id": ids[name]} for name in ids]
    answered = exchange.response(oracle.response_frame(oracle.response(ApiKey.METADATA, version, topics=found), 5))
    assert isinstance(answered, bytes)
    _, response = oracle.read_response(ApiKey.METADATA, version, answered)
    shown = {topic.topic_id: (topic.name, int(topic.error_code)) for topic in response.topics}
    assert shown == {ids["open"]: ("open", 0), ids["closed"]: (None, TOPIC_DENIED)}


def test_an_error_that_repeats_the_names_of_a_request_is_the_brokers() -> None:
    closed = uuid.UUID(bytes=IDS["closed"])
    topics = [{"topic_id": closed, "name": "closed"}]  # ids are of no use before version 12
    exchange = Site().exchange(ApiKey.METADATA, 11)
    exchange.request(oracle.request_frame(oracle.request(ApiKey.METADATA, 11, topics=topics), 5))
    invalid = [{"topic_id": closed, "name": "closed", "error_code": ErrorCode.INVALID_REQUEST}]
    frame = oracle.response_frame(oracle.response(ApiKey.METADATA, 11, topics=invalid), 5)
    assert exchange.response(frame) == frame


def test_every_api_that_is_relayed_is_checked_or_open_to_everybody() -> None:
    own = {ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.OFFSET_FETCH}  # a stage, and two exchanges of their own
    relayed = {key for key in APIS if relayed_versions(key) is not None}
    assert relayed == CHECKED_APIS.keys() | OPEN_APIS | own
    assert not CHECKED_APIS.keys() & (OPEN_APIS | own)


def test_the_security_page_names_every_api() -> None:
    page = (ROOT / "docs/reference/security.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[A-Z][A-Za-z]+", page))
    assert {api.name for key, api in APIS.items() if relayed_versions(key) is not None} <= named


def sent(key: ApiKey, version: int, fields: dict[str, Any]) -> Any:
    """What becomes of a request of alice's."""
    return Site().exchange(key, version).request(oracle.request_frame(oracle.request(key, version, **fields), 5))


def read(key: ApiKey, version: int, step: Any) -> Any:
    assert isinstance(step, Respond)
    correlation_id, found = oracle.read_response(key, version, step.frame)
    assert correlation_id == 5
    return found


DESCRIBING = {
    ApiKey.DESCRIBE_GROUPS: "groups", ApiKey.CONSUMER_GROUP_DESCRIBE: "group_ids",
    ApiKey.SHARE_GROUP_DESCRIBE: "group_ids", ApiKey.STREAMS_GROUP_DESCRIBE: "group_ids",
    ApiKey.DELETE_GROUPS: "groups_names",
}  # fmt: skip


@pytest.mark.parametrize(("key", "version"), pairs(*DESCRIBING))
def test_of_several_groups_the_denied_one_gets_an_error(key: ApiKey, version: int) -> None:
    exchange = Site().exchange(key, version)
    asked = {DESCRIBING[key]: ["open", "closed"]}
    forwarded = exchange.request(oracle.request_frame(oracle.request(key, version, **asked), 5))
    asked = {DESCRIBING[key]: ["open"]}
    assert forwarded == oracle.request_frame(oracle.request(key, version, **asked), 5)
    answered = exchange.response(oracle.response_frame(oracle.response(key, version), 5))
    assert isinstance(answered, bytes)
    (result,) = getattr(oracle.read_response(key, version, answered)[1], CHECKED_APIS[key].results)
    assert (result.group_id, result.error_code) == ("closed", GROUP_DENIED)


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.LIST_GROUPS))
def test_the_list_of_groups_has_those_that_may_be_described(key: ApiKey, version: int) -> None:
    exchange = Site().exchange(key, version)
    exchange.request(oracle.request_frame(oracle.request(key, version), 5))
    listed = [{"group_id": name} for name in ("open", "closed")]
    answered = exchange.response(oracle.response_frame(oracle.response(key, version, groups=listed), 5))
    assert isinstance(answered, bytes)
    assert [group.group_id for group in oracle.read_response(key, version, answered)[1].groups] == ["open"]


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.LIST_TRANSACTIONS))
def test_the_list_of_transactions_has_those_that_may_be_described(key: ApiKey, version: int) -> None:
    exchange = Site().exchange(key, version)
    exchange.request(oracle.request_frame(oracle.request(key, version), 5))
    listed = [{"transactional_id": name} for name in ("open", "closed")]
    answered = exchange.response(oracle.response_frame(oracle.response(key, version, transaction_states=listed), 5))
    assert isinstance(answered, bytes)
    states = oracle.read_response(key, version, answered)[1].transaction_states
    assert [state.transactional_id for state in states] == ["open"]


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.FIND_COORDINATOR))
@pytest.mark.parametrize(("key_type", "code"), [(0, GROUP_DENIED), (1, TRANSACTION_DENIED), (2, CLUSTER_DENIED)])
def test_the_coordinator_of_what_may_not_be_described_is_not_found(
    key: ApiKey, version: int, key_type: int, code: int
) -> None:
    if version < 1 and key_type:
        return  # the version knows groups alone
    response = read(
        key, version, sent(key, version, {"key": "closed", "key_type": key_type, "coordinator_keys": ["closed"]})
    )
    (found,) = response.coordinators if version >= 4 else (response,)
    assert (found.error_code, found.node_id, found.host, found.port) == (code, -1, "", -1)
    if key_type < 2:
        allowed = {"key": "open", "key_type": key_type, "coordinator_keys": ["open"]}
        assert isinstance(sent(key, version, allowed), bytes)


TRANSACTIONS = [ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN]


@pytest.mark.parametrize(("key", "version"), pairs(*TRANSACTIONS))
def test_a_denied_transactional_id_is_answered_here(key: ApiKey, version: int) -> None:
    fields = {"transactional_id": "closed", "group_id": "open"}
    assert read(key, version, sent(key, version, fields)).error_code == TRANSACTION_DENIED
    assert isinstance(sent(key, version, fields | {"transactional_id": "open"}), bytes)


@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.INIT_PRODUCER_ID))
def test_who_may_write_to_some_topic_may_do_so_with_an_idempotent_producer(key: ApiKey, version: int) -> None:
    assert isinstance(sent(key, version, {"transactional_id": None}), bytes)
    frame = oracle.request_frame(oracle.request(key, version, transactional_id=None), 5)
    denied = read(key, version, Site("User:bob").exchange(key, version).request(frame))
    assert (denied.error_code, denied.producer_id, denied.producer_epoch) == (CLUSTER_DENIED, -1, -1)


@pytest.mark.parametrize("operations", [["write"], ["write", "two_phase_commit"], ["all"]])
@pytest.mark.parametrize("enable2_pc", [True, False])
def test_a_transaction_without_a_time_limit_needs_a_right_of_its_own(operations: list[Any], enable2_pc: bool) -> None:
    rules = [AclRule(principals=["User:alice"], operations=operations, transactional_ids=["open"])]
    request = InitProducerIdRequest(transactional_id="open", transaction_timeout_ms=1, enable2_pc=enable2_pc)
    frame = encode_request(request, 6, 5, "app")
    step = Site(rules=rules).exchange(ApiKey.INIT_PRODUCER_ID, 6).request(frame)
    if operations != ["write"] or not enable2_pc:
        assert step is frame
    else:
        assert isinstance(step, Respond)
        assert decode_response(InitProducerIdResponse, step.frame, 6).message.error_code == TRANSACTION_DENIED


@pytest.mark.parametrize("version", range(4))
def test_a_denied_topic_keeps_the_others_out_of_the_transaction(version: int) -> None:
    topics = [{"name": name, "partitions": [3]} for name in ("open", "closed")]
    fields = {"v3_and_below_transactional_id": "open", "v3_and_below_topics": topics}
    response = read(ApiKey.ADD_PARTITIONS_TO_TXN, version, sent(ApiKey.ADD_PARTITIONS_TO_TXN, version, fields))
    found = {
        topic.name: int(topic.results_by_partition[0].partition_error_code)
        for topic in response.results_by_topic_v3_and_below
    }
    assert found == {"open": 55, "closed": TOPIC_DENIED}
    fields["v3_and_below_transactional_id"] = "closed"
    response = read(ApiKey.ADD_PARTITIONS_TO_TXN, version, sent(ApiKey.ADD_PARTITIONS_TO_TXN, version, fields))
    codes = {one.partition_error_code for t in response.results_by_topic_v3_and_below for one in t.results_by_partition}
    assert codes == {TRANSACTION_DENIED}


OF_THE_CLUSTER: dict[ApiKey, dict[str, Any]] = {
    ApiKey.CREATE_ACLS: {"creations": [{"resource_name": "a", "principal": "User:alice", "host": "*"}]},
    ApiKey.DELETE_ACLS: {"filters": [{}]},
    ApiKey.ALTER_REPLICA_LOG_DIRS: {"dirs": [{"path": "/d", "topics": [{"name": "t", "partitions": [1]}]}]},
    ApiKey.ELECT_LEADERS: {"topic_partitions": [{"topic": "t", "partitions": [1]}]},
    ApiKey.ALTER_CLIENT_QUOTAS: {"entries": [{"entity": [{"entity_type": "user", "entity_name": "alice"}]}]},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: {"deletions": [{"name": "bob", "mechanism": 1}]},
    ApiKey.WRITE_TXN_MARKERS: {"markers": [{"topics": [{"name": "t", "partition_indexes": [1]}]}]},
    ApiKey.DESCRIBE_ACLS: {}, ApiKey.DESCRIBE_QUORUM: {}, ApiKey.LIST_PARTITION_REASSIGNMENTS: {},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: {}, ApiKey.DESCRIBE_CLIENT_QUOTAS: {}, ApiKey.LIST_CONFIG_RESOURCES: {},
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {}, ApiKey.UPDATE_FEATURES: {}, ApiKey.UNREGISTER_BROKER: {},
    ApiKey.ADD_RAFT_VOTER: {}, ApiKey.REMOVE_RAFT_VOTER: {}, ApiKey.CREATE_DELEGATION_TOKEN: {},
    ApiKey.RENEW_DELEGATION_TOKEN: {}, ApiKey.EXPIRE_DELEGATION_TOKEN: {}, ApiKey.DESCRIBE_DELEGATION_TOKEN: {},
}  # fmt: skip


@pytest.mark.parametrize(("key", "version"), pairs(*OF_THE_CLUSTER))
def test_what_concerns_the_cluster_is_denied_as_a_whole(key: ApiKey, version: int) -> None:
    step = sent(key, version, OF_THE_CLUSTER[key])
    assert codes_in(read(key, version, step)) == {CLUSTER_DENIED}


def test_a_rule_for_the_cluster_lets_an_administrator_through() -> None:
    rule = AclRule(principals=["User:alice"], cluster=True, operations=["alter"])
    site = Site()
    site.rules = Authorization(
        Acls(rules_of([rule]), allowed_by_default=False), None, dict[bytes, str]().get, site.denials
    )
    for key in (ApiKey.CREATE_ACLS, ApiKey.WRITE_TXN_MARKERS, ApiKey.DESCRIBE_ACLS):  # alter allows describe
        version = APIS[key].max_version
        frame = oracle.request_frame(oracle.request(key, version), 5)
        assert site.exchange(key, version).request(frame) is frame


def test_configs_of_brokers_are_the_clusters_and_those_of_groups_the_groups() -> None:
    resources = [
        {"resource_type": kind, "resource_name": name} for kind, name in ((4, "0"), (32, "closed"), (2, "closed"))
    ]
    for key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DESCRIBE_CONFIGS):
        version = APIS[key].max_version
        response = read(key, version, sent(key, version, {"resources": resources}))
        codes = [int(one.error_code) for one in getattr(response, CHECKED_APIS[key].results)]
        assert codes == [CLUSTER_DENIED, GROUP_DENIED, TOPIC_DENIED]


def test_a_rule_for_some_apis_leaves_the_others_alone() -> None:
    deny = AclRule(permission="deny", topics=["*"], apis=["DeleteTopics"])
    acls = Acls(rules_of([deny, AclRule(topics=["*"])]), allowed_by_default=False)
    rules = Authorization(acls, None, dict[bytes, str]().get, Site().denials).rules
    need = on_topic(Operation.DELETE, "orders")
    assert rules.check(ApiKey.DELETE_TOPICS, need, "User:alice") is not None
    assert rules.check(ApiKey.DELETE_RECORDS, need, "User:alice") is None


def test_a_client_that_has_not_logged_in_has_no_rights_of_another() -> None:
    step = Site(None).exchange(ApiKey.LIST_OFFSETS, 7).request(request(ApiKey.LIST_OFFSETS, 7, "open"))
    assert isinstance(step, Respond)


def test_without_rules_only_the_protected_topic_is_denied() -> None:
    rules = Authorization(None, "kept", dict[bytes, str]().get, Site().denials)
    assert rules.fetch is None
    assert rules.stages().keys() == CHANGING - {ApiKey.PRODUCE}
    assert rules.rules.check(ApiKey.DELETE_TOPICS, on_topic(Operation.DELETE, "kept"), "User:alice") is not None
    assert rules.rules.check(ApiKey.DELETE_TOPICS, on_topic(Operation.DELETE, "other"), None) is None


@pytest.mark.parametrize("on_cluster", [True, False])
@pytest.mark.parametrize(("key", "version"), pairs(ApiKey.CREATE_TOPICS))
def test_who_creates_a_topic_is_shown_the_configs_that_it_may_describe(
    key: ApiKey, version: int, on_cluster: bool
) -> None:
    rules = [
        AclRule(principals=["User:alice"], operations=["create"], topics=["open", "closed"]),
        AclRule(principals=["User:alice"], operations=["alter_configs"], topics=["open"]),
        *([AclRule(principals=["User:alice"], operations=["create"], cluster=True)] if on_cluster else []),
    ]
    exchange = Site(rules=rules).exchange(key, version)
    frame = request(key, version, "open", "closed")
    assert exchange.request(frame) is frame
    has_configs = version >= first_version(CreatableTopicResult, "configs")
    more = {"num_partitions": 3, "replication_factor": 2, "configs": [{"name": "retention.ms", "value": "1"}]}
    topics = [{"name": name, **(more if has_configs else {})} for name in IDS]
    to_client = exchange.response(oracle.response_frame(oracle.response(key, version, topics=topics), 5))
    assert isinstance(to_client, bytes)
    found = {one.name: one for one in decode_response(CreateTopicsResponse, to_client, version).message.topics}
    assert found.keys() == {"open", "closed"}
    if has_configs:
        shown = {
            name: (one.num_partitions, one.replication_factor, len(one.configs or ())) for name, one in found.items()
        }
        assert shown == {"open": (3, 2, 1), "closed": (-1, -1, 0)}
        assert found["closed"].topic_config_error_code == TOPIC_DENIED
