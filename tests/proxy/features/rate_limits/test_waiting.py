"""Many connections that share a rate: their requests wait for each other, so that what passes has it."""

from __future__ import annotations

from typing import Any

import pytest
from support.dialogue import request, response
from support.fetches import fetch_request
from support.interception import fetch_response
from support.produce_requests import batch, produce_request, produce_response
from support.rate_limits import Limited

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.rate_limits.buckets import Buckets
from kafka_sidecar.proxy.features.rate_limits.waiting import Delay

RECORDS = batch(*["x" * 100] * 10)
SIZE = len(RECORDS)


def asked(at: int) -> bytes:
    return request(ApiKey.HEARTBEAT, 0, at)


def sent(at: int, topic: str = "orders", acks: int = -1) -> bytes:
    return produce_request(9, {topic: {0: RECORDS}}, acks, at)


def connections(number: int, *limits: dict[str, Any]) -> list[Limited]:
    """So many at the same sidecar."""
    buckets = Buckets()
    return [Limited(*limits, buckets=buckets).begin() for _ in range(number)]


def waits(talk: Limited) -> list[float]:
    return [round(need.seconds, 6) for need in talk.needs if isinstance(need, Delay)]


def test_the_first_requests_of_connections_pass_one_after_the_other() -> None:
    talks = connections(5, {"requests": 1})
    for talk in talks:
        talk.client(asked(1))
    assert [waits(talk) for talk in talks] == [[], [], [1.0], [2.0], [3.0]]
    assert [talk.to_broker for talk in talks[:2]] == [asked(1)] * 2
    assert [talk.to_broker for talk in talks[2:]] == [b""] * 3
    assert [talk.muted_s for talk in talks] == [0.0, 1.0, 2.0, 3.0, 4.0]
    talks[2].meet()
    assert talks[2].to_broker == asked(1)


def test_over_a_minute_what_many_connections_ask_has_the_rate() -> None:
    """Each asks as soon as it may; who waits is let through in time."""
    talks, passed, began = connections(50, {"requests": 10}), list[float](), 1000.0
    now, due, held = began, dict.fromkeys(range(50), began), dict[int, float]()
    while now < began + 60:
        for at in [at for at, since in due.items() if since <= now]:
            talk = talks[at]
            talk.now = now
            if held.pop(at, None) is None:
                talk.client(asked(1))
                if wait := waits(talk):
                    held[at], due[at] = now, now + wait[0]
                    continue
            else:
                talk.meet()
            assert talk.to_broker == asked(1)
            passed.append(now)
            talk.to_broker = b""
            talk.broker(response(1))
            due[at] = max(talk.session.muted_until, now)
        now += 0.01
    assert len(passed) <= 10 * 60 + 10 + 1
    assert len(passed) >= 10 * 60 - 1


def test_a_client_alone_waits_for_none_of_its_requests() -> None:
    talk = connections(1, {"requests": 1})[0]
    for at in range(1, 20):
        talk.client(asked(at))
        assert waits(talk) == []
        talk.now = max(talk.session.muted_until, talk.now)
    assert talk.session.gates == ()


def test_no_request_waits_longer_than_max_wait() -> None:
    talks = connections(5, {"requests": 1, "max_wait": "2s"})
    for talk in talks:
        talk.client(asked(1))
    assert [waits(talk) for talk in talks] == [[], [], [1.0], [2.0], [2.0]]
    assert [talk.muted_s for talk in talks] == [0.0, 1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("acks", [-1, 0])
def test_records_for_a_topic_that_is_limited_wait_and_others_do_not(acks: int) -> None:
    talks = connections(3, {"produce_bytes": SIZE, "topics": ["orders"]})
    for talk in talks:
        talk.client(sent(1, "free", acks))
        assert talk.to_broker == sent(1, "free", acks)
    talks = connections(4, {"produce_bytes": SIZE, "topics": ["orders"]})
    for talk in talks:
        talk.client(sent(1, acks=acks))
    assert [waits(talk) for talk in talks] == [[], [], [1.0], [2.0]]


def test_a_connection_whose_gate_has_opened_waits_again_once_others_owe_something() -> None:
    first, second = connections(2, {"produce_bytes": SIZE})
    first.client(sent(1)).broker(produce_response(9, {"orders": {0: 0}}, 1))
    assert first.session.gates == ()
    second.client(sent(1))
    first.client(sent(2))
    assert waits(first) == []
    assert first.session.gates
    first.now = second.now = first.now + 2
    second.client(sent(2))
    first.client(sent(3))
    assert waits(first) == [1.0]


def test_a_consumer_waits_for_what_others_have_got() -> None:
    buckets, limit = Buckets(), {"consume_bytes": SIZE, "topics": ["orders"]}
    asked, other = fetch_request(11, {"orders": {0: 0}}), fetch_request(11, {"free": {0: 0}})
    first = Limited(limit, buckets=buckets).begin()
    for _ in range(3):
        first.client(asked).broker(fetch_response(11, {"orders": {0: RECORDS}}))
    late = Limited(limit, buckets=buckets).begin()
    late.client(asked)
    assert waits(late) == [2.0]
    late = Limited(limit, buckets=buckets).begin()
    late.client(other)
    assert waits(late) == []


def test_where_memory_for_frames_is_scarce_nothing_waits_in_it() -> None:
    talks = connections(3, {"requests": 1})
    for talk in talks[:2]:
        talk.client(asked(1))
    talks[2].memory.add(talks[2].session.account, talks[2].memory.limit // 2 + 1)
    talks[2].client(asked(1))
    assert waits(talks[2]) == []
    assert talks[2].to_broker == asked(1)


def test_a_connection_whose_first_request_says_who_it_is_waits_with_it() -> None:
    buckets, limit = Buckets(), {"requests": 1, "client_ids": ["app"]}
    talks = [Limited(limit, buckets=buckets).begin() for _ in range(4)]
    for talk in talks:
        talk.client(asked(1))
    assert [waits(talk) for talk in talks] == [[], [], [1.0], [2.0]]


def test_logins_and_what_the_sidecar_answers_do_not_wait() -> None:
    (talk,) = connections(1, {"requests": 1})
    (gate,) = talk.session.gates
    assert not gate.holds(ApiKey.SASL_AUTHENTICATE, is_local=False)
    assert not gate.holds(ApiKey.API_VERSIONS, is_local=False)
    assert not gate.holds(ApiKey.METADATA, is_local=True)
    assert gate.holds(ApiKey.METADATA, is_local=False)


def test_requests_that_no_limit_counts_do_not_wait() -> None:
    (talk,) = connections(1, {"produce_bytes": 1})
    (gate,) = talk.session.gates
    talk.client(asked(1))
    assert talk.to_broker == asked(1)
    assert talk.session.gates == (gate,)
    assert [gate.holds(key, is_local=False) for key in (ApiKey.METADATA, ApiKey.FETCH, ApiKey.PRODUCE)] == [
        False, False, True,
    ]  # fmt: skip
