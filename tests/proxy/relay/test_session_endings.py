"""When a session has to end, why, and what still passes before it does."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.dialogue import Dialogue, pieces, produce, produced, request, response

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.errors import TooManyError
from kafka_sidecar.plugins.effects import Steps
from kafka_sidecar.proxy.relay import session
from kafka_sidecar.proxy.relay.exchange import Exchange, Forward, Outcome, TopicIds
from kafka_sidecar.proxy.relay.routes import HIDDEN, versions
from kafka_sidecar.proxy.relay.session import MAX_QUEUED_LOCAL_BYTES

HEARTBEAT = ApiKey.HEARTBEAT
GOOD = request(HEARTBEAT, 3, 1, b"good")
REMOVED = [key for key, api in APIS.items() if api.max_version < 0]


@pytest.mark.parametrize("key", [95, 999, 32767, -1, *REMOVED, *HIDDEN])
def test_an_api_that_is_not_relayed_ends_the_session(key: int) -> None:
    dialogue = Dialogue().client(request(key, 0, 1, bytes(40)))
    assert dialogue.cause == "unsupported_api"
    assert dialogue.detail == f"api key {key & 0xFFFF} is not relayed"
    assert dialogue.to_broker == b""


@pytest.mark.parametrize("key", [key for key in APIS if versions(key) and key != ApiKey.API_VERSIONS])
@pytest.mark.parametrize("far", [1, 100])
def test_a_version_that_is_too_new_ends_the_session(key: ApiKey, far: int) -> None:
    oldest, newest = versions(key) or (0, 0)
    dialogue = Dialogue().client(request(key, newest + far, 1, bytes(40)))
    assert dialogue.cause == "unsupported_version"
    assert dialogue.detail == f"{APIS[key].name} version {newest + far} is not relayed, only {oldest} to {newest}"
    assert dialogue.to_broker == b""


def test_a_negative_version_ends_the_session() -> None:
    assert Dialogue().client(request(HEARTBEAT, -1, 1, bytes(40))).cause == "unsupported_version"


def test_sasl_handshake_0_ends_the_session_because_raw_tokens_would_follow() -> None:
    dialogue = Dialogue().client(request(ApiKey.SASL_HANDSHAKE, 0, 1, b"\x00\x05PLAIN"))
    assert dialogue.cause == "unsupported_version"
    assert dialogue.detail == "SaslHandshake version 0 is not relayed, only 1 to 1"


OTHER_PROTOCOLS = {
    "HTTP": (b"GET /metrics HTTP/1.1\r\nHost: sidecar:9092\r\n\r\n", "an HTTP request"),
    "HTTP POST": (b"POST / HTTP/1.1\r\nHost: sidecar:9092\r\n\r\n", "an HTTP request"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "an HTTP/2 request"),
    "TLS 1.2": (bytes.fromhex("16030100f4010000f00303") + bytes(200), "a TLS handshake"),
    "TLS whose length looks like Fetch": (bytes.fromhex("1603010200010001fc0303") + bytes(512), "a TLS handshake"),
    "PROXY 1": (b"PROXY TCP4 192.0.2.1 192.0.2.2 50000 9092\r\n", "a PROXY protocol header"),
    "PROXY 2": (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12), "a PROXY protocol (version 2) header"),
    "SSH": (b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", "an SSH client"),
}


@pytest.mark.parametrize("name", OTHER_PROTOCOLS)
@pytest.mark.parametrize("limit", [100 << 20, 2**31 - 1])
def test_another_protocol_is_called_by_its_name(name: str, limit: int) -> None:
    data, sentence = OTHER_PROTOCOLS[name]
    for chunks in ([data], pieces(data, list(range(len(data))))):
        dialogue = Dialogue(max_frame=limit).client(*chunks)
        assert dialogue.cause == "not_kafka"
        assert dialogue.detail.startswith("not Kafka: " + sentence)
        assert "\n" not in dialogue.detail
        assert (dialogue.to_broker, dialogue.session.requests) == (b"", 0)


@pytest.mark.parametrize("line", [b"GET /\r\n", b"SSH-2.0\r\n", bytes.fromhex("15030100020228")])
def test_a_line_too_short_for_a_request_is_called_by_its_name_once_the_client_has_left(line: bytes) -> None:
    dialogue = Dialogue().client(line)
    assert dialogue.cause is None
    dialogue.session.client_ended()
    assert dialogue.cause == "not_kafka"


def test_a_client_that_disconnects_silently_is_not_diagnosed() -> None:
    dialogue = Dialogue()
    dialogue.session.client_ended()
    dialogue.session.broker_ended()
    assert dialogue.cause is None


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 7])
def test_a_length_that_no_request_can_have_ends_the_session(length: int) -> None:
    dialogue = Dialogue().client(GOOD, pack(">ihhi", length, HEARTBEAT, 3, 1))
    assert dialogue.cause == "not_kafka"
    assert dialogue.detail == f"a request cannot be {length} bytes long"
    assert dialogue.to_broker == GOOD


@pytest.mark.parametrize("length", [1025, 2**31 - 1])
def test_a_request_over_the_limit_ends_the_session_before_a_byte_of_it_has_passed(length: int) -> None:
    dialogue = Dialogue(max_frame=1024).client(GOOD, pack(">ihhi", length, HEARTBEAT, 3, 1) + bytes(100))
    assert dialogue.cause == "frame_too_large"
    assert dialogue.detail == f"a request of {length} bytes is over connections.max_frame (1024)"
    assert dialogue.to_broker == GOOD


def test_a_request_at_the_limit_passes() -> None:
    asked = request(HEARTBEAT, 3, 1, bytes(1024 - 13))
    assert len(asked) == 1028
    assert Dialogue(max_frame=1024).client(asked).to_broker == asked


BAD_REQUESTS = {
    "unknown api": request(999, 0, 2, bytes(40)),
    "too new": request(HEARTBEAT, 99, 2, bytes(40)),
    "absurd length": b"\xff" * 60,
    "Produce without acks": request(ApiKey.PRODUCE, 7, 2, b"\xff\xff"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_what_came_before_a_bad_request_reaches_the_broker_and_nothing_after_it(name: str) -> None:
    for chunks in ([GOOD + GOOD + BAD_REQUESTS[name] + GOOD], [GOOD, GOOD, BAD_REQUESTS[name], GOOD]):
        dialogue = Dialogue()
        passed = b"".join(dialogue.session.from_client(chunk) for chunk in chunks)
        assert passed == GOOD + GOOD
        assert dialogue.session.closing is not None
        assert dialogue.session.requests == 2


BAD_RESPONSES = {
    "no request": (response(9), "a response to no request (correlation id 9)"),
    "length below a correlation id": (pack(">ii", 3, 2), "a response cannot be 3 bytes long"),
    "negative length": (pack(">ii", -1, 2), "a response cannot be -1 bytes long"),
}


@pytest.mark.parametrize("name", BAD_RESPONSES)
def test_what_came_before_a_bad_response_reaches_the_client_and_nothing_after_it(name: str) -> None:
    bad, sentence = BAD_RESPONSES[name]
    for chunks in ([response(1) + bad + response(3)], [response(1), bad, response(3)]):
        dialogue = Dialogue().client(GOOD)
        passed = b"".join(dialogue.session.from_broker(chunk) for chunk in chunks)
        assert passed == response(1)
        assert (dialogue.cause, dialogue.detail) == ("unreadable_response", sentence)


def test_a_response_to_another_request_than_the_oldest_ends_the_session() -> None:
    dialogue = Dialogue().client(request(HEARTBEAT, 3, 1), request(HEARTBEAT, 3, 2)).broker(response(2))
    assert (dialogue.cause, dialogue.detail) == ("unreadable_response", "a response to 2 where 1 was due")
    assert dialogue.to_client == b""


def test_queued_local_responses_after_one_of_the_broker_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    most = MAX_QUEUED_LOCAL_BYTES // 64
    monkeypatch.setattr(session, "MAX_QUEUED_LOCAL_BYTES", most)
    too_new = request(ApiKey.API_VERSIONS, 9, 2, b"x")
    size = Dialogue().client(GOOD + too_new).session.due
    dialogue = Dialogue().client(GOOD + too_new * -(-most // size))
    assert dialogue.session.closing is None
    assert dialogue.client(too_new).cause == "too_many_requests"
    assert dialogue.to_client == b""


def test_answers_of_the_sidecars_own_that_were_given_do_not_count_against_a_client() -> None:
    too_new = request(ApiKey.API_VERSIONS, 9, 2, b"x")
    session = Dialogue().client(*[too_new * 900] * 5).session
    assert (session.closing, session.due) == (None, 0)


def test_a_response_to_produce_without_acks_is_a_response_to_no_request() -> None:
    dialogue = Dialogue().client(produce(9, 1, 0)).broker(produced(9, 1))
    assert dialogue.cause == "unreadable_response"


BROKERS_THAT_ARE_NONE = {
    "HTTP": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not Kafka: an HTTP answer"),
    "TLS alert": (
        bytes.fromhex("15030300020250"),
        "not Kafka: a TLS alert: the broker expects TLS at this port: set brokers.security_protocol to SSL",
    ),
}


@pytest.mark.parametrize("name", BROKERS_THAT_ARE_NONE)
def test_a_broker_that_speaks_something_else_is_called_by_its_name(name: str) -> None:
    data, sentence = BROKERS_THAT_ARE_NONE[name]
    dialogue = Dialogue().client(GOOD).broker(data)
    dialogue.session.broker_ended()
    assert dialogue.cause == "unreadable_response"
    assert dialogue.detail.startswith(sentence)
    assert dialogue.to_client == b""


def test_bytes_that_are_no_api_versions_response_end_the_session() -> None:
    dialogue = Dialogue().client(request(ApiKey.API_VERSIONS, 3, 1, b"\x00\x02a\x02b\x00")).broker(response(1, b"\x00"))
    assert dialogue.cause == "unreadable_response"
    assert dialogue.to_client == b""


def test_a_response_that_is_rewritten_has_a_limit_and_one_that_passes_has_none() -> None:
    dialogue = Dialogue(max_frame=1024).client(GOOD).broker(response(1, bytes(5000)))
    assert dialogue.session.closing is None
    dialogue.client(request(ApiKey.METADATA, 1, 2, b"\xff\xff\xff\xff")).broker(response(2, bytes(5000)))
    assert dialogue.cause == "unreadable_response"
    assert "Metadata response of 5008 bytes is over connections.max_frame" in dialogue.detail


@given(st.lists(st.binary(max_size=60), max_size=6), st.lists(st.binary(max_size=60), max_size=6))
def test_no_bytes_break_a_session(clients: list[bytes], brokers: list[bytes]) -> None:
    dialogue = Dialogue(max_frame=1 << 20).client(GOOD, request(ApiKey.METADATA, 12, 2, bytes(20)))
    dialogue.client(*clients).broker(response(1), *brokers)
    dialogue.session.client_ended()
    dialogue.session.broker_ended()
    assert dialogue.cause is None or "\n" not in dialogue.detail


@given(st.integers(0, 18), st.integers(0, 16), st.binary(max_size=80))
def test_no_response_body_breaks_a_session(key: int, version: int, body: bytes) -> None:
    served = versions(key)
    if served is not None and served[0] <= version <= served[1]:
        asked = produce(version, 1, 1) if key == ApiKey.PRODUCE else request(key, version, 1, bytes(40))
        Dialogue().client(asked).broker(*pieces(response(1, body), [30, 31]))


class TooMany(Exchange):
    """Raises what a request of very many partitions does."""

    def request(self, frame: bytes) -> Steps[Outcome]:
        yield from ()
        raise TooManyError("300000 partitions, more than 10000")

    def response(self, frame: bytes) -> Steps[bytes]:
        raise AssertionError("the request was rejected")


def test_a_request_of_too_many_partitions_ends_the_session_with_the_setting() -> None:
    talk = Dialogue(exchange=lambda api, version: lambda data, at, size, client: TooMany())
    talk.client(GOOD)
    assert talk.cause == "too_many_partitions"
    assert talk.session.closing is not None
    assert talk.session.closing.detail == "300000 partitions, more than 10000 (limits.max_partitions)"


@pytest.mark.parametrize(("size", "cause"), [(1000, None), (1001, "unreadable_response")])
def test_a_response_that_is_buffered_may_have_exactly_the_maximum(size: int, cause: str | None) -> None:
    talk = Dialogue(max_frame=1000).client(request(ApiKey.METADATA, 0, 1))
    talk.broker(response(1, bytes(size - 8))[:20])
    assert talk.cause == cause


def test_local_responses_are_queued_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    talk, unsupported = Dialogue(), request(ApiKey.API_VERSIONS, 6, 2)
    monkeypatch.setattr(session, "MAX_QUEUED_LOCAL_BYTES", 2 * len(Dialogue().client(unsupported).to_client))
    talk.client(request(ApiKey.HEARTBEAT, 3, 1), unsupported, unsupported)
    assert talk.cause is None
    assert talk.client(unsupported).cause == "too_many_requests"


class Pausing(Exchange):
    """Needs what never comes, for the request or for the response."""

    def __init__(self, in_response: bool) -> None:
        self.in_response = in_response
        self.closed: list[bytes] = []

    def request(self, frame: bytes) -> Steps[Outcome]:
        if self.in_response:
            return Forward(frame, True)
        yield from self._pause(frame)
        raise AssertionError

    def response(self, frame: bytes) -> Steps[bytes]:
        yield from self._pause(frame)
        raise AssertionError

    def _pause(self, frame: bytes) -> Steps[None]:
        try:
            yield TopicIds(("orders",))
        finally:
            self.closed.append(frame)


@pytest.mark.parametrize("in_response", [False, True])
def test_steps_that_are_paused_when_the_connection_is_lost_are_closed_at_once(in_response: bool) -> None:
    """They hold the frame, which nothing counts any longer, and the garbage collector may not run for long."""
    exchange = Pausing(in_response)
    begun, answer = request(ApiKey.DELETE_TOPICS, 3, 1, b"topics"), response(1)
    dialogue = Dialogue(exchange=lambda api, version: lambda data, at, size, client: exchange).client(begun)
    if in_response:
        dialogue.broker(answer)
    assert exchange.closed == []
    dialogue.session.lost("the client closed its connection")
    assert exchange.closed == [answer if in_response else begun]


@pytest.mark.parametrize("key", [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_a_login_that_no_broker_would_read_is_not_read(key: ApiKey) -> None:
    limit = 512 << 10
    whole = request(key, 1, 1, bytes(limit - 13))
    assert Dialogue().client(whole).to_broker == whole
    for size in (limit + 5, 60 << 20):
        dialogue = Dialogue().client(pack(">ihhi", size - 4, key, 1, 1))
        assert dialogue.cause == "frame_too_large"
        assert f"of {size - 4} bytes, more than brokers take ({limit})" in dialogue.detail
        assert dialogue.to_broker == b""
