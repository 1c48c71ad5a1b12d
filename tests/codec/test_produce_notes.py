"""What is noted of usual requests and responses is what is read of them piece by piece, in any order of both."""

from __future__ import annotations

import os
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fuzz.samples import versions
from hypothesis import given
from hypothesis import strategies as some
from support import oracle
from support.produce_requests import batch, produce_request, produce_response, topic_id

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.noted_requests import MAX_KEPT, MAX_KEYS
from kafka_sidecar.codec.produce_counts import NOT_ANSWERED, ProduceWalk, Sent, acknowledge
from kafka_sidecar.codec.produce_notes import ProduceNotes
from kafka_sidecar.codec.records import NewRecord, build_batch

FIRST_FLEXIBLE, WITH_NAMES, WITH_IDS = 9, 12, 13
each_flexible = pytest.mark.parametrize("version", [one for one in versions(ProduceRequest) if one >= FIRST_FLEXIBLE])
ONE, TWO, BY_ANOTHER = batch("a"), batch("a", "b"), batch("a", "b", producer_id=7)
RECORDS = some.sampled_from([ONE, TWO, BY_ANOTHER, ONE + TWO])
TOPICS = some.dictionaries(
    some.sampled_from(["a", "orders", "free"]),
    some.dictionaries(some.integers(0, 5), RECORDS, min_size=1, max_size=3),
    max_size=3,
)
Partitions = dict[str, dict[int, bytes]]


def of_request(sent: list[Sent]) -> list[tuple[Any, ...]]:
    return [(one.key, one.index, one.count, one.size, one.timestamp, one.crc) for one in sent]


def of_response(sent: list[Sent]) -> list[tuple[Any, ...]]:
    return [
        (one.key, one.index, one.count, one.size, max(one.timestamp, one.append_time), one.base_offset) for one in sent
    ]


def walked(version: int, frame: bytes) -> list[Sent]:
    walk = ProduceWalk(version)
    walk.feed(frame, 0, len(frame))
    assert walk.is_done
    return list(walk.rows)


def taken(notes: ProduceNotes) -> list[Sent]:
    """The batches of the oldest open request."""
    notes.next_open()
    return list(notes.batches())


def read_all(notes: ProduceNotes) -> list[tuple[Any, ...]]:
    """All answered batches, each with how long its request has taken."""
    found: list[tuple[Any, ...]] = []
    while notes.next_answered():
        assert notes.fits()
        found += _batches(notes)
    return found


def _batches(notes: ProduceNotes) -> list[tuple[Any, ...]]:
    found = []
    while notes.next_batch():
        row = notes.key, notes.index, notes.count, notes.size, notes.timestamp, notes.base_offset
        found.append((*row, notes.elapsed_us))
    return found


@given(
    version=some.sampled_from(versions(ProduceRequest)),
    topics=some.dictionaries(
        some.sampled_from(["a", "orders", "Bücher"]),
        some.dictionaries(some.integers(0, 5), some.none() | RECORDS, max_size=3),
        max_size=3,
    ),
    positions=some.lists(some.tuples(some.integers(0, 2000), some.integers(0, 255)), max_size=3),
)
def test_a_request_that_is_noted_has_the_batches_that_are_read_piece_by_piece(
    version: int, topics: dict[str, dict[int, bytes | None]], positions: list[tuple[int, int]]
) -> None:
    frame = bytearray(produce_request(version, topics))
    for at, byte in positions:
        frame[at % len(frame)] = byte
    notes, data = ProduceNotes(version), b"xx" + bytes(frame) + b"yy"
    if notes.ask(data, 2, len(data) - 2, 0):
        assert notes.open == 1
        assert of_request(notes.open_batches()) == of_request(taken(notes)) == of_request(walked(version, bytes(frame)))
    else:
        assert positions or version < FIRST_FLEXIBLE
    assert not notes.open


@each_flexible
def test_a_request_that_is_cut_off_is_not_noted(version: int) -> None:
    frame = produce_request(version, {"orders": {0: ONE, 1: None}})
    notes = ProduceNotes(version)
    for end in range(len(frame) - 1):  # the tags at its end are not looked at
        assert not notes.ask(frame[:end], 0, end, 0)
    assert not notes.ask(frame, 0, len(frame) + 1, 0)
    assert not notes.open
    assert notes.ask(frame, 0, len(frame), 0)


