"""Topics and rights: what the sidecar's user may do is what brokers say of it (KIP-430); a topic that the sidecar
would create is asked for with `validate_only`, which creates nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafka_sidecar.codec.messages.metadata import (
    NOT_ASKED,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafka_sidecar.plugins.settings import did_you_mean
from kafka_sidecar.proxy.cli.operate.connect.broker import METADATA, Channel
from kafka_sidecar.proxy.cli.operate.connect.needs import Creation, Need, has_patterns, needs_of
from kafka_sidecar.proxy.cli.operate.connect.report import Check, failed, ok, warning
from kafka_sidecar.proxy.config.loading import Config

CREATE_TOPICS = 5  # the first version that brokers of all supported versions have, and that says defaults
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}  # bits (KIP-430)
UNKNOWN, DENIED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
MAY_NOT_CREATE = (DENIED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
MAX_NAMED = 500  # in one request
MAX_MESSAGE = 300  # characters of what a broker says
ANSWERED_MS = 5000


async def check_topics(config: Config, channel: Channel, who: str) -> list[Check]:
    """Those of a configuration. Raises what a channel raises."""
    existing: list[str] = []
    if has_patterns(config):
        everything = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        found = await channel.ask(everything, MetadataResponse, METADATA)
        existing = [topic.name for topic in found.topics if topic.name]
    needs = needs_of(config, existing)
    described = await _describe(channel, list(dict.fromkeys(need.topic for need in needs)))
    checks: list[Check] = []
    for need in needs:
        topic = described.get(need.topic)
        if topic is not None and topic.error_code == UNKNOWN and need.creation is not None:
            checks.append(await _try_creation(channel, need, need.creation, who))
        elif topic is not None:
            checks += _check(need, topic, who, existing)
    return checks


async def _describe(channel: Channel, names: Sequence[str]) -> Mapping[str, MetadataResponseTopic]:
    found: dict[str, MetadataResponseTopic] = {}
    for at in range(0, len(names), MAX_NAMED):
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names[at : at + MAX_NAMED]),
            allow_auto_topic_creation=False, include_topic_authorized_operations=True,
        )  # fmt: skip
        response = await channel.ask(request, MetadataResponse, METADATA)
        found |= {topic.name: topic for topic in response.topics if topic.name is not None}
    return found


def _check(need: Need, topic: MetadataResponseTopic, who: str, existing: Sequence[str]) -> Iterator[Check]:
    wanted = ("Describe", *need.operations)
    if topic.error_code == UNKNOWN:
        likely = did_you_mean(need.topic, existing)
        create = f", or set {need.create_with}" if need.create_with else ""
        yield failed("topic", need.topic, "does not exist", f"{likely}create it{create}, or correct {need.setting}")
    elif topic.error_code == DENIED:
        also = (*wanted, "Create") if need.creation is not None else wanted
        why = f"{who} may not describe it, whether it exists or not ({need.setting})"
        yield failed("right", need.topic, why, _grant(also, need.topic, who))
    elif topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
        yield failed("topic", need.topic, f"the broker answers with error {topic.error_code} ({need.setting})")
    else:
        yield from _check_rights(need, topic, who)


def _check_rights(need: Need, topic: MetadataResponseTopic, who: str) -> Iterator[Check]:
    allowed = topic.topic_authorized_operations
    missing, spared = ([one for one in of if not _has(allowed, one)] for of in (need.operations, need.does_without))
    for one in missing:
        yield failed("right", need.topic, f"{who} lacks {one} ({need.setting})", _grant([one], need.topic, who))
    for one in spared:
        yield warning(
            "right", need.topic, f"{who} lacks {one}: Kafka's defaults are assumed ({need.setting})",
            _grant([one], need.topic, who),
        )  # fmt: skip
    leaderless = sum(one.leader_id < 0 for one in topic.partitions)
    if leaderless:
        yield failed("topic", need.topic, f"{leaderless} of {len(topic.partitions)} partitions have no leader")
    elif not missing and not spared:
        rights = f", {who} has {', '.join(need.operations)}" if need.operations else ""
        yield ok("topic", need.topic, f"{len(topic.partitions)} partitions{rights} ({need.setting})")


def _has(allowed: int, operation: str) -> bool:
    """Whether it is one of these. Brokers that say nothing are not contradicted."""
    return allowed == NOT_ASKED or bool(allowed & (1 << OPERATIONS[operation]))


async def _try_creation(channel: Channel, need: Need, creation: Creation, who: str) -> Check:
    one = CreatableTopic(
        name=need.topic, num_partitions=creation.partitions, replication_factor=creation.replication_factor,
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in creation.configs.items()),
    )  # fmt: skip
    request = CreateTopicsRequest(topics=(one,), timeout_ms=ANSWERED_MS, validate_only=True)
    response = await channel.ask(request, CreateTopicsResponse, CREATE_TOPICS)
    code = response.topics[0].error_code if response.topics else ErrorCode.UNKNOWN_SERVER_ERROR
    if code in MAY_NOT_CREATE:
        why = f"does not exist, and {who} may not create it ({need.setting})"
        return failed(
            "right", need.topic, why, f"{_grant(['Create', *need.operations], need.topic, who)}, or create it"
        )
    if code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return ok("topic", need.topic, f"has just been created ({need.setting})")
    if code != ErrorCode.NONE:
        said = (response.topics[0].error_message or f"error {code}")[:MAX_MESSAGE] if response.topics else "nothing"
        return failed("topic", need.topic, f"cannot be created as configured: {said}", f"correct {need.setting}")
    return ok("topic", need.topic, f"does not exist: the sidecar creates it when it needs it ({need.setting})")


def _grant(operations: Sequence[str], topic: str, who: str) -> str:
    """Kafka's own command, as far as it is known for whom."""
    flags = " ".join(f"--operation {one}" for one in dict.fromkeys(operations))
    whom = who if who.startswith("User:") else "User:..."
    return f"kafka-acls.sh --add --allow-principal {whom} {flags} --topic {topic}"
