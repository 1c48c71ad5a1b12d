"""Batches that were sent again, and which copy is named."""

from __future__ import annotations

import pytest
from support import oracle
from support.produce_requests import batch, produce_request

from kafka_sidecar.audit.contract import AuditedClient
from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.produce_counts import ProduceWalk, Sent, acknowledge
from kafka_sidecar.proxy.features.auditing import counting as copies
from kafka_sidecar.proxy.features.auditing.counting import Copies

VERSION = 9
APP = AuditedClient("app", None, "10.0.0.1")
TIMEOUT, TOO_FEW = ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def sent(base: int | None = None, error: int = 0, value: str = "a", producer: int = -1) -> list[Sent]:
    """A batch, and what the response says of it, if there is one."""
    walk = ProduceWalk(VERSION)
    request = produce_request(VERSION, {"orders": {0: batch(value, producer_id=producer)}})
    walk.feed(request, 0, len(request))
    if base is not None:
        partition = {"index": 0, "base_offset": base, "error_code": error}
        responses = [{"name": "orders", "partition_responses": [partition]}]
        frame = oracle.response_frame(oracle.response(ApiKey.PRODUCE, VERSION, responses=responses), 1)
        acknowledge(walk.rows, frame, 0, len(frame), VERSION)
    return walk.rows


class Named:
    """(offset, whether both copies were acknowledged) of what is named."""

    def __init__(self) -> None:
        self.found: list[tuple[int, bool]] = []
        self.copies = Copies(lambda copy, is_certain: self.found.append((copy.base_offset, is_certain)))

    def abandon(self, value: str = "a", producer: int = -1) -> None:
        self.copies.abandoned(APP, sent(value=value, producer=producer))

    def settle(self, found: list[Sent], was_abandoned: bool = False) -> None:
        self.copies.settled(APP, found, was_abandoned)


@pytest.fixture
def named() -> Named:
    return Named()


@pytest.mark.parametrize("is_first_late", [False, True])
def test_the_copy_with_the_later_offset_is_named_whichever_response_comes_first(
    named: Named, is_first_late: bool
) -> None:
    named.abandon()
    responses = [(sent(40), True), (sent(50), False)]
    for one, was_abandoned in reversed(responses) if is_first_late else responses:
        assert named.found == []
        named.settle(one, was_abandoned)
    assert named.found == [(50, True)]
    assert named.copies.attempts == {}


def test_each_copy_but_the_first_is_named(named: Named) -> None:
    named.abandon()
    named.abandon()
    for base, was_abandoned in ((60, False), (40, True), (50, True)):
        named.settle(sent(base), was_abandoned)
    assert named.found == [(60, True), (50, True)]
    assert named.copies.attempts == {}


@pytest.mark.parametrize("was_abandoned", [False, True])
@pytest.mark.parametrize(("base", "error"), [(None, 0), (-1, TIMEOUT), (-1, TOO_FEW)])
def test_a_copy_of_what_may_not_have_been_stored_is_named_as_such(
    named: Named, base: int | None, error: int, was_abandoned: bool
) -> None:
    if was_abandoned:
        named.abandon()
    named.settle(sent(base, error), was_abandoned)
    named.settle(sent(50))
    assert named.found == [(50, False)]
    assert named.copies.attempts == {}


def test_it_is_not_named_before_it_is_known_what_became_of_the_first_attempt(named: Named) -> None:
    named.abandon()
    named.settle(sent(50))
    assert named.found == []
    named.settle(sent(), was_abandoned=True)
    assert named.found == [(50, False)]


def test_what_was_not_stored_has_no_copy(named: Named) -> None:
    named.abandon()
    named.settle(sent(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), was_abandoned=True)
    named.settle(sent(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "b"))
    assert named.copies.attempts == {}
    named.settle(sent(50))
    assert named.found == []


@pytest.mark.parametrize(("base", "value"), [(50, "b"), (40, "a")])
def test_another_batch_and_the_same_offset_are_no_copy(named: Named, base: int, value: str) -> None:
    named.abandon()
    named.settle(sent(40), was_abandoned=True)
    named.settle(sent(base, value=value))
    assert named.found == []


def test_batches_of_idempotent_producers_are_not_followed(named: Named) -> None:
    named.abandon(producer=7)
    named.settle(sent(40, producer=7), was_abandoned=True)
    named.settle(sent(50, producer=7))
    assert (named.found, named.copies.attempts) == ([], {})


def test_what_is_remembered_is_bounded(named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MAX_BATCHES", 10)
    for number in range(30):
        named.abandon(str(number))
        named.settle(sent(number, value=str(number)), was_abandoned=True)
    assert len(named.copies.attempts) == 10
    for number in range(30):
        named.settle(sent(100 + number, value=str(number)))
    assert named.found == [(100 + number, True) for number in range(20, 30)]
