"""Topics and rights: what the sidecar's user may do is what brokers say of it (KIP-430); a topic that the sidecar
would create is asked for with `validate_only`, which creates nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

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
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.plugins.settings import did_you_mean
from kafka_sidecar.proxy.cli.connect.brokers import METADATA, Channel
from kafka_sidecar.proxy.cli.connect.report import Check, failed, ok, warning
from kafka_sidecar.proxy.config.dead_letters import name_for
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.telemetry.readable import counted

CREATE_TOPICS = 5  # the first version that brokers of all supported versions have, and that says defaults
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Describe": 8, "DescribeConfigs": 10}  # bits (KIP-430)
UNKNOWN, DENIED = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.TOPIC_AUTHORIZATION_FAILED
MAY_NOT_CREATE = (DENIED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
MAX_NAMED = 500  # in one request
MAX_MESSAGE = 300  # characters of what a broker says
ANSWERED_MS = 5000
MAX_MATCHES = 200  # topics of a pattern
READ, WRITE, DESCRIBE_CONFIGS = "Read", "Write", "DescribeConfigs"


@dataclass(frozen=True, slots=True)
class Creation:
    """How the sidecar creates a topic that does not exist."""

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Need:
    """A topic, and why."""

    topic: str
    setting: str  # that names it
    operations: tuple[str, ...] = ()
    does_without: tuple[str, ...] = ()  # operations that are used, and not needed
    creation: Creation | None = None
    create_with: str = ""  # the setting that would let the sidecar create it


def needs_of(config: Config, existing: Iterable[str]) -> list[Need]:
    """Of a configuration. ``existing``: the topics of the cluster, for patterns."""
    found: dict[tuple[str, tuple[str, ...], bool], Need] = {}
    for need in (*_own_topics(config), *_dead_letters(config, list(existing)), *_large(config), *_named(config)):
        found.setdefault((need.topic, need.operations, need.creation is None), need)
    own = {need.topic for need in found.values() if need.operations}
    return [need for need in found.values() if need.operations or need.does_without or need.topic not in own]


def has_patterns(config: Config) -> bool:
    """Whether the topics of the cluster have to be known."""
    return any(is_pattern(entry.name) and entry.dead_letters is not None for entry in config.topics)


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def _own_topics(config: Config) -> Iterator[Need]:
    """Those that the sidecar writes and reads itself."""
    audit, configs = config.audit, config.topic_configs
    made = Creation(audit.partitions, audit.replication_factor, audit.topic_configs)
    if audit.topic is not None and audit.type is not None:
        yield Need(audit.topic, "audit.topic", (WRITE,), creation=made)
    if audit.access_topic is not None and audit.access != "off":
        yield Need(audit.access_topic, "audit.access_topic", (WRITE,), creation=made)
    if configs.topic is not None:
        one = Creation(1, configs.replication_factor, {"cleanup.policy": "compact"})
        yield Need(configs.topic, "topic_configs.topic", (READ, WRITE), creation=one)


def _dead_letters(config: Config, existing: list[str]) -> Iterator[Need]:
    create = config.dead_letters.create
    made = Creation(create.partitions, create.replication_factor, create.configs) if create is not None else None
    for number, entry in enumerate(config.topics, 1):
        if entry.dead_letters is None:
            continue
        topics = [entry.name]
        if is_pattern(entry.name):
            topics = list(islice((one for one in existing if matches(one, [entry.name])), MAX_MATCHES))
        setting = f"topics (entry {number}).dead_letters"
        for letters in dict.fromkeys(name_for(entry.dead_letters.topic, topic) for topic in topics):
            yield Need(letters, setting, (WRITE,), (DESCRIBE_CONFIGS,), made, "dead_letters.create")


def _large(config: Config) -> Iterator[Need]:
    """Their limits are asked for, unless they are in the file."""
    for number, entry in enumerate(config.large_messages.topics, 1):
        if entry.enabled and not is_pattern(entry.name):
            asked = () if entry.max_batch is not None else (DESCRIBE_CONFIGS,)
            yield Need(entry.name, f"large_messages.topics (entry {number})", does_without=asked)


def _named(config: Config) -> Iterator[Need]:
    """Those that have to exist, and nothing more."""
    lists: dict[str, list[str]] = {"audit.topics": config.audit.topics if config.audit.type is not None else []}
    lists |= {f"topics (entry {number})": [one.name] for number, one in enumerate(config.topics, 1)}
    sections: dict[str, list[list[str]]] = {
        "producers": [one.topics for one in config.producers],
        "rate_limits": [one.topics for one in config.rate_limits],
        "interceptors": [one.topics for one in config.interceptors],
    }
    for section, entries in sections.items():
        lists |= {f"{section} (entry {number}).topics": topics for number, topics in enumerate(entries, 1)}
    for setting, names in lists.items():
        yield from (Need(name, setting) for name in names if not is_pattern(name))


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
        among = counted(len(topic.partitions), "partition")
        yield failed("topic", need.topic, f"{leaderless} of {among} without a leader")
    elif not missing and not spared:
        rights = f", {who} has {', '.join(need.operations)}" if need.operations else ""
        yield ok("topic", need.topic, f"{counted(len(topic.partitions), 'partition')}{rights} ({need.setting})")


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