def kio_response(version: int, topics: Partitions, base: int, time: datetime | None, order: int, error: int) -> bytes:
    """A broker's response: in the order of the request unless ``order``, without errors unless ``error``."""
    data: list[dict[str, Any]] = [
        {
            "name": name,
            "topic_id": topic_id(name),
            "partition_responses": [
                {"index": index, "base_offset": base + index, "log_append_time": time}
                for index in sorted(partitions, reverse=order == 1)
            ],
        }
        for name, partitions in sorted(topics.items(), reverse=order == 2)
    ]
    if error and data and data[-1]["partition_responses"]:
        data[-1]["partition_responses"][-1]["error_code"] = error
    return oracle.response_frame(oracle.response(ApiKey.PRODUCE, version, responses=data), 7)


@given(
    version=some.sampled_from([WITH_NAMES, WITH_IDS]),
    topics=TOPICS,
    base=some.integers(0, 1 << 40),
    time=some.sampled_from([None, datetime(2020, 1, 1, tzinfo=UTC)]),
    order=some.sampled_from([0, 0, 1, 2]),
    error=some.sampled_from([0, 0, 46, 7]),
    positions=some.lists(some.tuples(some.integers(0, 300), some.integers(0, 255)), max_size=2),
)
def test_a_response_is_noted_only_if_it_is_a_success_and_with_the_offsets_that_are_read_otherwise(
    version: int,
    topics: Partitions,
    base: int,
    time: datetime | None,
    order: int,
    error: int,
    positions: list[tuple[int, int]],
) -> None:
    topics = {name: dict(sorted(partitions.items())) for name, partitions in sorted(topics.items())}
    request = produce_request(version, topics)
    answer = bytearray(kio_response(version, topics, base, time, order, error))
    for at, byte in positions:
        answer[at % len(answer)] = byte
    data = b"xx" + bytes(answer) + b"yy"
    notes = ProduceNotes(version)
    assert notes.ask(request, 0, len(request), 1000)
    is_noted = notes.answer(data, 2, len(data) - 2, 1500)
    assert is_noted or positions or error
    sent = walked(version, request)
    if not is_noted:
        assert of_request(taken(notes)) == of_request(sent)
    else:
        acknowledge(sent, data, 2, len(data) - 2, version)
        assert {one.error for one in sent} <= {0, NOT_ANSWERED}
        assert notes.next_answered()
        assert notes.response == bytes(answer)
        if notes.fits():
            assert _batches(notes) == [(*row, 500) for row in of_response(sent)]
        else:
            assert of_request(notes.batches()) == of_request(sent)
            assert positions or any(ONE + TWO in each.values() for each in topics.values())
    assert (notes.open, notes.answered, notes.next_answered()) == (0, 0, False)


@given(
    steps=some.lists(some.sampled_from(["ask", "ask", "answer", "answer", "refuse", "read", "show", "odd"])),
    requests=some.lists(TOPICS, min_size=1, max_size=5),
)
def test_requests_and_responses_in_any_order_are_read_in_theirs(steps: list[str], requests: list[Partitions]) -> None:
    notes = ProduceNotes(WITH_NAMES)
    waiting: deque[tuple[int, Partitions]] = deque()
    expected: list[tuple[Any, ...]] = []
    found: list[tuple[Any, ...]] = []
    for now, step in enumerate(steps):
        if step == "ask":
            topics = {
                name: dict.fromkeys(partitions, ONE) for name, partitions in requests[now % len(requests)].items()
            }
            frame = produce_request(WITH_NAMES, topics)
            assert notes.ask(frame, 0, len(frame), now)
            waiting.append((now, topics))
        elif step == "odd":
            frame = produce_request(WITH_NAMES, {"orders": {0: ONE}, "odd": {1: ONE[:-1]}})
            assert not notes.ask(frame, 0, len(frame), now)
        elif step == "answer" and waiting:
            since, topics = waiting.popleft()
            answer = produce_response(WITH_NAMES, {name: dict.fromkeys(each, now) for name, each in topics.items()})
            assert notes.answer(answer, 0, len(answer), now)
            expected += [
                (name, index, 1, len(ONE), 0, now, now - since) for name, each in topics.items() for index in each
            ]
        elif step == "read":
            found += read_all(notes)
            notes.compact()
            notes.release()
        elif step in ("refuse", "show") and waiting:
            shown = [(one.key, one.index) for one in notes.open_batches()]
            assert shown == [(name, index) for _, each in waiting for name in each for index in each[name]]
            if step == "refuse":
                found += read_all(notes)
                notes.next_open()
                waiting.popleft()
        assert notes.open == len(waiting)
    assert found + read_all(notes) == expected


