"""What was opened once is checked at every use: by rules at a sidecar as by the same ACLs at a broker."""

from __future__ import annotations

import signal
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from harness import json_lines, sasl
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.raw import Raw
from integration.scenarios.target import LIMIT_S, create_topic, eventually

from kafka_sidecar.codec.message import replace_fields
from kafka_sidecar.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_sidecar.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from kafka_sidecar.codec.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from kafka_sidecar.codec.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_sidecar.codec.messages.share_fetch import FetchPartition as SharePartition
from kafka_sidecar.codec.messages.share_fetch import FetchTopic as ShareTopic
from kafka_sidecar.codec.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_sidecar.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_sidecar.codec.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TopicInfo,
    Topology,
)
from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

pytestmark = pytest.mark.integration

ALICE, MALLORY, FOLLOWER, PASSWORD = "alice", "mallory", "follower", "pw-of-all"
USERS = (ALICE, MALLORY, FOLLOWER)
DENIED, SESSION_NOT_FOUND, SHARE_SESSION_NOT_FOUND = 29, 70, 122
FIRST_WITH_IDS, REPLICAS_LAST = 13, 15
NO_COORDINATOR = (14, 15, 16)
SITES = ("broker", "sidecar")
TOPICS = {"rx-open": 2, "rx-secret": 4, "st-in": 1, "t-open": 1, "t-secret": 1, "u-secret": 1, "v-open": 3}
OPEN = ("rx-open", "t-open", "v-open")  # of mallory
# Principal, kind, name, operation; a name with * is a prefix.
ALLOWED = [
    *((ALICE, "topics", name, "read") for name in ("t-open", "t-secret")),
    (ALICE, "groups", "s-*", "read"),
    *((MALLORY, "topics", name, "read") for name in OPEN),
    (MALLORY, "groups", "s-*", "read"),
    (MALLORY, "topics", "st-*", "describe"),
    (MALLORY, "groups", "rx-*", "read"),
    (FOLLOWER, "cluster", "kafka-cluster", "cluster_action"),
]
Allowed = list[tuple[str, str, str, str]]


def rules(allowed: Allowed) -> str:
    lines = [
        f"    - {{principals: ['User:{who}'], {kind}: {'true' if kind == 'cluster' else [name]}, "
        f"operations: [{operation}]}}\n"
        for who, kind, name, operation in allowed
    ]
    return "authorization:\n  default: deny\n  rules:\n" + "".join(lines)


def acl(who: str, kind: str, name: str, operation: str) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if name.endswith("*") else ResourcePatternType.LITERAL
    of = {"topics": ResourceType.TOPIC, "groups": ResourceType.GROUP, "cluster": ResourceType.BROKER}[kind]
    allow = AclPermissionType.ALLOW
    return AclBinding(of, name.rstrip("*"), pattern, f"User:{who}", "*", AclOperation[operation.upper()], allow)


