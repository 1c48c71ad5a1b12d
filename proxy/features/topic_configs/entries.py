"""What is set for which topic, and how it is written down.

An entry belongs to one topic id (KIP-516): a topic that is deleted and created again has another id, so what was set
for the first does not apply to the second, whoever deleted it. In the log of all sidecars:

    key:    the topic id as Kafka's tools print it, 22 characters
    value:  {"version": 1, "topic": "orders", "configs": {"record.validation.policy": "..."}}
    no value: nothing is set
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Protocol

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.wire import ID_SIZE, NO_ID
from kafka_sidecar.plugins.effects import Need
from kafka_sidecar.proxy.exchanges.messages import Rejection
from kafka_sidecar.proxy.relay.exchange import Client

FORMAT_VERSION = 1
# How long brokers may name the former id of a topic that was created again, while others know the new one.
MAX_LAG_S = 10.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Entry:
    """The own configs of one topic; those that are not set are omitted."""

    topic: str
    topic_id: bytes
    configs: Mapping[str, str]


def record_of(entry: Entry) -> tuple[bytes, bytes | None]:
    """Key and value; no value where nothing is set.

    >>> record_of(Entry("orders", bytes(16), {}))
    (b'AAAAAAAAAAAAAAAAAAAAAA', None)
    """
    key = urlsafe_b64encode(entry.topic_id).rstrip(b"=")
    if not entry.configs:
        return key, None
    document = {"version": FORMAT_VERSION, "topic": entry.topic, "configs": dict(entry.configs)}
    return key, json.dumps(document).encode()


def id_of(key: bytes) -> bytes:
    """The topic id in a key. Raises ValueError."""
    topic_id = urlsafe_b64decode(key + b"==")
    if len(topic_id) != ID_SIZE:
        raise ValueError("the key is not a topic id")
    return topic_id


def entry_of(topic_id: bytes, value: bytes) -> Entry:
    """The entry in a value. Raises ValueError where it is invalid, or newer than this program."""
    document = json.loads(value)
    match document:
        case {"version": int(version)} if version != FORMAT_VERSION:
            raise ValueError(f"the entry has format version {version}, known is {FORMAT_VERSION}")
        case {"version": _, "topic": str(topic), "configs": dict(configs)} if all(
            map(_can_be_described, configs.values())
        ):
            return Entry(topic, topic_id, configs)
    raise ValueError("the value is not an entry")


def _can_be_described(value: object) -> bool:
    """Whether it fits a response. Raises ValueError for lone surrogates."""
    return isinstance(value, str) and len(value.encode(errors="surrogateescape")) <= MAX_VALUE_BYTES


class Entries:
    """All entries, by id and by name, and which id a name has now."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, Entry] = {}
        self._by_name: dict[str, dict[bytes, Entry]] = {}
        # Of the names above, as far as is known: the id, and when it was named last, in seconds.
        self._current: dict[str, tuple[bytes, float]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def topics(self) -> Iterator[str]:
        """The names for which something is set, or was until their topic was created again."""
        return iter(self._by_name)

    def configs(self, topic: str, topic_id: bytes = NO_ID) -> Mapping[str, str]:
        """What is set for the topic with this id; without one, for the topic that has the name now."""
        if topic_id == NO_ID and topic in self._current:
            topic_id, _ = self._current[topic]
        entry = self._by_id.get(topic_id)
        return entry.configs if entry is not None and entry.topic == topic else NOTHING

    def all(self) -> Iterator[Entry]:
        return iter(self._by_id.values())

    def of(self, topic: str | None, topic_id: bytes) -> list[Entry]:
        """The entries of a topic that is named or given by its id."""
        if topic is not None:
            return list(self._by_name.get(topic, {}).values())
        return [self._by_id[topic_id]] if topic_id in self._by_id else []

    def set(self, entry: Entry, now: float) -> None:
        """Add or replace an entry; its topic is the one that has the name now."""
        self.remove(entry.topic_id)
        self._by_id[entry.topic_id] = entry
        self._by_name.setdefault(entry.topic, {})[entry.topic_id] = entry
        self._current[entry.topic] = entry.topic_id, now

    def remove(self, topic_id: bytes) -> None:
        """Forget the entry of a topic, if there is one."""
        if (entry := self._by_id.pop(topic_id, None)) is None:
            return
        of_name = self._by_name[entry.topic]
        del of_name[topic_id]
        if not of_name:
            del self._by_name[entry.topic], self._current[entry.topic]

    def update_ids(self, topics: Iterable[tuple[bytes, str]], now: float) -> None:
        """(id, name) of topics as one broker has them: one that was created again has another id.

        Of two ids none says which is the newer one, and a broker that lags names the former. So an id stays
        current until no broker has named it for a while: configs rather apply too long than not at all.
        """
        for topic_id, name in topics:
            if name in self._current:
                current, named_at = self._current[name]
                if topic_id == current or now - named_at >= MAX_LAG_S:
                    self._current[name] = topic_id, now


RECORD_VALIDATION_POLICY = "record.validation.policy"
# Of Confluent Server
PARTS = ("key", "value")
VALIDATION, STRATEGY = "confluent.{}.schema.validation", "confluent.{}.subject.name.strategy"
STRATEGIES = {
    f"io.confluent.kafka.serializers.subject.{name}": strategy
    for name, strategy in (
        ("TopicNameStrategy", "topic_name"),
        ("RecordNameStrategy", "record_name"),
        ("TopicRecordNameStrategy", "topic_record_name"),
    )
}
DEFAULT_STRATEGY = next(iter(STRATEGIES))
MAX_VALUE_BYTES = 32767  # as in Kafka: what a string holds in versions that are not flexible
MAX_MESSAGE_CHARACTERS = 1000  # of an error message to a client


class ConfigType(IntEnum):
    """Of a DescribeConfigs response."""

    BOOLEAN = 1
    STRING = 2
    CLASS = 8


# Validates a value. Raises ValueError where it is invalid; the text says why.
Check = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class OwnConfig:
    """One config of the sidecar's."""

    name: str
    documentation: str
    check: Check
    type: ConfigType = ConfigType.STRING
    default: str | None = None

    def reject(self, value: str) -> Rejection | None:
        """Why this value cannot be set; None where it is valid."""
        try:
            self.check(value)
        except ValueError as error:
            return invalid(f"Invalid value for configuration {self.name}: {error}"[:MAX_MESSAGE_CHARACTERS])
        except Exception as error:  # noqa: BLE001 - a policy's own bug must cost its author one response only
            why = f"{self.name} cannot be set: the policy failed to check it: {error!r}"
            return Rejection(ErrorCode.UNKNOWN_SERVER_ERROR, why[:MAX_MESSAGE_CHARACTERS])
        return None


OwnConfigs = Mapping[str, OwnConfig]  # by name


def invalid(message: str) -> Rejection:
    return Rejection(ErrorCode.INVALID_CONFIG, message)


def own_configs(check_policy: Check, schema_policy: str | None = None) -> OwnConfigs:
    """Every topic config that the sidecar adds to Kafka's; with a ``schema_policy``, those of Confluent Server."""
    configs = [
        OwnConfig(
            RECORD_VALIDATION_POLICY,
            "The record policy to use for the topic. This value should be meaningful to the record validation policy "
            "that the sidecar is configured with. If set to null (the default) then no validation will be performed "
            "for records sent to the topic.",
            check_policy,
        )
    ]
    for part in PARTS if schema_policy is not None else ():
        about = f"Whether the schemas of record {part}s are validated, by the ids that they have."
        configs.append(OwnConfig(VALIDATION.format(part), about, _check_boolean, ConfigType.BOOLEAN, "false"))
        about = f"What the subject of the schemas of record {part}s is named after."
        configs.append(OwnConfig(STRATEGY.format(part), about, _check_strategy, ConfigType.CLASS, DEFAULT_STRATEGY))
    return {config.name: config for config in configs}


def _check_boolean(value: str) -> None:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")


def _check_strategy(value: str) -> None:
    if value not in STRATEGIES:
        raise ValueError(f"known are {', '.join(STRATEGIES)}")


def schema_argument(configs: Mapping[str, str]) -> str:
    """What the policy `schema` has to do by these configs; empty: nothing.

    >>> schema_argument({"confluent.value.schema.validation": "true"})
    'value=topic_name'
    """
    return " ".join(
        f"{part}={STRATEGIES[configs.get(STRATEGY.format(part), DEFAULT_STRATEGY)]}"
        for part in PARTS
        if configs.get(VALIDATION.format(part), "false").strip().lower() == "true"
    )


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one topic's own configs once the broker has agreed."""

    topic: str
    values: Mapping[str, str | None]  # None: back to the default
    replaces: bool = False  # configs that are not named go back to their defaults, too
    topic_id: bytes | None = None  # where the broker's response has it

    def apply(self, before: Mapping[str, str]) -> dict[str, str]:
        """
        >>> Change("orders", {"a": None, "b": "2"}).apply({"a": "1", "c": "3"})
        {'c': '3', 'b': '2'}
        """
        after = {**({} if self.replaces else before), **self.values}
        return {name: value for name, value in after.items() if value is not None}


@dataclass(frozen=True, slots=True)
class StoreConfigs(Need):
    """Store these changes. Answered once all sidecars can read them, with topic -> why for those not stored."""

    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class ForgetConfigs(Need):
    """Remove the entries of topics that no longer exist. Answered once it was tried."""

    entries: tuple[Entry, ...]


class Keeper(Protocol):
    """Knows what is set."""

    @property
    def own(self) -> OwnConfigs: ...

    @property
    def entries(self) -> Entries: ...

    def changed(self, client: Client, topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """A client's change is stored: the topic's own configs before and after it."""
        ...

    def refused(self, client: Client, refused: Sequence[tuple[str, Rejection]]) -> None:
        """Topics whose configs a request could not set, and why."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it is not known now what is set; None where it is."""
        ...
