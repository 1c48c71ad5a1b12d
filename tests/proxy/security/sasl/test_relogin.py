"""The client's next request waits until the login is renewed; the client sees nothing of it."""

from __future__ import annotations

from datetime import timedelta

from support import oracle
from support.dialogue import Dialogue, produce, produced, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.security.sasl.conversation import LoginError, LoginTokens, Relogin, Tokens, plain

HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 7)
OFFERED = oracle.response_frame(oracle.response(ApiKey.SASL_HANDSHAKE, 1, mechanisms=["PLAIN"]), 0)
FAILED = 58


class User:
    mechanism = "PLAIN"
    remedy = ""

    async def tokens(self) -> Tokens:
        raise AssertionError("the dialogue meets the need itself")


class Due:
    """A dialogue whose login is due from the next request on."""

    def __init__(self) -> None:
        self.talk = Dialogue()
        self.lifetimes: list[float] = []
        self.errors: list[LoginError] = []
        self.user = User()

    def begin(self) -> Dialogue:
        self.talk.to_broker = self.talk.to_client = b""
        self.talk.session.gates = (Relogin(self.user, self._succeeded, self.errors.append),)
        return self.talk

    def log_in(self, answer: bytes) -> None:
        """The need is met, and the broker answers."""
        assert self.talk.meet(plain("app", "secret")).needs == []
        self.talk.broker(OFFERED, answer)

    def _succeeded(self, lifetime_s: float) -> None:
        self.lifetimes.append(lifetime_s)
        self.talk.session.gates = ()


def authenticated(error_code: int = 0, lifetime_s: float = 0) -> bytes:
    answer = oracle.response(
        ApiKey.SASL_AUTHENTICATE, 2, error_code=error_code, session_lifetime=timedelta(seconds=lifetime_s)
    )
    return oracle.response_frame(answer, 1)


def keys_of(data: bytes) -> list[int]:
    return [int.from_bytes(frame[4:6], "big") for frame in oracle.frames_of(data)]


def test_a_request_waits_for_the_login_and_its_response_is_all_that_the_client_gets() -> None:
    due = Due()
    talk = due.begin().client(HEARTBEAT)
    assert talk.needs == [LoginTokens(due.user)]
    assert talk.to_broker == b""
    talk.meet(plain("app", "secret")).client(request(ApiKey.HEARTBEAT, 3, 8))
    assert keys_of(talk.to_broker) == [ApiKey.SASL_HANDSHAKE]
    talk.broker(OFFERED)
    assert keys_of(talk.to_broker) == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]
    talk.broker(authenticated(lifetime_s=60))
    assert keys_of(talk.to_broker)[2:] == [ApiKey.HEARTBEAT, ApiKey.HEARTBEAT]
    talk.broker(response(7) + response(8))
    assert talk.to_client == response(7) + response(8)
    assert due.lifetimes == [60.0]


def test_responses_to_earlier_requests_arrive_while_the_login_is_renewed() -> None:
    due = Due()
    due.talk.client(request(ApiKey.HEARTBEAT, 3, 6))
    talk = due.begin().client(HEARTBEAT).meet(plain("app", "secret"))
    talk.broker(response(6))
    assert talk.to_client == response(6)
    talk.broker(OFFERED, authenticated(), response(7))
    assert talk.to_client == response(6) + response(7)


def test_a_produce_without_a_response_waits_too() -> None:
    due = Due()
    talk = due.begin().client(produce(9, 3, acks=0))
    due.log_in(authenticated())
    assert keys_of(talk.to_broker)[2:] == [ApiKey.PRODUCE]
    talk.client(produce(9, 4, acks=1)).broker(produced(9, 4))
    assert talk.to_client == produced(9, 4)


def test_a_login_that_is_rejected_ends_the_connection() -> None:
    due = Due()
    talk = due.begin().client(HEARTBEAT)
    due.log_in(authenticated(FAILED))
    assert talk.cause == "authentication_failed"
    assert talk.detail.startswith("the login was not renewed: the broker rejects the login")
    assert [str(error) for error in due.errors] == ["the broker rejects the login: "]


def test_credentials_that_cannot_be_read_end_the_connection() -> None:
    due = Due()
    talk = due.begin().client(HEARTBEAT).meet(error=LoginError("no token: http://x responds with 503"))
    assert talk.cause == "authentication_failed"
    assert talk.to_broker == b""


def test_what_the_sidecar_answers_itself_needs_no_login() -> None:
    due = Due()
    talk = due.begin().client(request(ApiKey.API_VERSIONS, 9, 5))
    assert talk.needs == []
    assert talk.to_client[4:8] == b"\0\0\0\5"
