"""What is remembered of the last connection that was tried to each broker."""

from __future__ import annotations

from kafka_sidecar.proxy.runtime.dialer import MAX_ADDRESSES, NOT_TRIED, LastAttempt, LastAttempts
from kafka_sidecar.proxy.security.sasl.conversation import LoginError

BROKER = ("kafka-1", 9092)
REFUSED = ConnectionRefusedError(111, "Connection refused")


def test_a_broker_to_which_nothing_was_needed_is_neither_reachable_nor_not() -> None:
    assert LastAttempts(lambda: 1.0).last(BROKER) == NOT_TRIED


def test_a_failure_is_kept_with_its_time_once_the_broker_is_reached_again() -> None:
    now = [100.0]
    attempts = LastAttempts(lambda: now[0])
    assert attempts.record(BROKER, REFUSED) == "broker_unreachable"
    assert attempts.last(BROKER) == LastAttempt(False, "refused the connection", 100.0)
    now[0] = 200.0
    assert attempts.record(BROKER, None) is None
    assert attempts.last(BROKER) == LastAttempt(True, "refused the connection", 100.0)
    assert attempts.record(BROKER, TimeoutError()) == "connect_timeout"
    assert attempts.last(BROKER) == LastAttempt(False, "timed out", 200.0)


def test_a_broker_that_rejects_the_login_was_reached() -> None:
    attempts = LastAttempts(lambda: 1.0)
    assert attempts.record(BROKER, LoginError("wrong password")) == "authentication_failed"
    assert attempts.last(BROKER) == LastAttempt(True, "wrong password", 1.0)


def test_the_oldest_address_is_forgotten_when_there_are_too_many() -> None:
    attempts = LastAttempts(lambda: 1.0)
    for port in range(MAX_ADDRESSES + 1):
        attempts.record(("kafka", port), None)
    assert attempts.last(("kafka", 0)) == NOT_TRIED
    assert attempts.last(("kafka", 1)).is_reachable
