"""Requests and responses that an exchange looks into: collected, paused, answered in their order (design D6)."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import oracle
from support.dialogue import Dialogue, pieces, produce, produced, request, response
from support.oracle import framed

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.large_bytes import MIN_LARGE_BYTES
from kafka_sidecar.plugins.effects import TURN, Need, Steps, Work
from kafka_sidecar.proxy.relay.exchange import Client, Exchange, Forward, Last, Outcome, Respond, RouteError, TopicIds
from kafka_sidecar.proxy.relay.exchange_driver import MAX_TURN_S
from kafka_sidecar.proxy.relay.frames import FRAMES_A_CHECK

LOOKED_INTO = ApiKey.DELETE_TOPICS  # any API whose responses are not rewritten
RELAYED = ApiKey.HEARTBEAT
ANY_CUTS = st.lists(st.integers(0, 10_000), max_size=8)
NEED = TopicIds(("orders",))

OnRequest = Callable[[bytes], Steps[Outcome]]
OnResponse = Callable[[bytes], Steps[bytes]]


@dataclass
class Stub(Exchange):
    """Does with request and response what the test says."""

    on_request: OnRequest
    on_response: OnResponse | None = None
    requests: list[bytes] = field(default_factory=list)
    responses: list[bytes] = field(default_factory=list)
    lost_because: list[str] = field(default_factory=list)

    def request(self, frame: bytes) -> Steps[Outcome]:
        self.requests.append(frame)
        outcome = yield from self.on_request(frame)
        if isinstance(outcome, Forward):
            return Forward(outcome.frame, self.on_response is not None)
        return outcome

    def response(self, frame: bytes) -> Steps[bytes]:
        assert self.on_response is not None
        self.responses.append(frame)
        return (yield from self.on_response(frame))

    def lost(self, why: str) -> Work | None:
        self.lost_because.append(why)
        return Work(lambda: why)


def decide(make: Callable[[bytes], Any], needs: int = 0) -> Callable[[bytes], Any]:
    """Steps that need something so many times, and then decide."""

    def steps(frame: bytes) -> Generator[Need, Any, Any]:
        for _ in range(needs):
            yield NEED
        return make(frame)

    return steps


forward = decide(Forward)
same = decide(lambda frame: frame)


def dialogue(*exchanges: Stub | None, key: int = LOOKED_INTO) -> Dialogue:
    """These exchanges look into the requests of one API, one after the other; None: that one is relayed."""
    left = list(exchanges)

    def begin(data: bytes, at: int, size: int, client: Client) -> Exchange | None:
        return left.pop(0)

    return Dialogue(exchange=lambda api, version: begin if api == key else None)


def looked_into(correlation_id: int, body: bytes = b"body of a request") -> bytes:
    return request(LOOKED_INTO, 3, correlation_id, body)


def relayed(correlation_id: int) -> bytes:
    return request(RELAYED, 3, correlation_id)


def local(correlation_id: int) -> bytes:
    return response(correlation_id, b"answered here")


def respond(frame: bytes) -> Respond:
    return Respond(local(int.from_bytes(frame[8:12], "big")))


def test_a_frame_that_goes_on_unchanged_is_the_chunk_itself() -> None:
    talk, chunk = dialogue(Stub(forward)), looked_into(1)
    assert talk.session.from_client(chunk) is chunk


@given(ANY_CUTS, ANY_CUTS)
def test_frames_are_collected_whole_however_they_are_cut(requests: list[int], responses: list[int]) -> None:
    exchange = Stub(
        decide(lambda frame: Forward(framed(b"new " + frame))), decide(lambda frame: framed(b"changed " + frame))
    )
    talk = dialogue(exchange)
    talk.client(*pieces(relayed(1) + looked_into(2) + relayed(3), requests))
    assert exchange.requests == [looked_into(2)]
    assert talk.to_broker == relayed(1) + framed(b"new " + looked_into(2)) + relayed(3)
    got = response(1) + response(2, b"from the broker") + response(3)
    talk.broker(*pieces(got, responses))
    assert exchange.responses == [response(2, b"from the broker")]
    assert talk.to_client == response(1) + framed(b"changed " + response(2, b"from the broker")) + response(3)
    assert talk.cause is None


@pytest.mark.parametrize("steps", [forward, decide(respond), decide(lambda frame: Last(b"", "why", "detail"))])
def test_nothing_of_a_request_is_kept_once_it_is_decided(steps: OnRequest) -> None:
    exchange = Stub(steps)
    gone = weakref.ref(exchange)
    talk = dialogue(exchange)
    del exchange
    talk.client(looked_into(1))
    assert gone() is None


def test_nothing_of_an_exchange_is_kept_once_its_response_has_passed() -> None:
    exchange = Stub(forward, same)
    gone = weakref.ref(exchange)
    talk = dialogue(exchange)
    del exchange
    talk.client(looked_into(1))
    assert gone() is not None
    talk.broker(response(1))
    assert talk.to_client == response(1)
    assert gone() is None


@given(ANY_CUTS, ANY_CUTS)
def test_local_responses_come_in_request_order(requests: list[int], responses: list[int]) -> None:
    talk = dialogue(*(Stub(decide(respond)) for _ in range(3)))
    talk.client(*pieces(looked_into(1) + relayed(2) + looked_into(3) + looked_into(4) + relayed(5), requests))
    assert talk.to_broker == relayed(2) + relayed(5)
    assert talk.to_client == local(1)
    talk.broker(*pieces(response(2, b"two") + response(5, b"five"), responses))
    assert talk.to_client == local(1) + response(2, b"two") + local(3) + local(4) + response(5, b"five")


def test_what_is_answered_here_is_counted_as_such() -> None:
    talk = dialogue(Stub(decide(respond))).client(looked_into(1))
    counts = talk.metrics.apis[LOOKED_INTO]
    assert (counts.requests, counts.answered, counts.answered_bytes) == (1, 1, len(looked_into(1)))
    assert counts.rewritten_bytes == len(local(1))
    assert (talk.session.responses, talk.session.in_flight) == (1, 0)


def test_a_request_that_is_looked_into_counts_as_in_flight() -> None:
    talk = dialogue(Stub(decide(Forward, needs=1)))
    talk.client(looked_into(1)[:20])
    assert (talk.session.responses, talk.session.in_flight) == (0, 1)
    talk.client(looked_into(1)[20:])
    assert (talk.session.responses, talk.session.in_flight) == (0, 1)
    talk.meet()
    assert (talk.session.responses, talk.session.in_flight) == (0, 1)
    talk.broker(response(1))
    assert (talk.session.responses, talk.session.in_flight) == (1, 0)


@given(ANY_CUTS)
def test_no_request_overtakes_one_that_is_paused_and_the_other_direction_goes_on(cuts: list[int]) -> None:
    talk = dialogue(Stub(decide(Forward, needs=1)), None)
    talk.client(relayed(1))
    talk.client(*pieces(looked_into(2) + relayed(3) + looked_into(4) + relayed(5), cuts))
    assert talk.needs == [NEED]
    assert talk.to_broker == relayed(1)
    talk.broker(response(1, b"meanwhile"))
    assert talk.to_client == response(1, b"meanwhile")
    talk.meet()
    assert talk.needs == []
    assert talk.to_broker == relayed(1) + looked_into(2) + relayed(3) + looked_into(4) + relayed(5)
    talk.broker(*map(response, (2, 3, 4, 5)))
    assert talk.to_client == response(1, b"meanwhile") + b"".join(map(response, (2, 3, 4, 5)))


def test_an_exchange_may_need_several_things_before_it_decides() -> None:
    twice = decide(respond, needs=2)
    talk = dialogue(Stub(twice), Stub(twice)).client(looked_into(1) + looked_into(2))
    for received in (b"", local(1), local(1), local(1) + local(2)):
        assert talk.needs == [NEED]
        talk.meet()
        assert talk.to_client == received
    assert talk.to_broker == b""
    assert talk.needs == []


def test_the_result_of_a_need_is_what_the_exchange_gets() -> None:
    def steps(frame: bytes) -> Steps[Outcome]:
        return Forward(framed((yield NEED)["orders"]))

    talk = dialogue(Stub(steps)).client(looked_into(1)).meet({"orders": b"id"})
    assert talk.to_broker == framed(b"id")


def test_an_exchange_may_handle_that_a_need_cannot_be_met() -> None:
    def steps(frame: bytes) -> Steps[Outcome]:
        try:
            yield NEED
        except OSError as error:
            return Forward(framed(str(error).encode()))
        return Forward(frame)

    talk = dialogue(Stub(steps)).client(looked_into(1)).meet(error=OSError("no broker"))
    assert talk.to_broker == framed(b"no broker")
    talk = dialogue(Stub(decide(Forward, needs=1))).client(looked_into(1))
    with pytest.raises(OSError, match="no broker"):
        talk.meet(error=OSError("no broker"))


def test_bytes_that_come_while_a_request_is_paused_are_kept_in_order() -> None:
    talk = dialogue(Stub(decide(Forward, needs=1)))
    talk.client(looked_into(1))
    talk.client(*pieces(relayed(2) + relayed(3), list(range(0, 60, 3))))
    talk.meet()
    assert talk.to_broker == looked_into(1) + relayed(2) + relayed(3)


def take_turns(frame: bytes) -> Steps[Outcome]:
    for _ in range(3):
        yield TURN
    return Forward(frame)


@pytest.mark.parametrize(("spent_s", "pauses"), [(0.0, 0), (MAX_TURN_S, 3)])
def test_others_have_a_turn_only_where_the_loops_budget_is_spent(spent_s: float, pauses: int) -> None:
    talk = dialogue(Stub(take_turns))
    talk.budget.spent_s = spent_s
    talk.client(looked_into(1))
    for _ in range(pauses):
        assert talk.needs == [TURN]
        assert talk.to_broker == b""
        talk.meet()
    assert talk.to_broker == looked_into(1)


@pytest.mark.parametrize("from_broker", [False, True])
def test_many_frames_of_one_read_are_cut_in_turns(from_broker: bool) -> None:
    """A client may pack thousands of requests into one read."""
    count = 3 * FRAMES_A_CHECK
    talk = dialogue()
    requests, responses = [b"".join(map(one, range(count))) for one in (relayed, response)]
    if from_broker:
        talk.client(requests)
    talk.budget.spent_s = MAX_TURN_S
    data = responses if from_broker else requests
    (talk.broker if from_broker else talk.client)(data)
    for turn in range(1, 4):
        passed = talk.to_client if from_broker else talk.to_broker
        assert len(passed) <= len(data) * turn // 3
        if talk.needs:
            assert talk.needs == [TURN]
            talk.meet()
    assert (talk.to_client if from_broker else talk.to_broker) == data
    assert talk.cause is None


@pytest.mark.parametrize("from_broker", [False, True])
def test_frames_of_one_read_that_take_long_to_look_into_are_cut_in_turns_however_few_they_are(
    from_broker: bool,
) -> None:
    """A read has room for eight requests of 30 KB, which may have long names or patterns."""
    count, took_s, began = FRAMES_A_CHECK // 2, MAX_TURN_S / 3, 0.0

    def slow(frame: bytes) -> Steps[Any]:
        talk.now += took_s
        return (yield from same(frame) if from_broker else forward(frame))

    talk = dialogue(*[Stub(forward, slow) if from_broker else Stub(slow) for _ in range(count)])
    requests, responses = [b"".join(map(one, range(count))) for one in (looked_into, response)]
    if from_broker:
        talk.client(requests)
    (talk.broker if from_broker else talk.client)(responses if from_broker else requests)
    turns = 1
    while talk.needs:
        assert talk.needs == [TURN]
        assert talk.now - began <= MAX_TURN_S + took_s
        talk.now += 1.0  # in which others are served
        began = talk.now
        talk.budget.renew()
        talk.meet()
        turns += 1
    assert 2 < turns <= count // 2  # what was waited for has taken no time of others
    assert talk.to_client == responses if from_broker else talk.to_broker == requests


def test_a_large_request_is_made_one_object_in_a_thread_and_is_not_copied_after_that() -> None:
    """One copy of 90 MB takes 70 ms, in which no other client is served."""
    large, stub = looked_into(1, bytes(MIN_LARGE_BYTES)), Stub(forward)
    talk = dialogue(stub).client(*pieces(large + relayed(2), list(range(0, len(large), 256_000))))
    (need,) = talk.needs
    assert isinstance(need, Work)
    assert not stub.requests
    frame = need.run()
    (driver,) = talk.paused
    assert talk.session.resume(driver, frame) == relayed(2)
    (left,) = driver.take_left()
    assert left is frame
    assert frame == large


def test_a_large_response_is_not_copied() -> None:
    large = response(1, bytes(MIN_LARGE_BYTES))
    seen: list[bytes] = []

    def look(frame: bytes) -> Steps[bytes]:
        seen.append(frame)
        return frame
        yield

    talk = dialogue(Stub(forward, look)).client(looked_into(1))
    out = [talk.session.from_broker(chunk) for chunk in pieces(large, list(range(0, len(large), 256_000)))]
    assert out[-1] is seen[0]
    assert seen[0] == large


def last(frame: bytes) -> Last:
    return Last(framed(b"what is left"), "rejected_without_acks", "why")


@pytest.mark.parametrize("needs", [0, 1])
def test_nothing_after_a_last_request_reaches_the_broker(needs: int) -> None:
    talk = dialogue(Stub(decide(last, needs))).client(relayed(1) + looked_into(2) + relayed(3))
    if needs:
        assert talk.cause is None
        talk.meet()
    assert talk.to_broker == relayed(1) + framed(b"what is left")
    assert talk.session.from_client(relayed(4)) == b""


@pytest.mark.parametrize("needs", [0, 1])
def test_a_last_request_ends_the_connection_after_the_responses_to_earlier_ones(needs: int) -> None:
    talk = dialogue(Stub(decide(last, needs))).client(relayed(1) + relayed(2) + looked_into(3))
    if needs:
        talk.meet()
    talk.broker(response(1))
    assert talk.session.closing is None
    talk.broker(response(2)[:5], response(2)[5:])
    assert talk.to_client == response(1) + response(2)
    assert (talk.cause, talk.detail) == ("rejected_without_acks", "why")


def test_a_request_without_acks_is_not_waited_for() -> None:
    talk = dialogue(Stub(decide(Forward, needs=1)), None, key=ApiKey.PRODUCE)
    talk.client(produce(9, 1, acks=0) + produce(9, 2, acks=1)).meet()
    assert talk.session.in_flight == 1
    talk.broker(produced(9, 2))
    assert (talk.cause, talk.session.responses) == (None, 1)


@given(ANY_CUTS)
def test_a_response_that_is_paused_stops_the_brokers_direction_only(cuts: list[int]) -> None:
    longer = decide(lambda frame: framed(b"longer than it was " + frame), needs=1)
    talk = dialogue(Stub(forward, longer), Stub(decide(respond))).client(looked_into(1) + relayed(2))
    talk.broker(*pieces(response(1) + response(2), cuts))
    assert talk.needs == [NEED]
    talk.client(looked_into(3) + relayed(4))
    assert talk.to_broker == looked_into(1) + relayed(2) + relayed(4)
    assert talk.to_client == b""
    talk.meet()
    new = framed(b"longer than it was " + response(1))
    assert talk.to_client == new + response(2) + local(3)
    assert talk.metrics.apis[LOOKED_INTO].rewritten_bytes == len(new) - len(response(1)) + len(local(3))


def test_a_response_may_be_paused_twice() -> None:
    talk = dialogue(Stub(forward, decide(lambda frame: frame, needs=2)))
    talk.client(looked_into(1)).broker(response(1) + response(2)[:3])
    assert talk.meet().to_client == b""
    assert talk.meet().to_client == response(1)


def break_codec(frame: bytes) -> Outcome:
    raise CodecError("no such message")


def forbid(frame: bytes) -> Outcome:
    raise RouteError("too_many_requests", "enough")


@pytest.mark.parametrize(("make", "cause"), [(break_codec, "unreadable_request"), (forbid, "too_many_requests")])
@pytest.mark.parametrize("needs", [0, 1])
def test_a_request_that_cannot_be_read_ends_the_connection(
    make: Callable[[bytes], Outcome], cause: str, needs: int
) -> None:
    talk = dialogue(Stub(decide(make, needs))).client(relayed(1) + looked_into(2) + relayed(3))
    if needs:
        talk.meet()
    assert (talk.cause, talk.to_broker) == (cause, relayed(1))


@pytest.mark.parametrize("outcome", [Respond(b"x"), Last(b"x", "c", "d")])
def test_a_response_can_neither_be_answered_nor_ended(outcome: Outcome) -> None:
    talk = dialogue(Stub(forward, decide(lambda frame: outcome))).client(looked_into(1)).broker(response(1))
    assert (talk.cause, talk.to_client) == ("unreadable_response", b"")


def test_what_all_responses_of_an_api_go_through_still_happens_after_the_exchange() -> None:
    nodes = [{"node_id": 1, "host": "broker", "port": 9092}]
    sent = oracle.response_frame(oracle.response(ApiKey.METADATA, 12, brokers=nodes), 1)
    exchange = Stub(forward, same)
    talk = dialogue(exchange, key=ApiKey.METADATA)
    talk.client(oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1)).broker(sent)
    assert exchange.responses == [sent]
    (node,) = oracle.read_response(ApiKey.METADATA, 12, talk.to_client)[1].brokers
    assert (node.host, node.port) == ("sidecar.local", 20001)


def test_local_responses_without_end_end_the_connection() -> None:
    large = Respond(response(1, bytes(1 << 20)))
    talk = dialogue(*(Stub(decide(lambda frame: large)) for _ in range(5))).client(relayed(0))
    talk.client(*(looked_into(1) for _ in range(4)))
    assert talk.cause is None
    talk.client(looked_into(1))
    assert talk.cause == "too_many_requests"


# A connection that is lost


@pytest.mark.parametrize("paused", [False, True])
def test_a_lost_connection_is_reported_once_for_each_exchange_without_a_response(paused: bool) -> None:
    waiting, answered = Stub(forward, same), Stub(forward, same)
    begun = Stub(decide(Forward, needs=1)) if paused else Stub(forward, same)
    talk = dialogue(answered, waiting, begun).client(looked_into(1) + looked_into(2) + looked_into(3))
    talk.broker(response(1))
    work = talk.session.lost("the broker closed its connection") + talk.session.lost("again")
    assert [exchange.lost_because for exchange in (answered, waiting, begun)] == [
        [], ["the broker closed its connection"], ["the broker closed its connection"],
    ]  # fmt: skip
    assert [one.run() for one in work] == ["the broker closed its connection"] * 2


def test_the_latency_begins_with_the_request_however_long_it_is_held_and_the_time_held_is_counted_apart() -> None:
    talk = dialogue(Stub(decide(Forward, needs=1)), None)
    asked = request(LOOKED_INTO, 4, 1, b"x" * 50)
    talk.client(request(RELAYED, 3, 9), asked[:30])
    talk.now += 0.25
    talk.client(asked[30:])
    talk.now += 0.25
    talk.broker(response(9, b"y"))  # what comes meanwhile does not matter
    talk.now += 0.5
    talk.meet()
    talk.now += 2.0
    talk.broker(response(1, b"answer"))
    counts = talk.metrics.apis[LOOKED_INTO]
    assert counts.held_durations[(1_000_000).bit_length()] == sum(counts.held_durations) == counts.held == 1
    assert (counts.held_us, counts.latency_us) == (1_000_000, 3_000_000)
    assert sum(talk.metrics.apis[RELAYED].held_durations) == 0
