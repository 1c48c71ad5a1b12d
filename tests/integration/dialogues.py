"""Random requests of clients that know what there is, for a broker and for a sidecar before it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from integration.alice import GROUPS, PASSWORD, TOPICS, TRANSACTIONS, Settings
from integration.raw import Raw

from kafka_sidecar.codec import messages
from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_response, encode_request
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.message import Message, Struct
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataResponse
from kafka_sidecar.codec.schema.fields import Field
from kafka_sidecar.codec.wire import NO_ID

# Nothing that they change stays: what the broker has been asked to do, it would do again.
COMPARED = (
    ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.OFFSET_FETCH,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_DESCRIBE, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.ADD_OFFSETS_TO_TXN, ApiKey.END_TXN,
    ApiKey.TXN_OFFSET_COMMIT, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS,
)  # fmt: skip
# Words of the sidecar's own, addresses, what is measured, and the operations that the sidecar may do (KIP-430).
NOT_COMPARED = frozenset(
    {
        "throttle_time_ms", "error_message", "message", "host", "port", "authorized_operations",
        "topic_authorized_operations", "cluster_authorized_operations",
    }
)  # fmt: skip
NAMES: Mapping[str, tuple[str, ...]] = {
    "group": (*GROUPS, "g-missing"),
    "transactional": (*TRANSACTIONS, "x-missing"),
    "regex": ("t-.*", "t-read", "x-.*", "("),
    "pattern": ("x-.*", "x-write"),
    "member": ("", "no-member"),
    "filter": ("Stable", "Ongoing", "no such state"),
}
TOPIC_NAMES = (*TOPICS, "p-one", "t-missing")
RESOURCE_TYPES = (2, 4, 32)
CONFIGS = ("retention.ms", "cleanup.policy", "no.such.config")


def _declared() -> tuple[dict[int, type[Message]], dict[int, type[Message]]]:
    """The requests and the responses, by API."""
    requests, responses = dict[int, type[Message]](), dict[int, type[Message]]()
    for module in pkgutil.iter_modules(messages.__path__):
        for one in vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values():
            if isinstance(one, type) and issubclass(one, Message) and one is not Message:
                of = requests if one.__name__.endswith("Request") else responses
                of[one.declaration_.api_key or 0] = one
    return requests, responses


REQUESTS, RESPONSES = _declared()


class Sentences:
    """Random requests of one seed."""

    def __init__(self, seed: str, ids: tuple[bytes, ...]) -> None:
        self._random = Random(seed)
        self._ids = ids

    def request(self, key: int, version: int) -> Message:
        made: Message = self._struct(REQUESTS[key], version)
        return made

    def _struct(self, cls: type[Struct], version: int) -> Any:
        declared = cls.declaration_
        values = {one.name: self._value(one, version) for one in declared.fields if version in one.versions}
        if declared.is_flexible(version) and self._random.random() < 0.2:
            values["unknown_tags"] = ((50, self._random.randbytes(3)),)
        return cls(**values)

    def _value(self, field: Field, version: int) -> Any:
        if version in field.nullable and self._random.random() < 0.15:
            return None
        if field.kind != "array":
            return self._one(field.of or field.kind, field.name, version)
        some = (self._one(field.of, field.name, version) for _ in range(self._random.choice((1, 1, 2, 3, 5))))
        return tuple({_identity(one): one for one in some}.values())  # twice the same has tests of its own

    def _one(self, kind: Any, name: str, version: int) -> Any:
        choice = self._random.choice
        if isinstance(kind, type):
            return self._struct(kind, version)
        if kind == "string":
            return self._text(name)
        if kind == "uuid":
            return choice(self._ids)
        if kind == "bool":
            return name == "validate_only" or (name != "allow_auto_topic_creation" and choice((True, False)))
        if kind in ("bytes", "records"):
            return b"x"
        return self._number(name)

    def _text(self, name: str) -> str:
        if "config" in name:
            return self._random.choice(CONFIGS)
        if name == "resource_name":
            return self._random.choice((*TOPIC_NAMES, *NAMES["group"], "1"))
        return self._random.choice(next((some for part, some in NAMES.items() if part in name), TOPIC_NAMES))

    def _number(self, name: str) -> int:
        choice = self._random.choice
        if name == "resource_type":
            return choice(RESOURCE_TYPES)
        if name.endswith("timeout_ms"):
            return 15_000
        if name in ("replica_id", "current_leader_epoch"):
            return -1
        if name == "isolation_level":
            return choice((0, 1))
        if name == "timestamp":
            return choice((-1, -2, -3, -4, -5, -6, 0, 2**60))
        return choice((0, 1, 2)) if "partition" in name else choice((1, 1, 2, 3))


def _identity(one: Any) -> Any:
    if not isinstance(one, Struct):
        return one
    fields: Any = one
    named = [name for name in fields._fields if name.endswith(("name", "_id", "topic", "_index", "partition"))]
    return tuple(getattr(one, name) for name in named if name != "member_id") or repr(one)


def compared(value: Any, name: str = "") -> Any:
    """What is compared of a response: results have no order."""
    if name in NOT_COMPARED:
        return None
    if isinstance(value, Struct):
        fields: Any = value
        return [(one, compared(getattr(value, one), one)) for one in fields._fields]
    if isinstance(value, tuple):
        return sorted((compared(one) for one in value), key=repr)
    return value


class Pair:
    """Connections of alice to a broker and to the sidecar before it."""

    def __init__(self, sites: Mapping[str, Settings]) -> None:
        self._raw = [Raw(sites[name]["bootstrap.servers"]).log_in("alice", PASSWORD) for name in ("broker", "sidecar")]
        with Raw(sites["direct"]["bootstrap.servers"]) as direct:
            topics = direct.ask(MetadataRequest(topics=None), 12, MetadataResponse).topics
        self.ids = (*(topic.topic_id for topic in topics), NO_ID, b"u" * 16)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for raw in self._raw:
            raw.__exit__()

    def ask(self, request: Message, version: int) -> list[Any]:
        """What both answer."""
        frame = encode_request(request, version, 7, "raw")
        for raw in self._raw:
            raw.send(frame)
        of = RESPONSES[request.declaration_.api_key or 0]
        return [compared(decode_response(of, raw.read(), version).message) for raw in self._raw]


def differences(pair: Pair, key: ApiKey, seeds: range) -> Iterator[str]:
    """Of each request of an API to which the two answer differently, what it is and both answers."""
    api = APIS[key]
    for version in range(api.min_version, api.max_version + 1):
        for seed in seeds:
            request = Sentences(f"{key} {version} {seed}", pair.ids).request(key, version)
            try:
                broker, sidecar = pair.ask(request, version)
            except CodecError as error:
                yield f"seed {seed}: {request}: {error}"
                return
            if broker != sidecar:
                yield f"seed {seed}, version {version}: {request}\nbroker {broker}\nsidecar {sidecar}"
