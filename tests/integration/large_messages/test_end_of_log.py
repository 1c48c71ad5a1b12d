"""Readers that go on until they have come to the end of a log, where its last records are not delivered."""

from __future__ import annotations

import pytest
from integration.large_messages.groups import CLIENTS, Groups
from integration.large_messages.li_log import Part
from integration.large_messages.stepped import Stepped, offsets

pytestmark = pytest.mark.integration


@pytest.fixture(params=CLIENTS)
def client(groups: Groups, request: pytest.FixtureRequest) -> Stepped:
    return groups.clients[request.param]


def test_the_position_comes_to_the_end_of_a_log_whose_last_records_are_orphans(groups: Groups, client: Stepped) -> None:
    """Who waits for a record at the end offset minus 1 waits for ever: no such record is delivered."""
    place = groups.place(groups.log_of([1, Part(1, 0), Part(1, 1), Part(2, 0), Part(3, 0)]))
    lines = client(place, "rest")
    assert offsets(lines) == [0, 2]
    assert lines[-1] == "end\t5"


def test_and_of_one_whose_last_message_is_dropped(groups: Groups, client: Stepped) -> None:
    topic = groups.log_of([1, Part(1, 0), Part(1, 1)])
    groups.delete_before(topic, 2)
    lines = client(groups.place(topic), "rest")
    assert offsets(lines) == []
    assert lines[-1] == "end\t3"
