"""Responses to a client that is not read say for how long, in each version that can say it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import Dialogue, pieces, request
from support.fetches import fetch_request
from support.interception import fetch_response
from support.produce_requests import GOOD, produce_request, produce_response
from support.rate_limits import throttle_ms

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.pieces import Pieces, whole
from kafka_sidecar.codec.response_status import status_fields
from kafka_sidecar.proxy.relay.mute import marked_frame, throttle_place
from kafka_sidecar.proxy.relay.routes import versions

WITH_PLACE = [
    (key, version)
    for key in APIS
    if (served := versions(key)) is not None
    for version in range(served[0], served[1] + 1)
    if throttle_place(key, version) is not None
]
KNOWN_BY_KIO = [pair for pair in WITH_PLACE if pair[0] != ApiKey.PRODUCE or pair[1] >= 3]


def response_of(key: int, version: int, broker_ms: int) -> bytes:
    entity = oracle.response(key, version, throttle_time=timedelta(milliseconds=broker_ms))
    return oracle.response_frame(entity, 7)


def readable(pair: tuple[int, int]) -> bool:
    try:
        response_of(*pair, 0)
    except Exception:  # noqa: BLE001 - the independent implementation does not have each version
        return False
    return True


@pytest.mark.parametrize(("key", "version"), [pair for pair in KNOWN_BY_KIO if readable(pair)])
def test_the_longer_throttle_time_is_said_in_each_version(key: int, version: int) -> None:
    for broker_ms, said in ((0, 1500), (1400, 1500), (9000, 9000)):
        frame = response_of(key, version, broker_ms)
        new = whole(marked_frame(key, version, frame, 1.5))
        assert throttle_ms(key, version, new) == said
        assert len(new) == len(frame)


def test_nearly_all_apis_can_say_it() -> None:
    keys = {key for key, _ in WITH_PLACE}
    assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.SHARE_FETCH, ApiKey.HEARTBEAT} <= keys
    assert len(keys) > 40


def test_versions_without_a_throttle_time_stay_as_they_are() -> None:
    assert throttle_place(ApiKey.PRODUCE, 0) is None
    assert status_fields(ApiKey.HEARTBEAT, 0) == "E"
    assert marked_frame(ApiKey.HEARTBEAT, 0, b"\0\0\0\6\0\0\0\7\0\0", 5.0) == b"\0\0\0\6\0\0\0\7\0\0"


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\4\0\0\0\7", b"\0\0\0\5\0\0\0\7\0", b"\0\0\0\x09\0\0\0\7\1\0\0\0\0"])
@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH])
def test_a_response_that_is_not_complete_stays_as_it_is(key: int, frame: bytes) -> None:
    assert marked_frame(key, 12, frame, 5.0) == frame


def test_a_produce_response_that_names_a_new_leader_stays_as_it_is() -> None:
    """Its throttle time is somewhere before the brokers; the client is muted all the same."""
    endpoints = [{"node_id": 1, "host": "a", "port": 9}]
    frame = oracle.response_frame(oracle.response(ApiKey.PRODUCE, 12, node_endpoints=endpoints), 7)
    assert marked_frame(ApiKey.PRODUCE, 12, frame, 5.0) == frame


def test_a_long_response_says_it_without_being_copied() -> None:
    records = fetch_response(12, {"orders": {0: {"records": bytes(3 << 20)}}})
    said = marked_frame(ApiKey.FETCH, 12, records, 5.0)
    assert isinstance(said, Pieces)
    assert len(said.parts[0]) < 100
    assert throttle_ms(ApiKey.FETCH, 12, whole(said)) == 5000
    again = marked_frame(ApiKey.FETCH, 12, said, 6.0)
    assert throttle_ms(ApiKey.FETCH, 12, whole(again)) == 6000


def muted(asked: bytes) -> Dialogue:
    talk = Dialogue()
    talk.client(asked)
    talk.session.mute(2.5, "shop")
    return talk


CASES = {
    "produce": (produce_request(9, {"orders": {0: GOOD}}), produce_response(9, {"orders": {0: 5}}), ApiKey.PRODUCE, 9),
    "fetch": (
        fetch_request(12, {"orders": {0: 0}}), fetch_response(12, {"orders": {0: {"records": GOOD}}}), ApiKey.FETCH, 12,
    ),
    "heartbeat": (request(ApiKey.HEARTBEAT, 4, 7, b"\0"), response_of(ApiKey.HEARTBEAT, 4, 0), ApiKey.HEARTBEAT, 4),
    "metadata": (
        request(ApiKey.METADATA, 12, 7, b"\0"),
        oracle.response_frame(
            oracle.response(ApiKey.METADATA, 12, brokers=[{"node_id": 1, "host": "h", "port": 9}]), 7
        ),
        ApiKey.METADATA, 12,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@given(cuts=st.lists(st.integers(0, 1000), max_size=4))
def test_responses_say_it_in_whatever_pieces_they_come(case: str, cuts: list[int]) -> None:
    asked, frame, key, version = CASES[case]
    talk = muted(asked)
    talk.broker(*pieces(frame, cuts))
    assert throttle_ms(key, version, talk.to_client) == 2500
    unmuted = Dialogue().client(asked).broker(*pieces(frame, cuts))
    assert throttle_ms(key, version, unmuted.to_client) == 0
    assert len(unmuted.to_client) == len(talk.to_client)


def test_the_time_is_that_which_is_left() -> None:
    asked, frame, key, version = CASES["produce"]
    talk = muted(asked)
    talk.now = 2.0
    talk.broker(frame)
    assert throttle_ms(key, version, talk.to_client) == 500


def test_once_the_client_is_read_again_nothing_is_said() -> None:
    asked, frame, *_ = CASES["produce"]
    talk = muted(asked)
    talk.now = 2.5
    talk.broker(frame)
    assert talk.to_client == frame


def test_a_shorter_time_changes_nothing_and_a_longer_one_counts() -> None:
    talk = Dialogue()
    for until in (2.0, 1.0, 3.0):
        talk.session.mute(until, f"limit{until:g}")
    talk.client(request(ApiKey.HEARTBEAT, 4, 7, b"\0"))
    assert talk.mutes == [(3.0, "limit3")]


def test_responses_of_our_own_tell_it_too() -> None:
    """ApiVersions that are newer than the sidecar knows have no throttle time at the start; their order is kept."""
    talk = Dialogue()
    talk.client(request(ApiKey.HEARTBEAT, 4, 1, b"\0"), request(ApiKey.API_VERSIONS, 9, 2, b"\0"))
    talk.session.mute(2.5, "shop")
    talk.broker(oracle.response_frame(oracle.response(ApiKey.HEARTBEAT, 4), 1))
    first, second = oracle.frames_of(talk.to_client)
    assert throttle_ms(ApiKey.HEARTBEAT, 4, first) == 2500
    assert second[4:8] == b"\0\0\0\2"