@dataclass
class Site:
    """A broker with ACLs and a sidecar with the same rules, which can be changed."""

    cluster: Cluster
    sidecar: Sidecar
    settings: Path
    head: str
    allowed: Allowed = field(default_factory=lambda: list(ALLOWED))

    def connect(self, at: str, user: str) -> Raw:
        return Raw(self.cluster.bootstrap if at == "broker" else self.sidecar.bootstrap).log_in(user, PASSWORD)

    def revoke(self, *one: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.direct})
        binding = acl(*one)
        wanted = AclBindingFilter(
            binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
            binding.operation, binding.permission_type,
        )  # fmt: skip
        admin.delete_acls([wanted])[wanted].result(LIMIT_S)
        self.allowed.remove(one)  # type: ignore[arg-type]
        self.settings.write_text(self.head + rules(self.allowed))
        before = self.applied()
        self.sidecar.program.send_signal(signal.SIGHUP)
        eventually(self.applied, lambda found: found > before, "the rules are in force")
        time.sleep(0.5)  # the broker's authorizer reads its log, too

    def applied(self) -> int:
        return len(json_lines.read(self.sidecar.log, "configuration applied"))

    def produce(self, topic: str) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.direct})
        producer.produce(topic, b"secret", partition=0)
        assert producer.flush(LIMIT_S) == 0

    def topics(self) -> set[str]:
        return set(AdminClient({"bootstrap.servers": self.cluster.direct}).list_topics(timeout=LIMIT_S).topics)


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    work = tmp_path_factory.mktemp("sessions")
    (work / "password").write_text(sasl.PASSWORD)
    verifier = create_verifier("SCRAM-SHA-256", PASSWORD)
    (work / "users").write_text("\n".join(format_user(who, "SCRAM-SHA-256", verifier) for who in USERS))
    login = f"mechanism: SCRAM-SHA-256, username: {sasl.USER}, password_file: {work / 'password'}"
    head = (
        f"brokers: {{security_protocol: SASL_PLAINTEXT, sasl: {{{login}}}}}\n"
        f"clients: {{sasl: {{mechanisms: [SCRAM-SHA-256], users_file: {work / 'users'}}}}}\n"
    )
    settings = work / "sidecar.yaml"
    settings.write_text(head + rules(ALLOWED))
    authorizer = {"super.users": f"User:ANONYMOUS;User:{sasl.USER}", "allow.everyone.if.no.acl.found": "false"}
    with Cluster.start(NEWEST, 1, {**sasl.sasl_properties(), **authorizer}) as cluster:
        for user, password in ((sasl.USER, sasl.PASSWORD), *((user, PASSWORD) for user in USERS)):
            sasl.add_scram_user(cluster.direct, user, password)
        for name, partitions in TOPICS.items():
            create_topic(cluster.direct, name, partitions)
        admin = AdminClient({"bootstrap.servers": cluster.direct})
        for future in admin.create_acls([acl(*one) for one in ALLOWED]).values():
            future.result(LIMIT_S)
        with Raw(cluster.direct) as raw:
            eventually(lambda: coordinates(raw), bool, "a coordinator of groups")
        with Sidecar.start(cluster.bootstrap, work / "sidecar.log", ["--config", str(settings)]) as sidecar:
            yield Site(cluster, sidecar, settings, head)


def coordinates(at: Raw) -> bool:
    """Whether the broker coordinates groups, for which it creates a topic first."""
    found = at.ask(FindCoordinatorRequest(coordinator_keys=("s-any",)), 4, FindCoordinatorResponse)
    joins = ShareGroupHeartbeatRequest(group_id="s-any", member_id="m", member_epoch=-1)
    answer = at.ask(joins, 1, ShareGroupHeartbeatResponse)
    return not found.coordinators[0].error_code and answer.error_code not in NO_COORDINATOR


def fetch(at: Raw, session: int, epoch: int, *names: str) -> FetchResponse:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = tuple(FetchTopic(topic=name, partitions=(partition,)) for name in names)
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_id=session, session_epoch=epoch, topics=topics
    )
    return at.ask(request, 12, FetchResponse)


def fetched(response: FetchResponse) -> tuple[int, bool]:
    """The error, and whether there are records."""
    parts = [one for topic in response.responses for one in topic.partitions]
    return response.error_code or max((one.error_code for one in parts), default=0), any(one.records for one in parts)


def test_who_has_no_right_to_a_topic_reads_nothing_of_another_ones_fetch_session(site: Site) -> None:
    site.produce("t-secret")
    found = {}
    for at in SITES:
        with site.connect(at, ALICE) as alice, site.connect(at, MALLORY) as mallory:
            begun = fetch(alice, 0, 0, "t-secret")
            assert fetched(begun) == (0, True)
            assert begun.session_id
            found[at] = fetched(fetch(mallory, begun.session_id, 1))
            # The session is alice's, as it was; at a broker another client may have gone on with it.
            assert fetched(fetch(alice, begun.session_id, 1 if at == "sidecar" else 2))[0] == 0
    assert found == {"broker": (DENIED, False), "sidecar": (SESSION_NOT_FOUND, False)}


def test_a_session_on_another_connection_of_the_same_user_is_begun_again(site: Site) -> None:
    site.produce("t-open")
    with site.connect("sidecar", ALICE) as one, site.connect("sidecar", ALICE) as other:
        begun = fetch(one, 0, 0, "t-open")
        assert fetched(fetch(other, begun.session_id, 1)) == (SESSION_NOT_FOUND, False)
        assert fetched(fetch(other, 0, 0, "t-open")) == (0, True)


def fetch_as_replica(at: Raw, version: int, replica: int, name: str, of: bytes) -> tuple[int, bool]:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="" if version >= FIRST_WITH_IDS else name, topic_id=of, partitions=(partition,))
    request = FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=(topic,))
    of_replica: dict[str, object] = {"replica_id": replica} if version < REPLICAS_LAST else {
        "replica_state": ReplicaState(replica_id=replica)
    }  # fmt: skip
    return fetched(at.ask(replace_fields(request, **of_replica), version, FetchResponse))


