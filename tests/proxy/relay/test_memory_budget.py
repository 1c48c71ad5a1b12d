"""What all connections buffer together: who is paused when it is too much, and who goes on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.proxy.relay.memory_budget import (
    MAX_TURN_BYTES,
    RESERVE_PART,
    ROOM_BYTES,
    SMALL_PART,
    Account,
    MemoryBudget,
)
from kafka_sidecar.proxy.telemetry.metrics import Buffered

LIMIT = 4 * ROOM_BYTES
LITTLE = LIMIT // SMALL_PART
MANY = SMALL_PART // RESERVE_PART  # so many with little spend the reserve


class Connection:
    """Records whether it is read."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.account = Account(budget)
        self.account.owner = self
        self.is_read = True
        self.turns = 0  # that it has let others have

    def pause_for_turn(self) -> None:
        self.turns += 1

    def pause_for_memory(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_after_memory(self) -> None:
        assert not self.is_read
        self.is_read = True


class Crowd:
    def __init__(self, count: int, limit: int = LIMIT) -> None:
        self.buffered = Buffered()
        self.budget = MemoryBudget(limit, self.buffered)
        self.connections = [Connection(self.budget) for _ in range(count)]

    def add(self, number: int, size: int) -> None:
        self.connections[number].account.add(size)

    def release(self, number: int) -> None:
        account = self.connections[number].account
        if account.bytes:
            account.release(account.bytes)

    @property
    def read(self) -> list[bool]:
        return [connection.is_read for connection in self.connections]


def test_below_the_limit_no_connection_is_paused() -> None:
    crowd = Crowd(2)
    crowd.add(0, LIMIT // 2)
    crowd.add(1, LIMIT // 2)
    assert (crowd.read, crowd.buffered.pauses) == ([True, True], 0)


@pytest.mark.parametrize("size", [LIMIT, 100 * LIMIT])
def test_over_the_limit_those_with_little_go_on_however_much_others_hold(size: int) -> None:
    crowd = Crowd(5)
    crowd.add(2, 1)
    crowd.add(0, LITTLE)
    crowd.add(3, LITTLE + 1)
    crowd.add(1, size)
    assert crowd.read == [True, False, True, False, True]  # 4 buffers nothing
    assert crowd.buffered.pauses == 2


def test_those_with_little_wait_once_they_have_spent_their_reserve() -> None:
    crowd = Crowd(MANY + 2)
    crowd.add(MANY + 1, LIMIT + 1)  # the first
    for number in range(MANY):
        crowd.add(number, LITTLE)
    assert all(crowd.read)
    crowd.add(MANY, LITTLE)
    assert crowd.read == [False] * (MANY + 1) + [True]
    crowd.release(0)
    assert all(crowd.read)
    crowd.add(0, LITTLE)
    assert not any(crowd.read[:-1])
    crowd.add(MANY + 1, 1)
    crowd.release(MANY + 1)
    assert all(crowd.read)


def test_who_has_much_now_makes_room_for_those_with_little() -> None:
    crowd = Crowd(MANY + 2)
    crowd.add(MANY + 1, LITTLE)  # the first: it goes on
    for number in range(MANY):
        crowd.add(number, LITTLE)
    crowd.budget.limit = 0  # nothing is under it
    crowd.add(MANY + 1, 0)
    assert crowd.read == [False] * MANY + [True, True]
    crowd.add(MANY + 1, 1)
    assert all(crowd.read)


def test_after_some_megabytes_in_one_turn_each_connection_lets_others_have_theirs() -> None:
    crowd = Crowd(3, limit=10 * MAX_TURN_BYTES)
    crowd.add(0, MAX_TURN_BYTES - 1)
    assert [one.turns for one in crowd.connections] == [0, 0, 0]
    crowd.add(1, 1)
    crowd.add(2, 1)
    assert [one.turns for one in crowd.connections] == [0, 1, 1]
    crowd.connections[1].account.renew_turn()
    crowd.add(2, 1)
    assert [one.turns for one in crowd.connections] == [0, 1, 1]


def test_one_connection_alone_may_exceed_the_limit() -> None:
    crowd = Crowd(1)
    crowd.add(0, 100 * LIMIT)
    assert crowd.read == [True]


def test_a_connection_that_begins_while_the_limit_is_exceeded_is_paused() -> None:
    crowd = Crowd(2)
    crowd.add(0, LIMIT + 1)
    crowd.add(1, LITTLE)
    assert crowd.read == [True, True]
    crowd.add(1, 1)
    assert crowd.read == [True, False]


def test_when_the_first_has_finished_the_next_one_goes_on_though_the_limit_is_still_exceeded() -> None:
    crowd = Crowd(3)
    for number in range(3):
        crowd.add(number, LIMIT)
    crowd.release(0)
    assert crowd.read == [True, True, False]
    crowd.release(1)
    assert crowd.read == [True, True, True]


def test_responses_that_clients_do_not_read_spend_the_limit_and_one_response_at_most() -> None:
    """Each that finishes its frame makes room for it alone; the next one would only add another."""
    crowd = Crowd(4)
    for number in range(4):
        crowd.add(number, LIMIT)
    for number in range(2):
        assert crowd.read[number]
        crowd.release(number)
        crowd.connections[number].account.hold_unread(LIMIT)
    crowd.add(2, 1)
    assert crowd.read[2:] == [False, False]  # 2 is the first of those that have not finished
    crowd.connections[0].account.release_unread(LIMIT)
    assert crowd.read[2:] == [True, False]


def test_a_frame_that_has_begun_waits_once_clients_leave_too_much_unread() -> None:
    crowd = Crowd(2)
    crowd.add(0, 1)
    crowd.connections[1].account.hold_unread(LIMIT + 1)
    crowd.add(0, LITTLE - 1)
    assert crowd.read[0]  # little, and the reserve is not spent
    crowd.add(0, 1)
    assert not crowd.read[0]
    crowd.connections[1].account.release_unread(LIMIT + 1)
    assert crowd.read[0]


def test_connections_are_resumed_in_order_as_far_as_there_is_room() -> None:
    crowd = Crowd(5, limit=8 * ROOM_BYTES)
    for number in range(1, 5):
        crowd.add(number, ROOM_BYTES)
    crowd.add(0, 5 * ROOM_BYTES)
    assert crowd.read == [False, True, False, False, False]
    crowd.connections[0].account.release(2 * ROOM_BYTES)  # one is over
    assert crowd.read == [False, True, False, False, False]
    crowd.connections[0].account.release(2 * ROOM_BYTES)  # room for three
    assert crowd.read == [False, True, True, True, False]


def test_a_connection_that_ends_while_it_is_paused_leaves_nothing() -> None:
    crowd = Crowd(2)
    crowd.add(0, LIMIT)
    crowd.add(1, LIMIT)
    crowd.release(1)
    crowd.release(0)
    assert (crowd.read, crowd.buffered.bytes, crowd.budget.peak) == ([True, True], 0, 2 * LIMIT)


@given(st.integers(1, MANY + 20), st.data())
def test_of_those_with_much_only_the_first_is_read_over_the_limit_and_those_with_little_in_their_reserve(
    count: int, data: st.DataObject
) -> None:
    sizes = st.sampled_from([0, 1, LITTLE // 2, LITTLE, LITTLE + 1, ROOM_BYTES, 3 * ROOM_BYTES])
    steps = data.draw(st.lists(st.tuples(st.integers(0, count - 1), sizes), max_size=3 * MANY))
    crowd = Crowd(count)
    for number, size in steps:
        if size and crowd.connections[number].is_read:
            crowd.add(number, size)
        elif crowd.connections[number].account.bytes:
            crowd.release(number)
        holders = [one for one in crowd.connections if one.account.bytes]
        little = [one for one in holders if one.account.bytes <= LITTLE]
        assert crowd.buffered.bytes == sum(one.account.bytes for one in holders)
        assert not holders or any(one.is_read for one in holders)
        assert all(one.is_read for one in crowd.connections if not one.account.bytes)
        if crowd.buffered.bytes > LIMIT:
            assert sum(one.is_read for one in holders if one not in little) <= 1
        if sum(one.account.bytes for one in little) <= LIMIT // RESERVE_PART:
            assert all(one.is_read for one in little)
        elif crowd.buffered.bytes > LIMIT:
            assert sum(one.is_read for one in holders) == 1
    for number in range(count):
        crowd.release(number)
    assert all(crowd.read)
    assert crowd.buffered.bytes == 0


@pytest.mark.parametrize("size", [1, LIMIT])
def test_an_account_without_a_connection_is_counted_too(size: int) -> None:
    budget = MemoryBudget(LIMIT, Buffered())
    accounts = [Account(budget) for _ in range(3)]
    for account in accounts:
        account.add(size)
    assert budget.spent == 3 * size
    for account in accounts:
        account.release(size)
    assert budget.spent == 0
