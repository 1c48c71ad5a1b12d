"""Who has to go where the admin port's places are taken."""

from __future__ import annotations

import pytest

from kafka_sidecar.proxy.server.admin.http import MAX_CONNECTIONS, MAX_PER_ADDRESS, Places


class Visitor:
    def __init__(self, ip: str) -> None:
        self.ip = ip
        self.gave_way = False

    def give_way(self) -> None:
        self.gave_way = True


def enter(places: Places, count: int, ip: str = "10.0.0.{}") -> list[Visitor]:
    visitors = [Visitor(ip.format(number)) for number in range(count)]
    for one in visitors:
        places.enter(one)
    return visitors


def gone(visitors: list[Visitor]) -> list[int]:
    return [number for number, one in enumerate(visitors) if one.gave_way]


def test_the_one_that_has_rested_longest_gives_way() -> None:
    places = Places()
    visitors = enter(places, MAX_CONNECTIONS)
    places.works(visitors[0])
    places.rests(visitors[0])
    enter(places, 1, "10.0.1.1")
    assert gone(visitors) == [1]


def test_one_without_a_request_gives_way_before_those_with_one() -> None:
    places = Places()
    visitors = enter(places, MAX_CONNECTIONS)
    for one in visitors[:-1]:
        places.works(one)
    enter(places, 1, "10.0.1.1")
    assert gone(visitors) == [MAX_CONNECTIONS - 1]
    places.rests(visitors[-1])  # too late
    assert len(places) == MAX_CONNECTIONS


def test_where_all_have_a_request_the_oldest_gives_way() -> None:
    places = Places()
    visitors = enter(places, MAX_CONNECTIONS)
    for one in reversed(visitors):
        places.works(one)
    (last,) = enter(places, 1, "10.0.1.1")
    assert (last.gave_way, gone(visitors)) == (False, [MAX_CONNECTIONS - 1])


@pytest.mark.parametrize("ip", ["10.1.2.3", "fd00::1", ""])
def test_one_address_has_few_of_them(ip: str) -> None:
    places = Places()
    others = enter(places, MAX_CONNECTIONS // 2)
    visitors = enter(places, MAX_PER_ADDRESS + 2, ip)
    assert (gone(others), gone(visitors)) == ([], [0, 1])


@pytest.mark.parametrize("ip", ["127.0.0.1", "::1", "127.0.0.2"])
def test_this_host_has_them_all(ip: str) -> None:
    places = Places()
    visitors = enter(places, MAX_CONNECTIONS + 1, ip)
    assert gone(visitors) == [0]


def test_a_place_that_was_left_is_free() -> None:
    places = Places()
    visitors = enter(places, MAX_CONNECTIONS)
    for one in visitors:
        places.leave(one)
        places.leave(one)
    assert gone(enter(places, MAX_CONNECTIONS)) == []
    assert len(places) == MAX_CONNECTIONS