def test_a_response_to_another_request_does_not_fit() -> None:
    request = produce_request(WITH_NAMES, {"orders": {0: ONE}})
    notes = ProduceNotes(WITH_NAMES)
    others: list[dict[str, dict[int, int]]] = [
        {"free": {0: 1}}, {"orders": {1: 1}}, {"orders": {0: 1, 1: 2}}, {"orders": {0: 1}, "free": {}}, {"orders": {}},
    ]  # fmt: skip
    for topics in others:
        answer = produce_response(WITH_NAMES, topics)
        assert notes.ask(request, 0, len(request), 0)
        assert notes.answer(answer, 0, len(answer), 0)
        assert notes.next_answered()
        assert not notes.fits()


def test_a_response_that_is_cut_off_is_not_noted() -> None:
    request, answer = (
        produce_request(WITH_NAMES, {"orders": {0: ONE}}),
        produce_response(WITH_NAMES, {"orders": {0: 1}}),
    )
    notes = ProduceNotes(WITH_NAMES)
    assert notes.ask(request, 0, len(request), 0)
    assert not notes.answer(answer, 0, len(answer) + 1, 0)
    for end in range(len(answer) - 5):  # throttle time and tags at its end are not looked at
        assert not notes.answer(answer[:end], 0, end, 0)
    assert notes.answer(answer, 0, len(answer), 0)


def test_a_request_of_too_many_topics_is_not_noted_until_all_others_are_forgotten() -> None:
    notes = ProduceNotes(WITH_NAMES)
    first = produce_request(WITH_NAMES, {f"topic-{number}": {0: ONE} for number in range(MAX_KEYS)})
    other = produce_request(WITH_NAMES, {"orders": {0: ONE}})
    assert notes.ask(first, 0, len(first), 0)
    assert not notes.ask(other, 0, len(other), 0)
    assert len(taken(notes)) == MAX_KEYS
    notes.compact()
    assert notes.ask(other, 0, len(other), 0)
    assert [one.key for one in taken(notes)] == ["orders"]


def test_the_memory_of_many_batches_is_not_kept() -> None:
    many = produce_request(WITH_NAMES, {"orders": dict.fromkeys(range(126), ONE * (MAX_KEPT // 126))})
    resident = Path("/proc/self/statm")
    before, notes = int(resident.read_text().split()[1]), [ProduceNotes(WITH_NAMES) for _ in range(100)]
    for one in notes:
        assert one.ask(many, 0, len(many), 0)
        assert one.is_long()
        one.next_open()
        one.compact()
        assert not one.is_long()
    pages = int(resident.read_text().split()[1]) - before
    assert pages * os.sysconf("SC_PAGE_SIZE") < 30 << 20  # of 100 MB


def test_batches_before_1970_and_large_ones_keep_their_numbers() -> None:
    records = build_batch([NewRecord(b"v" * 100_000)], max_timestamp=-5)
    frame = produce_request(WITH_NAMES, {"orders": {2**31 - 1: records}})
    notes = ProduceNotes(WITH_NAMES)
    assert notes.ask(frame, 0, len(frame), 0)
    assert of_request(taken(notes)) == of_request(walked(WITH_NAMES, frame))


def test_a_response_that_is_no_response_is_left_to_be_refused() -> None:
    request = produce_request(WITH_NAMES, {"orders": {0: ONE}})
    notes = ProduceNotes(WITH_NAMES)
    assert notes.ask(request, 0, len(request), 0)
    assert not notes.answer(b"", 0, 0, 0)
    with pytest.raises(CodecError):
        acknowledge(taken(notes), b"", 0, 0, WITH_NAMES)


def test_no_open_request_means_nothing_to_take_or_answer() -> None:
    notes = ProduceNotes(WITH_NAMES)
    answer = produce_response(WITH_NAMES, {"orders": {0: 1}})
    assert not notes.answer(answer, 0, len(answer), 0)
    with pytest.raises(IndexError):
        notes.next_open()


def test_a_partition_that_a_response_has_twice_does_not_stand_for_another_one() -> None:
    request = produce_request(WITH_NAMES, {"orders": {0: ONE, 1: ONE}})
    answer = bytearray(produce_response(WITH_NAMES, {"orders": {0: -2, 1: 5}}))
    at = len(answer) - 5 - 1 - 33  # throttle time and tags, tags of the topic, the last partition
    answer[at : at + 4] = bytes(4)
    notes = ProduceNotes(WITH_NAMES)
    assert notes.ask(request, 0, len(request), 0)
    assert notes.answer(bytes(answer), 0, len(answer), 0)
    assert notes.next_answered()
    assert not notes.fits()
