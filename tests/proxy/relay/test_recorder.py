"""The flight recorder: headers of the last requests and responses, in bounded memory, without contents."""

from __future__ import annotations

from struct import pack

import pytest
from support.dialogue import Dialogue, produce, produced, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, Outcome, Send
from kafka_sidecar.proxy.relay.responses import RequestLine, request_lines

SECRET = b"4111 1111"
ERROR, THROTTLED = 6, 1500


def lines(dialogue: Dialogue) -> list[RequestLine]:
    return request_lines(dialogue.session.recorder, dialogue.now)


def test_a_request_is_recorded_with_its_response() -> None:
    talk = Dialogue().client(asked := request(ApiKey.HEARTBEAT, 3, 7, SECRET))
    talk.now += 0.25
    talk.broker(answered := response(7, pack(">ih", THROTTLED, ERROR) + SECRET))
    talk.now += 1.0
    (line,) = lines(talk)
    assert (line.api, line.version, line.correlation_id, line.ago_s) == ("Heartbeat", 3, 7, 1.25)
    assert (line.request_bytes, line.response_bytes, line.response_after_s) == (len(asked), len(answered), 0.25)
    assert (line.response, line.status.throttle_ms, line.status.error_code) == ("broker", THROTTLED, ERROR)
    assert str(line) == (
        f"Heartbeat v3 #7, {len(asked)} bytes, 1.250 s ago: {len(answered)} bytes after 0.250 s, error 6, "
        "throttled 1500 ms"
    )


def test_requests_that_wait_come_last_and_say_so() -> None:
    talk = Dialogue().client(request(ApiKey.HEARTBEAT, 3, 1), request(ApiKey.HEARTBEAT, 3, 2))
    talk.broker(response(1, bytes(6)))
    answered, awaited = lines(talk)
    assert (answered.response, awaited.response, awaited.response_after_s) == ("broker", "awaited", None)
    assert str(awaited).endswith(": no response")


def test_a_produce_without_acks_is_recorded_as_one_that_gets_no_response() -> None:
    talk = Dialogue().client(produce(7, 1, acks=0), produce(7, 2, acks=1))
    talk.broker(produced(7, 2))
    silent, answered = lines(talk)
    assert (silent.correlation_id, silent.response, answered.response) == (1, "none", "broker")
    assert str(silent).endswith(": no response expected")


def test_a_response_of_the_sidecar_is_recorded_as_its_own() -> None:
    talk = Dialogue().client(request(ApiKey.API_VERSIONS, 99, 3))
    (line,) = lines(talk)
    assert (line.response, line.correlation_id, line.response_bytes) == ("sidecar", 3, len(talk.to_client))
    assert "bytes by the sidecar after" in str(line)


def test_only_the_last_requests_are_kept() -> None:
    talk = Dialogue()
    for number in range(40):
        talk.client(request(ApiKey.HEARTBEAT, 3, number)).broker(response(number, bytes(6)))
    assert [line.correlation_id for line in lines(talk)] == list(range(24, 40))
    for number in range(100):
        talk.client(request(ApiKey.HEARTBEAT, 3, number))
    assert len(lines(talk)) == 32  # as many that wait


def test_nothing_of_the_contents_is_kept() -> None:
    talk = Dialogue().client(request(ApiKey.METADATA, 1, 7, SECRET))
    talk.client(request(ApiKey.PRODUCE, 2, 8, pack(">h", 1) + SECRET))
    assert SECRET not in repr(list(talk.session.recorder)).encode()


class Asks(Exchange):
    """Sends a request of its own before it forwards."""

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield Send((request(ApiKey.HEARTBEAT, 3, 900),))
        return Forward(frame, wants_response=True)

    def response(self, frame: bytes) -> Steps[bytes]:
        return frame
        yield


def test_what_an_exchange_handles_is_recorded_and_its_own_requests_are_not() -> None:
    talk = Dialogue(exchange=lambda key, version: lambda data, at, size, client: Asks())
    asked = request(ApiKey.HEARTBEAT, 3, 5)
    talk.client(asked)
    assert lines(talk) == []
    talk.broker(response(900, bytes(6)))
    assert [(line.correlation_id, line.request_bytes, line.response) for line in lines(talk)] == [
        (5, len(asked), "awaited")
    ]
    talk.broker(response(5, bytes(6)))
    assert [(line.correlation_id, line.response) for line in lines(talk)] == [(5, "broker")]


@pytest.mark.parametrize("cut", [9, 11, 13])
def test_a_status_that_has_not_come_yet_is_unknown(cut: int) -> None:
    talk = Dialogue().client(request(ApiKey.HEARTBEAT, 3, 7))
    whole = response(7, pack(">ih", THROTTLED, ERROR))
    talk.broker(whole[:cut], whole[cut:])
    (line,) = lines(talk)
    assert line.status.error_code is None
