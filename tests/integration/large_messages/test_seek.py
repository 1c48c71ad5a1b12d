"""li's tests of positions on its log "SYN", with plain consumers of four libraries through the sidecar."""

from __future__ import annotations

import pytest
from integration.large_messages.groups import CLIENTS, Groups
from integration.large_messages.li_log import SYN, VISIBLE, LiProducer, Part
from integration.large_messages.stepped import Stepped, offsets, until_end

pytestmark = pytest.mark.integration


@pytest.fixture(params=CLIENTS)
def client(groups: Groups, request: pytest.FixtureRequest) -> Stepped:
    return groups.clients[request.param]


def test_from_each_offset_all_messages_that_end_there_or_later_are_delivered(groups: Groups, client: Stepped) -> None:
    """li 36: 0, 1, 2 -> {2, 4, 5, 6, 7, 9}; 3, 4 -> {4, 5, 6, 7, 9}; 5 -> {5, 6, 7, 9}; and so on."""
    place = groups.place(groups.syn())
    steps = [step for start in range(len(SYN)) for step in (f"seek {start}", "rest")]
    lines = iter(client(place, "rest", *steps))
    assert until_end(lines) == [*VISIBLE]
    for start in range(len(SYN)):
        assert until_end(lines) == [offset for offset in VISIBLE if offset >= start]


def test_the_same_without_having_read_what_is_before(groups: Groups) -> None:
    topic = groups.syn()
    for start in range(len(SYN)):
        lines = groups.clients["librdkafka"](groups.place(topic), f"seek {start}", "rest")
        assert offsets(lines) == [offset for offset in VISIBLE if offset >= start]


def test_a_consumer_goes_on_after_what_was_committed_and_to_seek_there_is_the_same(
    groups: Groups, client: Stepped
) -> None:
    """li 37, 38."""
    place = groups.place(groups.syn())
    client(place, "poll", "commit")
    assert offsets(client(place, "poll")) == [4]
    assert offsets(client(place, "seek 3", "poll")) == [4]


def test_the_beginning_and_the_end_are_those_of_the_log(groups: Groups, client: Stepped) -> None:
    """li 39: whatever is committed; a new record arrives at 10."""
    place = groups.place(groups.syn())
    client(place, "commit 100")
    assert offsets(client(place, "begin", "poll")) == [2]
    assert client(place, "end", "position") == ["10"]
    LiProducer(groups.cluster.direct, place.topic).write([6])
    assert offsets(client(place, "seek 10", "poll")) == [10]


def test_after_a_new_assignment_any_offset_can_be_sought_and_without_one_none(groups: Groups) -> None:
    """li 40, 41."""
    place = groups.place(groups.syn())
    lines = groups.clients["java"](place, "rest", "unassign", "seek 3", "assign", "seek 0", "poll")
    assert "error\tIllegalStateException" in lines
    assert offsets(lines[-1:]) == [2]


def test_the_position_without_a_commit_is_by_the_reset_policy(groups: Groups) -> None:
    """li 42: earliest 0, latest 10, none an error."""
    topic, java = groups.syn(), groups.clients["java"]
    assert java(groups.place(topic, reset="earliest"), "position") == ["0"]
    assert java(groups.place(topic, reset="latest"), "position") == ["10"]
    assert java(groups.place(topic, reset="none"), "position") == ["error\tNoOffsetForPartitionException"]


def test_a_consumer_that_stops_and_starts_loses_nothing_and_repeats_nothing(groups: Groups, client: Stepped) -> None:
    """li 43: it commits the offset after each record."""
    place, seen = groups.place(groups.syn()), list[int]()
    for count in (1, 2, 1, 2):
        for _ in range(count):
            (line,) = client(place, "poll")
            (offset,) = offsets([line])
            seen.append(offset)
            client(place, f"commit {offset + 1}")
    assert seen == [*VISIBLE]


def test_offsets_of_a_time_lead_to_all_messages_from_then_on(groups: Groups, client: Stepped) -> None:
    """li 45: the record at offset n has the timestamp 1000 + n."""
    place = groups.place(groups.syn(timestamp=1000))
    steps = [step for n in range(len(SYN)) for step in (f"seek_time {1000 + n}", "rest")]
    lines = iter(client(place, *steps))
    for n in range(len(SYN)):
        assert until_end(lines) == [offset for offset in VISIBLE if offset >= n]


def test_a_message_whose_start_is_deleted_is_not_delivered_and_the_rest_is_committed_to_the_end(
    groups: Groups, client: Stepped
) -> None:
    """li 46: a consumer begins inside of M0, whose start no longer exists; more small ones follow than the gap has."""
    topic = groups.log_of([Part(0, 0), Part(0, 1)])
    groups.fill(topic, 1010)
    groups.delete_before(topic, 1)
    place = groups.place(topic)
    client(place, "commit 1")
    lines = client(place, "rest", "commit")
    assert offsets(lines) == list(range(2, 1012))
    assert groups.stored_offset(place) == (1012, "")


def test_an_offset_beyond_the_log_is_out_of_range_as_in_kafka(groups: Groups) -> None:
    """li 47, differs: li delivers nothing until then; here the client's reset policy applies."""
    place = groups.place(groups.syn())
    java = groups.clients["java"]
    java(place, "commit 100")
    assert offsets(java(place, "poll")) == [2]


def test_interleaved_messages_are_delivered_whatever_fits_in_memory(groups: Groups, client: Stepped) -> None:
    """li 48, 49, differ: li drops both, having room for one segment."""
    first, second = [Part(0, n, 20) for n in range(20)], [Part(1, n, 30) for n in range(30)]
    mixed = [part for pair in zip(first, second, strict=False) for part in pair] + second[20:]
    place = groups.place(groups.log_of(mixed))
    lines = client(place, "rest", "commit")
    assert offsets(lines) == [38, 49]
    assert groups.stored_offset(place) == (50, "")


def test_after_the_log_is_cut_consumption_goes_on_at_what_is_left(groups: Groups, client: Stepped) -> None:
    """li 52: the offset that is committed no longer exists, nor the first segment of M3."""
    place = groups.place(groups.syn())
    client(place, "poll", "commit")
    groups.delete_before(place.topic, 6)
    assert offsets(client(place, "rest")) == [7, 9]
