"""Records as interceptors see them. Parts are copied only when they are read, and written only when they are changed.

Records are values: `replace` creates another one. Only headers are changed in place, as in KIP-82.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_sidecar.codec.records import KEEP, Change, Header, Keep
from kafka_sidecar.interceptors.headers import Headers, Journal, OneHeader
from kafka_sidecar.plugins.values import UNKNOWN, Context, TopicPartition, compute_checksum
from kafka_sidecar.plugins.violations import ContractTypeError, ContractValueError

if TYPE_CHECKING:
    from typing import Self

    from kafka_sidecar.codec.records import Record

R = TypeVar("R", bound="_Record")
NO_CONTEXT = Context(clock=lambda: 0)


class BatchInfo(NamedTuple):
    """What all records of a batch share."""

    topic: str
    partition: int
    context: Context
    journal: Journal | None
    base_offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    append_time: bool = False  # whether the broker set the timestamps


class _Record:
    """Base of both kinds of records."""

    __slots__ = ("_as_read", "_headers", "_info", "_key", "_offset", "_record", "_timestamp", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[OneHeader] = (),
        timestamp: int = UNKNOWN,
        context: Context = NO_CONTEXT,
    ) -> None:
        self._info = BatchInfo(topic, partition, context, [])
        self._record: Record | None = None
        self._key = _bytes("key", key)
        self._value = _bytes("value", value)
        self._timestamp = timestamp
        self._headers: Headers | None = Headers(headers, self._info.journal)
        self._as_read: tuple[Header, ...] | None = None  # the headers as they were read from the batch

    @property
    def topic(self) -> str:
        return self._info.topic

    @property
    def partition(self) -> int:
        return self._info.partition

    @property
    def context(self) -> Context:
        return self._info.context

    @property
    def index(self) -> int:
        """The index in the batch; -1 for a record that is not in a batch."""
        return UNKNOWN if self._record is None else self._record.index

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970."""
        return self._timestamp if self._record is None else self._record.timestamp

    @property
    def key(self) -> bytes | None:
        return self._record.key if self._key is KEEP and self._record is not None else _given(self._key)

    @property
    def value(self) -> bytes | None:
        return self._record.value if self._value is KEEP and self._record is not None else _given(self._value)

    @property
    def headers(self) -> Headers:
        if self._headers is None:
            assert self._record is not None
            self._as_read = self._record.headers
            self._headers = Headers.of(self._as_read, self._info.journal)
        return self._headers

    def replace(
        self,
        *,
        key: bytes | Keep | None = KEEP,
        value: bytes | Keep | None = KEEP,
        headers: Iterable[OneHeader] | Keep = KEEP,
    ) -> Self:
        """This record with another key, value or headers. Raises TypeError for a key or value of another type."""
        other = type(self).__new__(type(self))
        for name in _Record.__slots__:
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        if key is not KEEP:
            other._key = _bytes("key", key)
        if value is not KEEP:
            other._value = _bytes("value", value)
        if not isinstance(headers, Keep):
            other._headers, other._as_read = Headers(headers, self._info.journal), None
        return other

    def change(self) -> Change | None:
        """What to write in place of the record's parts; None: nothing has changed."""
        headers: tuple[Header, ...] | Keep = KEEP
        if self._headers is not None and self._headers.to_tuple() is not self._as_read:
            headers = self._headers.to_tuple()
        if self._key is KEEP and self._value is KEEP and headers is KEEP:
            return None
        return Change(self._key, self._value, headers)

    def adopt(self, other: Self) -> None:
        """Replace ``other`` in its batch; for a record that an interceptor has created.

        Raises:
            ValueError: this record is in a batch already, in place of another one.
        """
        if self._record is None:
            self._record, self._info = other._record, other._info
            self._headers = Headers(self.headers, other._info.journal)
        elif self._record is not other._record:
            raise ContractValueError("one record was returned in place of another: create a new one for each")

    def close(self, info: BatchInfo) -> Change | None:
        """End of the chain: headers are read-only from now on (KIP-82). Returns what to write, None: nothing.

        Args:
            info: that of the record, without a journal.
        """
        self._info = info
        if self._headers is not None:
            self._headers.close()
        elif self._key is KEEP and self._value is KEEP:
            return None
        return self.change()

    def __repr__(self) -> str:  # no contents: it may be logged
        return f"{type(self).__name__}(topic={self.topic!r}, partition={self.partition})"


class ProducerRecord(_Record):
    """A record that a producer sends. The timestamp is the client's; -1: it has none."""

    __slots__ = ()


class ConsumerRecord(_Record):
    """A record that a consumer reads."""

    __slots__ = ()

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[OneHeader] = (),
        timestamp: int = UNKNOWN,
        context: Context = NO_CONTEXT,
    ) -> None:
        super().__init__(topic, partition, key, value, headers, timestamp, context)
        self._offset = offset

    @property
    def offset(self) -> int:
        """The offset in the partition."""
        return self._offset if self._record is None else self._info.base_offset + self._record.offset_delta

    @property
    def leader_epoch(self) -> int:
        """That of the partition's leader when the batch was written."""
        return self._info.leader_epoch

    @property
    def has_log_append_time(self) -> bool:
        """Whether the broker set the time (Kafka: ``timestampType``)."""
        return self._info.append_time

    @property
    def serialized_key_size(self) -> int:
        """Bytes as read from the broker; -1 for null."""
        return _size(self.key) if self._record is None else self._record.key_size

    @property
    def serialized_value_size(self) -> int:
        """Bytes as read from the broker; -1 for null."""
        return _size(self.value) if self._record is None else self._record.value_size

    @property
    def checksum(self) -> int:
        """That of the record as it was read (`compute_checksum`): not always that of the one that was sent (KIP-42)."""
        return compute_checksum(self.timestamp, self.serialized_key_size, self.serialized_value_size)


class ConsumerRecords:
    """Records of one batch, by offset. Has Kafka's methods, which allow for several partitions."""

    __slots__ = ("_records", "context")

    def __init__(self, records: Iterable[ConsumerRecord], context: Context = NO_CONTEXT) -> None:
        self._records = tuple(records)
        self.context = context

    def partitions(self) -> set[TopicPartition]:
        """The partitions of which there are records."""
        return {TopicPartition(record.topic, record.partition) for record in self._records}

    def records(self, of: TopicPartition | str) -> list[ConsumerRecord]:
        """The records of a partition or topic."""
        return [record for record in self._records if of in (record.topic, (record.topic, record.partition))]

    def count(self) -> int:
        """The number of records."""
        return len(self._records)

    def is_empty(self) -> bool:
        """Whether there is no record."""
        return not self._records

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self._records)


def record_of(cls: type[R], info: BatchInfo, record: Record) -> R:
    """A record of a batch, created without the constructor, which would take twice as long."""
    one = object.__new__(cls)
    one._info = info
    one._record = record
    one._key = one._value = KEEP
    one._headers = None
    return one


def _given(data: bytes | Keep | None) -> bytes | None:
    assert not isinstance(data, Keep)
    return data


def _bytes(what: str, data: bytes | Keep | None) -> bytes | Keep | None:
    if data is None or isinstance(data, bytes):
        return data
    raise ContractTypeError(f"the {what} of a record is {type(data).__name__}: it must be bytes or None")


def _size(data: bytes | None) -> int:
    return UNKNOWN if data is None else len(data)