@pytest.mark.parametrize("version", [4, 12, 13, 14, 15, 17])
def test_who_says_to_be_a_replica_needs_the_right_of_one(site: Site, version: int) -> None:
    site.produce("t-secret")
    with Raw(site.cluster.direct) as raw:
        of = topic_id(raw, "t-secret")
    found: dict[str, list[tuple[int, bool]]] = {}
    for at in SITES:
        with site.connect(at, ALICE) as alice, site.connect(at, FOLLOWER) as follower:
            found[at] = [
                fetch_as_replica(who, version, replica, "t-secret", of)
                for who in (alice, follower)
                for replica in (-1, 1, -1)
            ]
    assert found["sidecar"] == found["broker"]
    reads, refused, again = found["broker"][:3]
    assert (reads, refused, again) == ((0, True), (DENIED, False), (0, True))
    refused, as_replica, again = found["broker"][3:]
    assert refused == again == (DENIED, False)
    assert as_replica[0] != DENIED


@dataclass
class Shared:
    """A member of a share group, which reads."""

    at: Raw
    member: str
    group: str
    topic_id: bytes

    def join(self, topic: str) -> None:
        epoch = 0

        def assigned() -> bool:
            nonlocal epoch
            names = (topic,) if epoch == 0 else None
            request = ShareGroupHeartbeatRequest(
                group_id=self.group, member_id=self.member, member_epoch=epoch, subscribed_topic_names=names
            )
            response = self.at.ask(request, 1, ShareGroupHeartbeatResponse)
            assert not response.error_code, response.error_message
            epoch = response.member_epoch
            return response.assignment is not None and bool(response.assignment.topic_partitions)

        eventually(assigned, bool, "a share partition")

    def fetch(self, at: Raw, epoch: int, *names: bytes) -> tuple[int, bool]:
        partition = (SharePartition(partition_index=0, acknowledgement_batches=()),)
        request = ShareFetchRequest(
            group_id=self.group, member_id=self.member, share_session_epoch=epoch, max_wait_ms=500, min_bytes=1,
            max_bytes=1 << 20, max_records=1, batch_size=1,
            topics=tuple(ShareTopic(topic_id=one, partitions=partition) for one in names), forgotten_topics_data=(),
        )  # fmt: skip
        response = at.ask(request, 1, ShareFetchResponse)
        parts = [one for topic in response.responses for one in topic.partitions]
        error = response.error_code or max((one.error_code for one in parts), default=0)
        return error, any(one.records for one in parts)


def topic_id(at: Raw, name: str) -> bytes:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    return at.ask(request, 12, MetadataResponse).topics[0].topic_id


def test_who_has_no_right_to_a_topic_reads_nothing_of_another_ones_share_session(site: Site) -> None:
    found = {}
    for at in SITES:
        with site.connect(at, ALICE) as alice, site.connect(at, MALLORY) as mallory:
            member = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            shared = Shared(alice, member, f"s-{at}", topic_id(alice, "t-secret"))
            shared.join("t-secret")
            epoch = 0

            def read(shared: Shared = shared) -> tuple[int, bool]:
                nonlocal epoch
                site.produce("t-secret")
                answer = shared.fetch(shared.at, epoch, *([shared.topic_id] if not epoch else []))
                epoch += 1
                return answer

            eventually(read, lambda answer: answer == (0, True), "alice reads")
            site.produce("t-secret")
            found[at] = shared.fetch(mallory, epoch)
    assert found == {"broker": (DENIED, False), "sidecar": (SHARE_SESSION_NOT_FOUND, False)}


def pages(at: Raw, limit: int) -> list[tuple[list[tuple[str | None, int]], str | None]]:
    """What a client that asks on gets: topics with partitions, and the topic of the cursor."""
    found, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(topics=(), response_partition_limit=limit, cursor=cursor)
        response = at.ask(request, 0, DescribeTopicPartitionsResponse)
        cursor = response.next_cursor
        topics = [(one.name, len(one.partitions)) for one in response.topics]
        found.append((topics, cursor.topic_name if cursor is not None else None))
        if cursor is None:
            return found
        cursor = Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index)


@pytest.mark.parametrize("limit", [1, 2, 3, 2000])
def test_no_cursor_names_a_topic_that_may_not_be_described(site: Site, limit: int) -> None:
    found = {}
    for at in SITES:
        with site.connect(at, MALLORY) as mallory:
            found[at] = pages(mallory, limit)
    assert found["sidecar"] == found["broker"]
    assert {name for topics, _ in found["sidecar"] for name, _ in topics} >= set(OPEN)


