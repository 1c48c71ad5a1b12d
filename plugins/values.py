"""Offsets, results of sending and the client whose they are, with the names and meanings of KIP-42 and KIP-547.

Authors of interceptors import them from the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

UNKNOWN = -1
BUCKETS = 64  # powers of two of a microsecond
MAX_COMMIT_METADATA = 4096  # characters: the default of the brokers' offset.metadata.max.bytes
_CHECKED = Struct(">qii")  # timestamp, key size, value size


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """What a group commits for one partition."""

    offset: int
    metadata: str = ""
    leader_epoch: int = UNKNOWN


class Context(NamedTuple):  # created for each request, at a third of the cost of a frozen dataclass
    """The client whose request it is, as far as a proxy knows it. Not part of the KIPs."""

    clock: Callable[[], int]  # ms since 1970
    session: int = 0  # number of the client's connection, as in log lines
    client_id: str | None = None
    client_software: str | None = None  # name and version (KIP-511)
    principal: str | None = None  # "User:alice", if the client has authenticated by name through the sidecar
    group_id: str | None = None  # of a commit
    member_id: str | None = None
    group_instance_id: str | None = None
    transactional_id: str | None = None
    api_version: int = UNKNOWN
    generation_id: int = UNKNOWN  # of a commit: the member's generation, or its epoch (KIP-848)
    host: str | None = None  # the client's address, without its port

    @property
    def is_member(self) -> bool:
        """Whether a commit is that of a member of the group.

        All others are alike in the protocol: those of an admin (``alterConsumerGroupOffsets``, ``kafka-consumer-groups
        --reset-offsets``), of a consumer that assigns its partitions itself, and in TxnOffsetCommit before version 3.
        """
        return self.generation_id >= 0 or bool(self.member_id)

    # Compared by identity: two requests of one client have equal fields, and hooks use their contexts as keys.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


class RecordMetadata(NamedTuple):
    """The result of sending a record. Unknown values are -1, as in Kafka; the object itself is never None.

    After an error only topic and partition are known. Sizes and timestamp are also -1 if no interceptor of the topic
    wants records (the timestamp only if the broker did not set it), and in batches of more than a million records.
    """

    topic: str
    partition: int
    offset: int = UNKNOWN  # base offset + index in the batch; -1 also with acks=0
    timestamp: int = UNKNOWN  # ms since 1970
    serialized_key_size: int = UNKNOWN  # bytes; -1 for null
    serialized_value_size: int = UNKNOWN
    context: Context | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def checksum(self) -> int:
        """That of the record as it was sent (`compute_checksum`)."""
        return compute_checksum(self.timestamp, self.serialized_key_size, self.serialized_value_size)


class Offsets(dict[TopicPartition, OffsetAndMetadata]):
    """The offsets that a group commits, and the client that does."""

    def __init__(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        context: Context,
        max_metadata: int = MAX_COMMIT_METADATA,
    ) -> None:
        super().__init__(offsets)
        self.context = context
        self.max_metadata = max_metadata  # `interception.max_commit_metadata`, in characters

    def fits(self, metadata: str) -> bool:
        """Whether this metadata is short enough to be committed."""
        return java_length(metadata) <= self.max_metadata


def compute_checksum(timestamp: int, key_size: int, value_size: int) -> int:
    """CRC-32C of timestamp (ms) and sizes (bytes, -1: null): what Kafka's clients called a record's checksum with
    format 2, until they removed the method in 4.0."""
    return crc32c(_CHECKED.pack(timestamp, key_size, value_size))


def java_length(text: str) -> int:
    """Characters as Java and brokers count them: UTF-16 code units. A lone surrogate, such as of a byte that is not
    UTF-8, is one."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(slots=True)
class Histogram:
    """Durations, in buckets of powers of two."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)  # index: bit length of the microseconds
    total_us: int = 0

    def add(self, microseconds: int, times: int = 1) -> None:
        """Count a duration; a negative one, as between clocks that differ, counts as zero."""
        us = microseconds if microseconds > 0 else 0
        self.counts[us.bit_length()] += times
        self.total_us += us * times
