"""Every interleaving of two large messages, one retry and one abort, read from every offset: what is delivered is what
the rule says, which is written here once more, in ten lines and from a list of what was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import pytest
from support.examples import some
from support.large_logs import ABORTED_PID, TRANSACTIONAL, Log, Process, carrier_record, consume, cut, lm, message_id

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import NewRecord, build_batch

CONTROL = 0x20
VALUES = {1: bytes(range(65, 91)), 2: bytes(range(97, 123))}
COUNTS = {1: 3, 2: 2}
ABORT_KEY, ABORT_VALUE = bytes(4), bytes(6)


class Sent(NamedTuple):
    """What one offset of the log has: a segment of a message, or without one the marker of the abort."""

    message: int
    number: int = 0
    is_carrier: bool = False
    is_aborted: bool = False


ABORT = Sent(0)
A0, A1, LAST_OF_A = Sent(1, 0), Sent(1, 1), Sent(1, 2, is_carrier=True)
B0, LAST_OF_B = Sent(2, 0), Sent(2, 1, is_carrier=True, is_aborted=True)
# The connection is lost before the last segment of A is stored, after it, or after the first slice.
WRITERS_OF_A = {
    "before": [A0, A1, A0, A1, LAST_OF_A],
    "after": [A0, A1, LAST_OF_A, A0, A1],
    "half": [A0, A0, A1, LAST_OF_A],
}
WRITER_OF_B = [B0, LAST_OF_B, ABORT]


def rule(log: Sequence[Sent], start: int, is_committed_only: bool, of_li: bool) -> list[tuple[int, bytes]]:
    """What a consumer must get that begins at ``start``."""
    delivered, there = [], dict[int, set[int]]()
    for offset, (message, number, is_carrier, is_aborted) in enumerate(log):
        if not message or (is_aborted and is_committed_only):
            continue
        before = there.setdefault(message, set())
        is_whole = before | {number} == {*range(COUNTS[message])}
        if is_whole and (number not in before if of_li else is_carrier):
            delivered.append((offset, VALUES[message]))
        before.add(number)
    return [one for one in delivered if one[0] >= start]


def interleavings(one: Sequence[Sent], other: Sequence[Sent]) -> Iterator[list[Sent]]:
    total = len(one) + len(other)
    for places in combinations(range(total), len(one)):
        first, second = iter(one), iter(other)
        yield [next(first) if at in places else next(second) for at in range(total)]


def written(sent: Sequence[Sent], of_li: bool) -> Log:
    """The log; pointers lead to the slices of the attempt that has stored the carrier."""
    log, newest = Log(), dict[tuple[int, int], int]()
    for message, number, is_carrier, is_aborted in sent:
        if not message:
            marker = [NewRecord(ABORT_VALUE, ABORT_KEY)]
            log.append(build_batch(marker, attributes=TRANSACTIONAL | CONTROL, producer_id=ABORTED_PID))
            continue
        value, count, id_ = VALUES[message], COUNTS[message], message_id(message)
        if is_carrier and not of_li:
            record = carrier_record(value, count, id_, [newest[message, at] for at in range(count - 1)])
        else:
            key = b"key" if of_li else None
            record = NewRecord(cut(value, count)[number], key, (lm(id_, number, count, len(value)),))
        if is_aborted:
            log.aborted.append(AbortedTransaction(producer_id=ABORTED_PID, first_offset=log.end))
        flags, pid = (TRANSACTIONAL, ABORTED_PID) if is_aborted else (0, -1)
        newest[message, number] = log.append(build_batch([record], attributes=flags, producer_id=pid))
    return log


@pytest.mark.parametrize("of_li", [False, True], ids=["carriers", "segments of li"])
@pytest.mark.parametrize("is_committed_only", [False, True], ids=["uncommitted", "committed"])
@pytest.mark.parametrize("lost", WRITERS_OF_A)
def test_every_consumer_gets_what_the_rule_says(lost: str, is_committed_only: bool, of_li: bool) -> None:
    for sent in some(interleavings(WRITERS_OF_A[lost], WRITER_OF_B), of=4):
        log = written(sent, of_li)
        process = Process(log)  # one that goes on, whoever reads
        for start in range(len(sent)):
            expected = rule(sent, start, is_committed_only, of_li)
            max_bytes = 1 if start % 2 else 400
            restarted = Process(log)  # one that knows nothing of what is before this offset
            assert consume(restarted, start, max_bytes, is_committed_only) == expected, (sent, start)
            assert consume(process, start, max_bytes, is_committed_only) == expected, (sent, start)


def test_the_rule_delivers_each_message_once_and_hides_what_was_aborted() -> None:
    for of_li in (False, True):
        for sent in interleavings(WRITERS_OF_A["before"], WRITER_OF_B):
            assert [value for _, value in rule(sent, 0, True, of_li)] == [VALUES[1]]
            assert sorted(value for _, value in rule(sent, 0, False, of_li)) == sorted(VALUES.values())