def heartbeats(at: Raw, group: str, pattern: str) -> tuple[int, dict[bytes, int]]:
    """The error of a member that subscribes by a pattern, or the partitions that it is assigned in a few seconds."""
    member, epoch, assigned = str(uuid.uuid4()), 0, dict[bytes, int]()
    for _ in range(20):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, rebalance_timeout_ms=5000,
            subscribed_topic_names=() if not epoch else None, subscribed_topic_regex=pattern if not epoch else None,
            topic_partitions=() if not epoch else None,
        )  # fmt: skip
        response = at.ask(request, 1, ConsumerGroupHeartbeatResponse)
        if response.error_code:
            return response.error_code, {}
        epoch = response.member_epoch
        if response.assignment is not None:
            assigned |= {one.topic_id: len(one.partitions) for one in response.assignment.topic_partitions}
        time.sleep(0.2)
    return 0, assigned


def test_a_member_that_subscribes_by_a_pattern_is_assigned_no_topic_that_it_may_not_describe(site: Site) -> None:
    found = {}
    for at in SITES:
        with site.connect(at, MALLORY) as mallory:
            allowed = topic_id(mallory, "rx-open")
            found[at] = [
                heartbeats(mallory, f"rx-{at}-{number}", one) for number, one in enumerate(("rx-.*", "rx-o.*"))
            ]
    # A broker chooses among the topics; the sidecar cannot, and refuses what may match others.
    assert found["broker"] == [(0, {allowed: 2}), (0, {allowed: 2})]
    assert found["sidecar"] == [(DENIED, {}), (DENIED, {})]


def joined(at: Raw, group: str, prefix: str) -> int:
    """The error of a member of a streams group, after a while in which the broker may create topics."""
    internal = TopicInfo(name=f"{prefix}-changelog", partitions=0, replication_factor=1)
    part = Subtopology(
        subtopology_id="0", source_topics=("st-in",), source_topic_regex=(), state_changelog_topics=(internal,),
        repartition_sink_topics=(), repartition_source_topics=(), copartition_groups=(),
    )  # fmt: skip
    member, epoch = str(uuid.uuid4()), 0
    for _ in range(10):
        request = StreamsGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, rebalance_timeout_ms=5000,
            topology=None if epoch else Topology(epoch=0, subtopologies=(part,)), process_id=member, client_tags=(),
            active_tasks=None if epoch else (), standby_tasks=None if epoch else (), warmup_tasks=None if epoch else (),
        )  # fmt: skip
        response = at.ask(request, 0, StreamsGroupHeartbeatResponse)
        if response.error_code:
            return response.error_code
        epoch = response.member_epoch
        time.sleep(0.2)
    return 0


def test_a_streams_group_creates_no_topic_that_its_member_may_not_create(site: Site) -> None:
    errors = {}
    for at in SITES:
        with site.connect(at, MALLORY) as mallory:
            errors[at] = joined(mallory, f"rx-streams-{at}", f"st-{at}")
    assert not {name for name in site.topics() if name.endswith("-changelog")}
    assert errors == {"broker": 0, "sidecar": DENIED}


def test_a_right_that_was_taken_away_is_gone_from_open_sessions_too(site: Site) -> None:
    """The last test: the rules are other ones then."""
    site.produce("t-secret")
    with site.connect("broker", ALICE) as at_broker, site.connect("sidecar", ALICE) as at_sidecar:
        begun = {"broker": fetch(at_broker, 0, 0, "t-secret"), "sidecar": fetch(at_sidecar, 0, 0, "t-secret")}
        assert all(fetched(one) == (0, True) for one in begun.values())
        site.revoke(ALICE, "topics", "t-secret", "read")
        site.produce("t-secret")
        assert fetched(fetch(at_broker, begun["broker"].session_id, 1)) == (DENIED, False)
        assert fetched(fetch(at_sidecar, begun["sidecar"].session_id, 1)) == (SESSION_NOT_FOUND, False)
        for _ in range(2):
            response = fetch(at_sidecar, 0, 0, "t-secret", "t-open")
            assert {one.topic: one.partitions[0].error_code for one in response.responses} == {
                "t-secret": DENIED, "t-open": 0,
            }  # fmt: skip
        site.produce("t-secret")
        assert fetched(fetch(at_sidecar, 0, 0, "t-open"))[0] == 0
