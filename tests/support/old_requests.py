"""Requests and responses of the versions that Kafka 4.0 dropped (KIP-896), byte by byte: kio does not know them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack, unpack_from

from kafka_sidecar.codec.apis import ApiKey
from support.oracle import framed

CORRELATION_ID = 7
FIRST_WITH_MAX_BYTES = 3  # Fetch
FIRST_WITH_MEMBERS = 1  # OffsetCommit
FIRST_WITH_THROTTLE, FIRST_WITH_TIME = 1, 2  # Produce responses
COMMIT_TIME_MS = 1_700_000_000_000

Place = tuple[str, int]  # topic, partition


def produce_request(
    version: int, topics: Mapping[str, Mapping[int, bytes | None]], acks: int = -1, correlation_id: int = CORRELATION_ID
) -> bytes:
    """Produce 0 to 2."""
    data = _array(
        _text(name) + _array(pack(">i", index) + _bytes(records) for index, records in partitions.items())
        for name, partitions in topics.items()
    )
    return _request(ApiKey.PRODUCE, version, correlation_id, pack(">hi", acks, 30_000) + data)


def produce_response(version: int, topics: Mapping[str, Mapping[int, tuple[int, int]]]) -> bytes:
    """The response to it: error code and offset of each partition."""
    time = pack(">q", -1) if version >= FIRST_WITH_TIME else b""
    data = _array(
        _text(name) + _array(pack(">ihq", index, *result) + time for index, result in partitions.items())
        for name, partitions in topics.items()
    )
    return framed(pack(">i", CORRELATION_ID) + data + (bytes(4) if version >= FIRST_WITH_THROTTLE else b""))


def produce_results(version: int, frame: bytes) -> list[tuple[str, int, int, int]]:
    """(topic, partition, error code, offset) in the order of the response, which has nothing else."""
    (topics,), at, found = unpack_from(">i", frame, 8), 12, []
    for _ in range(topics):
        (size,) = unpack_from(">h", frame, at)
        name = frame[at + 2 : at + 2 + size].decode()
        (partitions,) = unpack_from(">i", frame, at + 2 + size)
        at += 6 + size
        for _ in range(partitions):
            found.append((name, *unpack_from(">ihq", frame, at)))
            at += 22 if version >= FIRST_WITH_TIME else 14
    assert at + (4 if version >= FIRST_WITH_THROTTLE else 0) == len(frame)
    return found


def fetch_request(version: int, offsets: Mapping[Place, int]) -> bytes:
    """Fetch 0 to 3: one topic for each partition, as a client may."""
    limits = pack(">iii", -1, 100, 1) + (pack(">i", 1 << 20) if version >= FIRST_WITH_MAX_BYTES else b"")
    data = _array(_text(name) + _array([pack(">iqi", at, offset, 1 << 20)]) for (name, at), offset in offsets.items())
    return _request(ApiKey.FETCH, version, CORRELATION_ID, limits + data)


def commit_request(
    version: int, group: str, offsets: Mapping[Place, tuple[int, str]], generation: int = -1, member: str = ""
) -> bytes:
    """OffsetCommit 0 and 1: offset and metadata of each partition, one topic for each. Defaults: not of a member."""
    of_member = pack(">i", generation) + _text(member) if version >= FIRST_WITH_MEMBERS else b""
    time = pack(">q", COMMIT_TIME_MS) if version >= FIRST_WITH_MEMBERS else b""
    data = _array(
        _text(name) + _array([pack(">iq", at, offset) + time + _text(metadata)])
        for (name, at), (offset, metadata) in offsets.items()
    )
    return _request(ApiKey.OFFSET_COMMIT, version, CORRELATION_ID, _text(group) + of_member + data)


def commit_response(codes: Mapping[Place, int]) -> bytes:
    """The response to it."""
    data = _array(_text(name) + _array([pack(">ih", at, code)]) for (name, at), code in codes.items())
    return framed(pack(">i", CORRELATION_ID) + data)


def _request(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    return framed(pack(">hhi", key, version, correlation_id) + _text("app") + body)


def _array(entries: Iterable[bytes]) -> bytes:
    parts = list(entries)
    return pack(">i", len(parts)) + b"".join(parts)


def _text(text: str) -> bytes:
    return pack(">h", len(text.encode())) + text.encode()


def _bytes(data: bytes | None) -> bytes:
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data
