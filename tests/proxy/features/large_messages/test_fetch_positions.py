"""Where a client reads, across the requests of a fetch session."""

from __future__ import annotations

import pytest
from support import oracle
from support.fetches import VERSIONS, fetch_request
from support.produce_requests import topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.features.large_messages.fetch_positions import NOWHERE, FetchPosition, FetchPositions

MIB = 1 << 20


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_says_where_its_client_reads(version: int) -> None:
    positions = FetchPositions(fetch_request(version, {"orders": {0: 5, 3: 7}}, isolation_level=1), version, None)
    key = topic_id("orders") if version >= 13 else "orders"
    assert positions.of(key, 0) == FetchPosition(5, MIB)
    assert positions.of(key, 3) == FetchPosition(7, MIB)
    assert positions.of(key, 4) == NOWHERE
    assert (positions.is_committed_only, positions.max_bytes) == (True, MIB)


def test_a_session_keeps_what_is_not_named_again() -> None:
    first = FetchPositions(fetch_request(12, {"orders": {0: 5, 1: 7}, "other": {0: 1}}, epoch=0), 12, None)
    second = FetchPositions(fetch_request(12, {"orders": {1: 8}}, epoch=1, session=9), 12, first)
    found = [second.of(*place).offset for place in (("orders", 0), ("orders", 1), ("other", 0))]
    assert found == [5, 8, 1]
    assert first.of("orders", 1).offset == 7


def test_a_session_forgets_what_it_is_asked_to() -> None:
    first = FetchPositions(fetch_request(12, {"orders": {0: 5, 1: 7}}, epoch=0), 12, None)
    request = oracle.request(
        ApiKey.FETCH, 12, replica_id=-1, session_id=9, session_epoch=1, rack_id="",
        forgotten_topics_data=[{"topic": "orders", "partitions": [0]}],
    )  # fmt: skip
    second = FetchPositions(oracle.request_frame(request, 1), 12, first)
    assert (second.of("orders", 0), second.of("orders", 1).offset) == (NOWHERE, 7)


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_new_session_knows_nothing_of_the_one_before(epoch: int) -> None:
    first = FetchPositions(fetch_request(12, {"orders": {0: 5}}, epoch=0), 12, None)
    assert FetchPositions(fetch_request(12, {"orders": {1: 8}}, epoch=epoch), 12, first).of("orders", 0) == NOWHERE


def test_bytes_that_are_no_request_raise_codec_error() -> None:
    with pytest.raises(CodecError):
        FetchPositions(fetch_request(12, {"orders": {0: 5}})[:-9], 12, None)
