"""Fetch before version 4: topics of which something is hidden are refused, all others are relayed."""

from __future__ import annotations

import pytest
from support.client import FakeClient
from support.dialogue import Dialogue, pieces, response
from support.driven import Driven
from support.features import started
from support.old_requests import CORRELATION_ID, fetch_request

from kafka_sidecar.codec.errors import CodecError, TooManyError
from kafka_sidecar.proxy.exchanges.fetch import OldFetchExchange, begin_old

HIDES = {"type": "support.interception:Hides", "topics": ["orders"]}
READS = {"type": "support.interception:Reads", "topics": ["*"]}
each_version = pytest.mark.parametrize("version", range(4))


@each_version
@pytest.mark.parametrize("cuts", [[], [9], [40], [60, 75]])
def test_a_fetch_of_topics_of_which_nothing_is_hidden_is_relayed(version: int, cuts: list[int]) -> None:
    talk = Dialogue(exchange=started(HIDES, READS).exchange)
    frame = fetch_request(version, {("free", 0): 5, ("other", 1): 7})
    for number in (1, 2):
        talk.client(*pieces(frame, cuts))
        assert (talk.cause, talk.to_broker) == (None, frame * number)
    answer = response(CORRELATION_ID, bytes(8))
    assert talk.broker(answer, answer).to_client == answer * 2


@each_version
@pytest.mark.parametrize("cuts", [[], [9], [40], [60, 75]])
def test_a_fetch_of_a_topic_of_which_something_is_hidden_ends_the_connection(version: int, cuts: list[int]) -> None:
    talk = Dialogue(exchange=started(HIDES).exchange)
    talk.client(*pieces(fetch_request(version, {("free", 0): 5, ("orders", 1): 7}), cuts))
    assert (talk.cause, talk.to_broker) == ("unsupported_version", b"")
    assert f"Fetch version {version} is not relayed for topics of which" in talk.detail


def test_a_request_that_ends_before_its_topics_raises() -> None:
    frame = fetch_request(2, {("free", 0): 5})[:30]
    with pytest.raises(CodecError, match="cannot be read"):
        Driven(OldFetchExchange(2, lambda topic: True, 10)).request(frame)


@each_version
def test_a_request_with_too_many_partitions_is_not_relayed(version: int) -> None:
    frame = fetch_request(version, {("free", at): 0 for at in range(11)})
    exchange = begin_old(version, lambda topic: False, 10, frame, 0, len(frame), FakeClient())
    assert isinstance(exchange, OldFetchExchange)
    with pytest.raises(TooManyError):
        Driven(exchange).request(frame)
