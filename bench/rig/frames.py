"""The Kafka frames of the driver and the stub broker: built once, correlation ids stamped in later."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, pack
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
CLIENT_ID: Final = b"relay-bench"
TOPIC: Final = b"bench"
TOPIC_ID: Final = UUID("5f1f7c1e-0b9a-4a4e-9d52-6a1c0f3b7a11").bytes
NODE_ID: Final = 1

REQUEST_HEAD = Struct(">ihhi")  # length, api key, version, correlation id
RESPONSE_HEAD = Struct(">ii")  # length, correlation id
CORRELATION = Struct(">i")
CRC_AT, ATTRIBUTES_AT = 17, 21  # in a batch: the checksum, and the start of the bytes that it covers
STAMPED_IN_PLACE: Final = 16 * 1024  # larger frames are sent as two pieces without being copied together

# The versions that the stub offers: api key -> lowest and highest version.
OFFERED: Final = {PRODUCE: (0, 12), FETCH: (4, 17), METADATA: (12, 12), API_VERSIONS: (0, 4)}
UNSUPPORTED_VERSION: Final = 35


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Frame:
    """A frame without its correlation id, and as many copies of it as are sent at once."""

    def __init__(self, before: bytes, after: bytes) -> None:
        """``before`` the correlation id: length, and in a request api key and version. ``after``: the rest."""
        self._before, self._after = before, after
        self.size_bytes = len(before) + 4 + len(after)
        self._copies = 0
        self._buffer = memoryview(bytearray())

    def stamp(self, first: int, count: int) -> list[bytes | memoryview]:
        """``count`` frames with the correlation ids from ``first`` on, as pieces to send one after the other.

        A single piece is good until the next call only.
        """
        if self.size_bytes > STAMPED_IN_PLACE:
            ids = range(first, first + count)
            return [piece for each in ids for piece in (self._before + CORRELATION.pack(each), self._after)]
        if count > self._copies:
            self._copies = count
            self._buffer = memoryview(bytearray(self.one(0) * count))
        for number in range(count):
            CORRELATION.pack_into(self._buffer, number * self.size_bytes + len(self._before), first + number)
        return [self._buffer[: count * self.size_bytes]]

    def one(self, correlation: int) -> bytes:
        return self._before + CORRELATION.pack(correlation) + self._after


def response(body: bytes) -> Frame:
    """A response with this body after its correlation id."""
    return Frame(pack(">i", 4 + len(body)), body)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact(value: bytes) -> bytes:
    """A compact string or compact bytes: length + 1 as varint, then the bytes."""
    return uvarint(len(value) + 1) + value


def record_batch(size_bytes: int) -> bytes:
    """A batch of magic 2 with one record, ``size_bytes`` long in all."""
    # baseOffset i64, batchLength i32, leaderEpoch i32, magic i8, crc u32, attributes i16, lastOffsetDelta i32,
    # baseTimestamp i64, maxTimestamp i64, producerId i64, producerEpoch i16, baseSequence i32, recordCount i32
    at_ms = 1_700_000_000_000
    header = pack(">qiibIhiqqqhii", 0, size_bytes - 12, -1, 2, 0, 0, 0, at_ms, at_ms, -1, -1, -1, 1)
    room = size_bytes - len(header)
    # record: length, attributes, timestamp delta, offset delta, key (-1: null), value, header count; varints are zigzag
    for value_size in range(room, 0, -1):
        body = b"\0\0\0\x01" + uvarint(2 * value_size)
        record_size = len(body) + value_size + 1
        if len(uvarint(2 * record_size)) + record_size == room:
            batch = header + uvarint(2 * record_size) + body + b"v" * value_size + b"\0"
            return batch[:CRC_AT] + pack(">I", crc32c(batch[ATTRIBUTES_AT:])) + batch[ATTRIBUTES_AT:]
    raise ValueError(f"no batch of one record is {size_bytes} bytes long")


def _request(api_key: int, version: int, body: bytes) -> Frame:
    # request header v2: api key, version, correlation id, client id (the one string that is not compact), tags
    rest = pack(">h", len(CLIENT_ID)) + CLIENT_ID + b"\0" + body
    return Frame(pack(">ihh", 8 + len(rest), api_key, version), rest)


def api_versions_request() -> Frame:
    return _request(API_VERSIONS, 4, compact(CLIENT_ID) + compact(b"1") + b"\0")


def metadata_request() -> Frame:
    """Metadata v12 for all topics."""
    return _request(METADATA, 12, b"\0" + b"\0" + b"\0" + b"\0")


def produce_request(records_bytes: int) -> Frame:
    """Produce v12, acks=1, one topic, one partition, one batch of ``records_bytes``."""
    return produce_batches([record_batch(records_bytes)])


def produce_batches(batches: Sequence[bytes]) -> Frame:
    """Produce v12, acks=1, one topic, a partition for each batch."""
    partitions = b"".join(pack(">i", number) + compact(batch) + b"\0" for number, batch in enumerate(batches))
    topic = compact(TOPIC) + uvarint(len(batches) + 1) + partitions + b"\0"
    return _request(PRODUCE, 12, b"\0" + pack(">hi", 1, 30_000) + uvarint(2) + topic + b"\0")


def fetch_request(max_bytes: int) -> Frame:
    """Fetch v17, one topic by id, one partition, no fetch session."""
    partition = pack(">iiqiqi", 0, -1, 0, -1, -1, max_bytes) + b"\0"
    topic = TOPIC_ID + uvarint(2) + partition + b"\0"
    top = pack(">iiibii", 500, 1, max_bytes, 0, 0, -1)
    return _request(FETCH, 17, top + uvarint(2) + topic + uvarint(1) + compact(b"") + b"\0")


def api_versions_response(version: int) -> bytes:
    """The bytes after the correlation id (response header v0 in all versions)."""
    offered = sorted(OFFERED.items())
    if version > OFFERED[API_VERSIONS][1]:  # KIP-511: the response is v0
        return pack(">h", UNSUPPORTED_VERSION) + pack(">ihhh", 1, API_VERSIONS, *OFFERED[API_VERSIONS])
    if version < 3:
        plain = b"".join(pack(">hhh", key, *versions) for key, versions in offered)
        return pack(">hi", 0, len(offered)) + plain + (pack(">i", 0) if version else b"")
    tagged = b"".join(pack(">hhh", key, *versions) + b"\0" for key, versions in offered)
    return pack(">h", 0) + uvarint(len(offered) + 1) + tagged + pack(">i", 0) + b"\0"


def metadata_response(node: Address) -> bytes:
    """Metadata v12 after the correlation id: one broker, one topic, one partition."""
    broker = pack(">i", NODE_ID) + compact(node.host.encode()) + pack(">i", node.port) + b"\0" + b"\0"
    replicas = uvarint(2) + pack(">i", NODE_ID)
    partition = pack(">hiii", 0, 0, NODE_ID, 0) + replicas + replicas + uvarint(1) + b"\0"
    topic = pack(">h", 0) + compact(TOPIC) + TOPIC_ID + b"\0" + uvarint(2) + partition + pack(">i", -(1 << 31)) + b"\0"
    cluster = compact(b"bench-cluster") + pack(">i", NODE_ID)
    return b"\0" + pack(">i", 0) + uvarint(2) + broker + cluster + uvarint(2) + topic + b"\0"


def produce_response(partitions: int = 1, base_offset: int = 0) -> bytes:
    """Produce v12 after the correlation id: no error."""
    # index, error, base offset, log append time, log start offset; no record errors, no message
    answers = (
        pack(">ihqqq", number, 0, base_offset, -1, 0) + uvarint(1) + b"\0" + b"\0" for number in range(partitions)
    )
    topic = compact(TOPIC) + uvarint(partitions + 1) + b"".join(answers) + b"\0"
    return b"\0" + uvarint(2) + topic + pack(">i", 0) + b"\0"


def produce_error(response: bytes) -> int:
    """The error code of the first partition in a Produce v12 response (from its correlation id on)."""
    # correlation id, tags, topic count, topic, partition count, index
    at = 4 + 1 + 1 + len(compact(TOPIC)) + 1 + 4
    return int.from_bytes(response[at : at + 2], "big", signed=True)


def fetch_response(records_bytes: int, records: bytes = b"") -> bytes:
    """Fetch v17 after the correlation id: one batch of ``records_bytes``, or these batches."""
    # index, error, high watermark, last stable offset, log start offset; aborted: null; preferred replica; records
    partition = (
        pack(">ihqqq", 0, 0, 1, 1, 0) + b"\0" + pack(">i", -1) + compact(records or record_batch(records_bytes)) + b"\0"
    )
    topic = TOPIC_ID + uvarint(2) + partition + b"\0"
    return b"\0" + pack(">ihi", 0, 0, 0) + uvarint(2) + topic + b"\0"


def node_address(metadata: bytes) -> Address:
    """The address of the first broker in a Metadata v12 response (from its correlation id on)."""
    host_at = 4 + 1 + 4 + 1 + 4  # correlation id, tags, throttle time, broker count, node id
    port_at = host_at + metadata[host_at]  # a compact length is the length + 1, and one byte for any sane host name
    host = metadata[host_at + 1 : port_at].decode()
    return Address(host, int.from_bytes(metadata[port_at : port_at + 4], "big"))
