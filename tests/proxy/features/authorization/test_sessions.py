"""Fetch and share sessions are gone on with by who has begun them, under the rules of now. Read and written by kio."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from support import oracle
from support.authorization import IDS, TOPIC_DENIED, Site, ids_in
from support.client import FakeClient
from support.dialogue import Dialogue
from support.driven import Driven
from support.features import load, started, with_sessions
from support.oracle import response_frame
from support.produce_requests import batch

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import encode_request
from kafka_sidecar.codec.glance import glance_fetch
from kafka_sidecar.codec.message import encode, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchPartition
from kafka_sidecar.codec.messages.share_fetch import ShareFetchRequest
from kafka_sidecar.proxy.exchanges.fetch import PARTITION_BYTES
from kafka_sidecar.proxy.exchanges.messages import UNKNOWN
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.relay.exchange import Respond, TopicNames

FIRST_WITH_IDS = 13
SESSION_NOT_FOUND, SHARE_SESSION_NOT_FOUND, UNKNOWN_TOPIC_ID = 70, 122, 100
ALICE: dict[str, Any] = {"principals": ["User:alice"], "topics": ["open"], "groups": ["open"]}
RULES = {"default": "deny", "rules": [ALICE]}
REVOKED = {"default": "deny", "rules": [{**ALICE, "topics": ["other"]}]}
IDS_OF: dict[str, bytes] = {**IDS, "other": b"t" * 16, "who": b"w" * 16}


def topics(version: int, names: Iterable[str], partitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_id = version >= FIRST_WITH_IDS
    key: Callable[[str], dict[str, Any]] = (
        (lambda name: {"topic_id": uuid.UUID(bytes=IDS_OF[name])}) if by_id else (lambda name: {"topic": name})
    )
    return [{**key(name), "partitions": partitions} for name in names]


def fetch(version: int, number: int, session: int, epoch: int, *names: str, replica: int = -1) -> bytes:
    entity = oracle.request(
        ApiKey.FETCH, version, session_id=session, session_epoch=epoch, max_bytes=1 << 20,
        topics=topics(version, names, [{"partition": 0}]), replica_id=replica,
        replica_state={"replica_id": replica, "replica_epoch": -1},
    )  # fmt: skip
    return oracle.request_frame(entity, number)


def fetched(version: int, number: int, session: int, *names: str, error: int = 0) -> bytes:
    records = [{"partition_index": 0, "records": batch("secret")}]
    entity = oracle.response(
        ApiKey.FETCH, version, session_id=session, error_code=error, responses=topics(version, names, records)
    )
    return response_frame(entity, number)


class Talk(Dialogue):
    """A connection of a client; the broker answers its Fetch requests, and what the client gets is read."""

    def __init__(self, features: Features, version: int, principal: str | None = "User:alice") -> None:
        super().__init__(exchange=features.exchange)
        self.version = version
        self.number = 0
        self.session.principal = principal

    def fetch(self, session: int, epoch: int, *names: str, begins: int = 0, replica: int = -1) -> tuple[bool, Any]:
        """Whether the request has reached the broker as it was, and the response."""
        self.to_broker = self.to_client = b""
        self.number += 1
        asked = fetch(self.version, self.number, session, epoch, *names, replica=replica)
        self.client(asked)
        while self.needs:
            self.meet()
        is_same, reached = self.to_broker == asked, self.to_broker
        if reached:
            self.broker(
                fetched(self.version, self.number, begins or (session if epoch > 0 else 0), *(names or ("open",)))
            )
            while self.needs:
                self.meet()
        return is_same, oracle.read_response(ApiKey.FETCH, self.version, self.to_client)[1]


def named(features: Features) -> Features:
    features.site.topics.remember((topic_id, name) for name, topic_id in IDS_OF.items() if name != "who")
    return features


def with_rules(rules: Any = RULES) -> Features:
    return named(started({"type": "latency", "topics": ["none"]}, authorization=rules))


@with_sessions
def test_a_session_is_gone_on_with_by_who_has_begun_it(version: int) -> None:
    talk = Talk(with_rules(), version)
    assert talk.fetch(0, 0, "open", begins=9)[0]
    for epoch in (1, 2, 3):
        is_same, response = talk.fetch(9, epoch)
        assert is_same
        assert response.responses[0].partitions[0].records
    assert talk.fetch(9, 4, "open")[0]


def refused(answer: tuple[bool, Any]) -> bool:
    """Whether the client has to begin another session, and the broker has not seen its request."""
    is_same, response = answer
    return not is_same and int(response.error_code) == SESSION_NOT_FOUND and not response.responses


@with_sessions
def test_a_session_of_another_connection_is_not_found_whoever_asks(version: int) -> None:
    features = with_rules()
    Talk(features, version).fetch(0, 0, "open", begins=9)
    for principal in ("User:alice", "User:mallory", None, UNKNOWN):
        talk = Talk(features, version, principal)
        assert refused(talk.fetch(9, 1))
        assert not talk.to_broker
        talk.fetch(0, 0, "open", begins=10)
        assert refused(talk.fetch(9, 2))
        assert refused(talk.fetch(9, 2, "open"))
    assert refused(Talk(features, version).fetch(0, 1))


@with_sessions
def test_a_session_ends_with_a_reload_and_its_topics_are_checked_again(version: int) -> None:
    features = with_rules()
    talk = Talk(features, version)
    talk.fetch(0, 0, "open", begins=9)
    assert talk.fetch(9, 1)[0]
    load(features, {"type": "latency", "topics": ["none"]}, authorization=REVOKED)
    talk.routes.forget()
    assert refused(talk.fetch(9, 2))
    _, response = talk.fetch(0, 0, "open")
    assert int(response.responses[0].partitions[0].error_code) == TOPIC_DENIED
    load(features, {"type": "latency", "topics": ["none"]}, authorization=RULES)
    talk.routes.forget()
    assert refused(talk.fetch(9, 3))
    assert talk.fetch(0, 0, "open", begins=10)[0]
    assert talk.fetch(10, 1)[0]


@with_sessions
def test_a_session_ends_with_another_login(version: int) -> None:
    talk = Talk(with_rules(), version)
    talk.fetch(0, 0, "open", begins=9)
    assert talk.fetch(9, 1)[0]
    talk.session.principal = "User:bob"
    assert refused(talk.fetch(9, 2))


@with_sessions
def test_a_session_that_was_begun_before_there_were_rules_is_begun_again(version: int) -> None:
    features = named(started({"type": "latency", "topics": ["none"]}))
    talk = Talk(features, version)
    talk.fetch(0, 0, "open", begins=9)
    load(features, {"type": "latency", "topics": ["none"]}, authorization=RULES)
    talk.routes.forget()
    assert refused(talk.fetch(9, 1))


@with_sessions
def test_a_client_with_a_denied_topic_keeps_no_session_and_has_its_error_each_time(version: int) -> None:
    talk = Talk(with_rules(), version)
    for _ in range(2):
        talk.to_broker = b""
        talk.number += 1
        talk.client(fetch(version, talk.number, 0, 0, "open", "closed"))
        assert talk.to_broker == fetch(version, talk.number, 0, -1, "open")
        talk.to_client = b""
        talk.broker(fetched(version, talk.number, 0, "open"))
        _, response = oracle.read_response(ApiKey.FETCH, version, talk.to_client)
        assert response.session_id == 0
        assert [int(one.partitions[0].error_code) for one in response.responses] == [0, TOPIC_DENIED]


@with_sessions
def test_a_denied_topic_is_not_added_to_a_session(version: int) -> None:
    talk = Talk(with_rules(), version)
    talk.fetch(0, 0, "open", begins=9)
    assert refused(talk.fetch(9, 1, "closed"))
    assert refused(talk.fetch(9, 1, "open", "closed"))


@with_sessions
def test_where_the_broker_begins_no_session_requests_are_not_looked_into_for_one(version: int) -> None:
    """A busy broker keeps a thousand: the others ask for one with each request."""
    talk = Talk(with_rules(), version)
    assert talk.fetch(0, 0, "open")[0]
    responded = talk.metrics.api(ApiKey.FETCH, "Fetch").buffered_us
    talk.fetch(0, 0, "open", begins=9)  # not seen
    assert talk.metrics.api(ApiKey.FETCH, "Fetch").buffered_us == responded
    assert refused(talk.fetch(9, 1))
    talk.fetch(0, 0, "open", begins=10)
    assert talk.fetch(10, 1)[0]


@with_sessions
def test_a_session_is_not_known_where_the_broker_has_answered_with_an_error(version: int) -> None:
    talk = Talk(with_rules(), version)
    talk.number += 1
    talk.client(fetch(version, talk.number, 0, 0, "open")).broker(fetched(version, talk.number, 9, error=71))
    assert refused(talk.fetch(9, 1))


@with_sessions
def test_a_request_in_pieces_is_checked_as_a_whole_one(version: int) -> None:
    talk = Talk(with_rules(), version)
    frame = fetch(version, 1, 9, 1)
    talk.client(frame[:20], frame[20:])
    assert talk.to_broker == b""
    _, response = oracle.read_response(ApiKey.FETCH, version, talk.to_client)
    assert int(response.error_code) == SESSION_NOT_FOUND


@pytest.mark.parametrize("version", range(FIRST_WITH_IDS, 19))
def test_a_topic_whose_id_is_not_known_is_none_that_may_be_read(version: int) -> None:
    talk = Talk(with_rules({"rules": [{"topics": ["*"]}]}), version)
    asked = fetch(version, 1, 0, -1, "who")
    talk.client(asked)
    assert talk.to_broker == b""
    assert talk.needs == [TopicNames((IDS_OF["who"],))]
    talk.meet()
    _, response = oracle.read_response(ApiKey.FETCH, version, talk.to_client)
    assert int(response.responses[0].partitions[0].error_code) == UNKNOWN_TOPIC_ID


# What a broker takes for a follower's.
EACH_FETCH = pytest.mark.parametrize("version", range(4, 19))
FOLLOWER = {"principals": ["User:follower"], "cluster": True, "operations": ["cluster_action"]}
WITH_FOLLOWER = {"default": "deny", "rules": [ALICE, {**ALICE, "principals": ["User:follower"]}, FOLLOWER]}


def errors(answer: tuple[bool, Any]) -> tuple[bool, list[int]]:
    """Whether the broker has seen the request as it was, and the errors of its partitions."""
    is_same, response = answer
    return is_same, [int(part.error_code) for topic in response.responses for part in topic.partitions]


@EACH_FETCH
@pytest.mark.parametrize("replica", [0, 1, 2**31 - 1])
def test_a_replica_needs_cluster_action_and_no_right_to_read(version: int, replica: int) -> None:
    features = with_rules(WITH_FOLLOWER)
    alice, follower = Talk(features, version), Talk(features, version, "User:follower")
    for _ in range(2):
        assert errors(alice.fetch(0, -1, "open")) == (True, [0])  # the same beginning, which is remembered
        assert errors(alice.fetch(0, -1, "open", replica=replica)) == (False, [TOPIC_DENIED])
        assert errors(alice.fetch(0, -1, "open", "closed", replica=replica)) == (False, [TOPIC_DENIED] * 2)
        assert errors(follower.fetch(0, -1, "closed", replica=replica)) == (True, [0])
        assert errors(follower.fetch(0, -1, "closed")) == (False, [TOPIC_DENIED])
    denials = features.made["authorization"].denials
    assert denials is not None
    (denial,) = {one.message for one in denials.newest() if one.principal == "User:alice"}
    assert denial == "User:alice is not authorized to cluster_action kafka-cluster (Fetch)"


WITH_TAGGED_REPLICAS = pytest.mark.parametrize("version", range(15, 19))


def of_rack(version: int, number: int, rack: str, replica: int = -1, at: int = 0, partitions: int = 1) -> bytes:
    entity = oracle.request(
        ApiKey.FETCH, version, session_id=0, session_epoch=-1, rack_id=rack, replica_id=replica,
        replica_state={"replica_id": replica, "replica_epoch": -1},
        topics=topics(version, ["open"], [{"partition": one, "fetch_offset": at} for one in range(partitions)]),
    )  # fmt: skip
    return oracle.request_frame(entity, number)


def passed(talk: Talk, asked: bytes) -> bool:
    """Whether a request of a consumer, who is no follower, reaches the broker as it was."""
    talk.to_broker = b""
    talk.client(asked)
    while talk.needs:
        talk.meet()
    return talk.to_broker == asked


@WITH_TAGGED_REPLICAS
@pytest.mark.parametrize("partitions", [1, 3])
def test_requests_from_other_offsets_are_not_looked_into_again(
    version: int, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk, glances = Talk(with_rules(), version), 0

    def counted(*arguments: Any) -> Any:
        nonlocal glances
        glances += 1
        return glance_fetch(*arguments)

    monkeypatch.setattr("kafka_sidecar.proxy.exchanges.fetch.glance_fetch", counted)
    assert all(passed(talk, of_rack(version, at, "a", at=at, partitions=partitions)) for at in range(1, 5))
    assert glances == 1
    assert passed(talk, of_rack(version, 5, "other", partitions=partitions))
    assert glances == 2


@WITH_TAGGED_REPLICAS
def test_a_replica_is_recognised_by_its_tag_however_long_a_consumers_request_was(version: int) -> None:
    talk, replicas = Talk(with_rules(), version), of_rack(version, 2, "a", replica=1)
    consumers = of_rack(version, 1, "a" * (1 + len(replicas) - len(of_rack(version, 1, "a"))))
    assert len(consumers) == len(replicas)
    assert passed(talk, consumers)
    assert not passed(talk, replicas)


@WITH_TAGGED_REPLICAS
def test_a_replica_is_recognised_where_one_byte_makes_its_tag_of_a_consumers_rack(version: int) -> None:
    """With a tagged field of the partition, the rack's bytes are the end of the topic, no rack, and a replica's tag."""
    talk, replica = Talk(with_rules(), version), b"\x01\x01\x0d" + bytes([0, 0, 0, 1]) + bytes(8)
    consumers = of_rack(version, 1, (b"\x00\x01\x01" + replica).decode())
    at = consumers.index(IDS_OF["open"]) + 16 + 1 + PARTITION_BYTES - 1
    assert consumers[at] == 0
    assert passed(talk, consumers)
    assert not passed(talk, consumers[:at] + b"\x01" + consumers[at + 1 :])


@WITH_TAGGED_REPLICAS
def test_a_partition_without_tagged_fields_has_the_same_size_in_each_version(version: int) -> None:
    assert len(encode(FetchPartition(), version)) == PARTITION_BYTES


@with_sessions
def test_a_session_of_a_consumer_is_no_replicas(version: int) -> None:
    talk = Talk(with_rules(WITH_FOLLOWER), version)
    talk.fetch(0, 0, "open", begins=9)
    assert talk.fetch(9, 1)[0]
    assert talk.fetch(9, 2)[0]
    assert refused(talk.fetch(9, 3, replica=1))


@with_sessions
def test_a_session_of_a_replica_is_no_consumers(version: int) -> None:
    talk = Talk(with_rules(WITH_FOLLOWER), version, "User:follower")
    for then in (-1, 1):
        assert talk.fetch(0, 0, "closed", begins=9, replica=1)[0]
        assert talk.fetch(9, 1, replica=1)[0]
        assert refused(talk.fetch(9, 2, replica=then)) is (then < 0)


# Share sessions

EACH_SHARE_FETCH = pytest.mark.parametrize("version", [1, 2])
BATCH = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}


def share_fetch(version: int, epoch: int, *names: str, member: str = "m") -> bytes:
    asked = [{"topic_id": uuid.UUID(bytes=IDS_OF[name]), "partitions": [{"partition_index": 3}]} for name in names]
    entity = oracle.request(
        ApiKey.SHARE_FETCH, version, group_id="open", member_id=member, share_session_epoch=epoch, topics=asked
    )
    return oracle.request_frame(entity, 5)


def acknowledge(version: int, epoch: int, *names: str, member: str = "m") -> bytes:
    asked = [
        {
            "topic_id": uuid.UUID(bytes=IDS_OF[name]),
            "partitions": [{"partition_index": 3, "acknowledgement_batches": [BATCH]}],
        }
        for name in names
    ]
    entity = oracle.request(
        ApiKey.SHARE_ACKNOWLEDGE, version, group_id="open", member_id=member, share_session_epoch=epoch, topics=asked
    )
    return oracle.request_frame(entity, 5)


def acquired(version: int, *ids: bytes, error: int = 0) -> bytes:
    partition = {
        "partition_index": 3, "records": batch("secret"),
        "acquired_records": [{"first_offset": 0, "last_offset": 0, "delivery_count": 1}],
    }  # fmt: skip
    entity = oracle.response(
        ApiKey.SHARE_FETCH, version, error_code=error,
        responses=[{"topic_id": uuid.UUID(bytes=one), "partitions": [partition]} for one in ids],
    )  # fmt: skip
    return oracle.response_frame(entity, 5)


def begun(site: Site, version: int, *names: str, member: str = "m") -> Driven:
    exchange, frame = site.exchange(ApiKey.SHARE_FETCH, version), share_fetch(version, 0, *names, member=member)
    assert exchange.request(frame) is frame
    response = acquired(version, *(IDS_OF[name] for name in names))
    assert exchange.response(response) is response
    return exchange


def not_found(site: Site, key: ApiKey, version: int, frame: bytes) -> bool:
    step = site.exchange(key, version).request(frame)
    if not isinstance(step, Respond):
        assert step is frame
        return False
    return int(oracle.read_response(key, version, step.frame)[1].error_code) == SHARE_SESSION_NOT_FOUND


@EACH_SHARE_FETCH
def test_a_share_session_is_gone_on_with_by_who_has_begun_it(version: int) -> None:
    site = Site()
    begun(site, version, "open")
    assert not not_found(site, ApiKey.SHARE_FETCH, version, share_fetch(version, 1))
    assert not not_found(site, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledge(version, 2, "open"))
    assert not not_found(site, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledge(version, -1, "open"))
    assert not_found(site, ApiKey.SHARE_FETCH, version, share_fetch(version, 1, member="other"))


@EACH_SHARE_FETCH
def test_a_share_session_of_another_connection_is_not_found_whatever_is_done_with_it(version: int) -> None:
    """Group and member are no secret."""
    alice = Site()
    begun(alice, version, "open")
    alice.client = FakeClient(principal="User:alice")
    for epoch in (1, -1):
        assert not_found(alice, ApiKey.SHARE_FETCH, version, share_fetch(version, epoch))
        assert not_found(alice, ApiKey.SHARE_FETCH, version, share_fetch(version, epoch, "open"))
        assert not_found(alice, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledge(version, epoch, "open"))


@EACH_SHARE_FETCH
def test_a_share_session_ends_with_a_reload_but_may_be_ended(version: int) -> None:
    site = Site()
    begun(site, version, "open")
    after = Site()
    after.client = site.client
    assert not_found(after, ApiKey.SHARE_FETCH, version, share_fetch(version, 1))
    assert not_found(after, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledge(version, 1, "open"))
    assert not not_found(after, ApiKey.SHARE_ACKNOWLEDGE, version, acknowledge(version, -1, "open"))


@EACH_SHARE_FETCH
def test_a_share_session_that_the_broker_has_not_begun_is_not_known(version: int) -> None:
    site = Site()
    exchange = site.exchange(ApiKey.SHARE_FETCH, version)
    exchange.request(share_fetch(version, 0, "open"))
    exchange.response(acquired(version, error=133))
    assert not_found(site, ApiKey.SHARE_FETCH, version, share_fetch(version, 1))


@EACH_SHARE_FETCH
def test_records_of_topics_that_others_have_added_to_a_share_session_are_not_shown(version: int) -> None:
    site = Site()
    begun(site, version, "open")
    exchange = site.exchange(ApiKey.SHARE_FETCH, version)
    exchange.request(share_fetch(version, 1))
    who = b"w" * 16
    assert exchange.response(acquired(version, IDS["open"], IDS["closed"], who)) == TopicNames((who,))
    response = exchange.answer()
    assert isinstance(response, bytes)
    opened, closed, unknown = (
        one.partitions[0] for one in oracle.read_response(ApiKey.SHARE_FETCH, version, response)[1].responses
    )
    assert opened.records
    assert opened.acquired_records
    (denial,) = site.denials.newest()
    assert (denial.api, denial.resource, {denial.id}) == ("ShareFetch", "closed", ids_in(closed))
    for hidden, code in ((closed, TOPIC_DENIED), (unknown, UNKNOWN_TOPIC_ID)):
        assert int(hidden.error_code) == code
        assert not hidden.records
        assert not hidden.acquired_records


@EACH_SHARE_FETCH
def test_a_member_whose_id_is_no_text_has_a_session_as_any_other(version: int) -> None:
    site = Site()
    asked = ShareFetchRequest(group_id="open", member_id="\udcff\udc80", share_session_epoch=0)
    exchange = site.exchange(ApiKey.SHARE_FETCH, version)
    assert isinstance(exchange.request(encode_request(asked, version, 5, "app")), bytes)
    exchange.response(acquired(version))
    going_on = replace_fields(asked, share_session_epoch=1)
    assert not not_found(site, ApiKey.SHARE_FETCH, version, encode_request(going_on, version, 5, "app"))
    other = replace_fields(going_on, member_id="\udcfe\udc80")
    assert not_found(site, ApiKey.SHARE_FETCH, version, encode_request(other, version, 5, "app"))


@EACH_SHARE_FETCH
def test_a_connection_is_remembered_for_a_few_members(version: int) -> None:
    site = Site()
    for number in range(5):
        begun(site, version, "open", member=f"m{number}")
    known = [
        not not_found(site, ApiKey.SHARE_FETCH, version, share_fetch(version, 1, member=f"m{at}")) for at in range(5)
    ]
    assert known == [False, True, True, True, True]
