"""acks of Produce requests: read from whatever part of the request has arrived."""

from __future__ import annotations

from itertools import product
from struct import pack

import pytest
from support.examples import for_each

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.acks import MAX_BYTES_BEFORE_ACKS, acks_at, read_head


def produce(version: int, acks: int, client_id: bytes | None = b"app", transactional_id: bytes | None = None) -> bytes:
    header = pack(">hhi", 0, version, 1)
    header += pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    if version >= 9:
        header += b"\x01\x05\x02ab"  # one unknown tag
        body = b"\x00" if transactional_id is None else bytes([len(transactional_id) + 1]) + transactional_id
    elif version >= 3:
        body = pack(">h", -1) if transactional_id is None else pack(">h", len(transactional_id)) + transactional_id
    else:
        body = b""
    frame = header + body + pack(">hi", acks, 30000) + b"rest"
    return pack(">i", len(frame)) + frame


def acks_of(version: int, data: bytes, at: int, size: int) -> int | None:
    here = acks_at(version, data, at, size)
    return None if here is None else int.from_bytes(data[here : here + 2], "big", signed=True)


VERSIONS = range(14)


@for_each(list(product(VERSIONS, [b"app", b"", None, b"x" * 300], [None, b"", b"tx-1"])))
def test_the_acks_are_found_wherever_they_stand(request: tuple[int, bytes | None, bytes | None]) -> None:
    version, client_id, transactional_id = request
    for acks in (-1, 0, 1):
        data = produce(version, acks, client_id, transactional_id)
        assert acks_of(version, b"__" + data, 2, len(data)) == acks
        names = [None if name is None else name.decode() for name in (client_id, transactional_id)]
        assert read_head(version, b"__" + data, 2) == (names[0], names[1] if version >= 3 else None, acks)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_before_its_acks_needs_more_bytes(version: int) -> None:
    data = produce(version, 1)
    acks_end = len(data) - len(b"rest") - 4
    for length in range(12, acks_end):
        assert acks_of(version, data[:length], 0, len(data)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_ends_before_its_acks_is_refused(version: int) -> None:
    whole = produce(version, 1)
    acks_end = len(whole) - len(b"rest") - 4
    for length in range(12, acks_end):
        with pytest.raises(CodecError):
            acks_of(version, whole[:length] + b"next frame" * 5, 0, length)


def test_the_longest_names_that_kafka_allows_are_waited_for() -> None:
    data = produce(13, 0, b"c" * 32767)
    assert acks_of(13, data, 0, len(data)) == 0
    assert acks_of(13, data[:32767], 0, len(data)) is None


@pytest.mark.parametrize("endless", [b"\xff\xff\xff\xff\x0f", b"\x01\x05\xff\xff\xff\xff\x0f"])
def test_an_endless_name_or_tag_before_acks_is_not_waited_for(endless: bytes) -> None:
    head = pack(">ihhih", 90 << 20, 0, 13, 1, 3) + b"app" + endless
    assert acks_of(13, head, 0, 90 << 20) is None
    with pytest.raises(CodecError, match="has no acks"):
        acks_of(13, head + bytes(MAX_BYTES_BEFORE_ACKS), 0, 90 << 20)
