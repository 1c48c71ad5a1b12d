"""Values that interceptors are given and give back: names and meanings are the KIPs'.

Authors import them from `contract`, which has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

UNKNOWN = -1
MAX_COMMIT_METADATA = 4096  # characters: the default of the brokers' offset.metadata.max.bytes
_CHECKED = Struct(">qii")  # timestamp, key size, value size


class TopicPartition(NamedTuple):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """How far a group has come in one partition."""

    offset: int
    metadata: str = ""
    leader_epoch: int = UNKNOWN


class Context(NamedTuple):  # one is made for each request: a third of what a frozen dataclass costs
    """Who is being intercepted, as far as a proxy can know. Not the KIPs'."""

    clock: Callable[[], int]  # ms since 1970
    session: int = 0  # number of the client's connection, as in log lines
    client_id: str | None = None
    client_software: str | None = None  # name and version (KIP-511)
    principal: str | None = None  # "User:alice", where the client has authenticated by name through the sidecar
    group_id: str | None = None  # of a commit
    member_id: str | None = None
    group_instance_id: str | None = None
    transactional_id: str | None = None
    api_version: int = UNKNOWN


class RecordMetadata(NamedTuple):
    """What became of a record. What is not known is -1, as in Kafka; the whole is never None.

    After an error only topic and partition are known. Sizes and timestamp are also -1 where no interceptor of the
    topic wants records (the time only if the broker did not set it), and in batches of more than a million records.
    """

    topic: str
    partition: int
    offset: int = UNKNOWN  # base offset + place in the batch; -1 also with acks=0
    timestamp: int = UNKNOWN  # ms since 1970
    serialized_key_size: int = UNKNOWN  # bytes; -1 for null
    serialized_value_size: int = UNKNOWN
    context: Context | None = None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def checksum(self) -> int:
        """CRC-32C of timestamp and sizes: all that Kafka has ever told of format 2 (deprecated there, then removed)."""
        return crc32c(_CHECKED.pack(self.timestamp, self.serialized_key_size, self.serialized_value_size))


class Offsets(dict[TopicPartition, OffsetAndMetadata]):
    """What a group commits, and who does."""

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
        """Whether an offset may have this metadata."""
        return java_length(metadata) <= self.max_metadata


def java_length(text: str) -> int:
    """Characters as Java and so brokers count them: in units of UTF-16.

    Raises:
        UnicodeEncodeError: the text has half of a surrogate pair.
    """
    return len(text.encode("utf-16-le")) // 2
