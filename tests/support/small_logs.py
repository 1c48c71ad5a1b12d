"""Small logs with two large messages and what happens to their writers, and the rule of what consumers get of them.

The rule is written from what was sent. It knows no pointers, windows, caches and requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from kafka_sidecar.codec.messages.fetch import AbortedTransaction
from kafka_sidecar.codec.records import NewRecord, build_batch
from support.large_logs import ABORTED_PID, TOPIC_ID, TRANSACTIONAL, Log, carrier_record, cut, lm, message_id

CONTROL = 0x20
GAP = 1000  # longer than any of these logs
ABORT_KEY, ABORT_VALUE = bytes(4), bytes(6)
OLD_TOPIC_ID = bytes(
    reversed(range(16))
)  # as a producer has it that does not know yet of the topic that was created again


class Sent(NamedTuple):
    """What one offset of the log has: a segment of a message; of message 0 an abort's marker, of -1 a small record."""

    message: int
    number: int = 0
    is_carrier: bool = False
    is_aborted: bool = False


SMALL, ABORT = Sent(-1), Sent(0)
VALUES = {-1: b"edit me", 1: bytes(range(65, 91)), 2: b"edit " + bytes(range(97, 123))}
VALUES[3] = VALUES[1]  # what a new process sends has another id
COUNTS = {1: 3, 2: 2, 3: 3}
A0, A1, A2 = Sent(1, 0), Sent(1, 1), Sent(1, 2, is_carrier=True)
R0, R1, R2 = Sent(3, 0), Sent(3, 1), Sent(3, 2, is_carrier=True)
B0, B1, B2 = Sent(2, 0), Sent(2, 1, is_carrier=True, is_aborted=True), Sent(2, 1, is_carrier=True)
# What becomes of A, by what is lost: the connection before its last segment is stored, after it, after the first slice;
# the response to the carrier, and it is sent again; the process, whose successor knows no id and no slice of it.
WRITERS_OF_A = {
    "nothing": [A0, A1, A2],
    "before": [A0, A1, A0, A1, A2],
    "after": [A0, A1, A2, A0, A1],
    "half": [A0, A0, A1, A2],
    "response": [A0, A1, A2, A2],
    "process": [A0, A1, R0, R1, R2],
    "process after": [A0, A1, A2, R0, R1, R2],
    "all": [A0, R0, A1, A2, R1, R2, A2],  # what the first process has sent comes late
}
WRITER_OF_B = [B0, B1, ABORT, B2]  # whose transaction is aborted, and it sends the last segment again


def interleavings(lost: str) -> Iterator[list[Sent]]:
    """Of both writers; a small record is last."""
    one, other = WRITERS_OF_A[lost], WRITER_OF_B
    total = len(one) + len(other)
    for places in combinations(range(total), len(one)):
        first, second = iter(one), iter(other)
        yield [*(next(first) if at in places else next(second) for at in range(total)), SMALL]


def rule(
    log: Sequence[Sent],
    start: int,
    is_committed_only: bool,
    of_li: bool,
    log_start: int = 0,
    gap: int = GAP,
    seen_from: int = 0,
) -> list[tuple[int, bytes]]:
    """What a consumer must get that begins at ``start``.

    Args:
        log_start: the offset before which all is deleted.
        gap: how far the segments of a message without carrier may be from its last one.
        seen_from: the offset from which the process has seen which carriers were delivered.
    """
    delivered, carried = list[tuple[int, bytes]](), set[int]()
    for offset, one in enumerate(log):
        if one == SMALL:
            delivered.append((offset, VALUES[-1]))
            continue
        if one == ABORT or (one.is_aborted and is_committed_only):
            continue
        there = {
            log[at].number
            for at in range(max(log_start, offset - gap), offset)
            if log[at].message == one.message and not (log[at].is_aborted and is_committed_only)
        }
        is_first = one.number not in there if of_li else one.is_carrier and one.message not in carried
        if is_first and there | {one.number} == {*range(COUNTS[one.message])}:
            delivered.append((offset, VALUES[one.message]))
            if offset >= seen_from:
                carried.add(one.message)
    return [one for one in delivered if one[0] >= max(start, log_start)]


def written(sent: Sequence[Sent], of_li: bool, variant: int = 0, topic_id: bytes = TOPIC_ID) -> Log:
    """The log. In every second variant pointers lead to the first of the slices that attempts have stored, as if each
    had used what the one before has left; in others to the last. In half of these pairs they name another topic.
    """
    log, slices = Log(), dict[tuple[int, int], list[int]]()
    for one in sent:
        message, number = one.message, one.number
        if one == ABORT:
            marker = [NewRecord(ABORT_VALUE, ABORT_KEY)]
            log.append(build_batch(marker, attributes=TRANSACTIONAL | CONTROL, producer_id=ABORTED_PID))
            continue
        if one == SMALL:
            log.add(VALUES[-1])
            continue
        value, count, id_ = VALUES[message], COUNTS[message], message_id(message)
        if one.is_carrier and not of_li:
            pointed = [slices[message, at][-1 if variant % 2 else 0] for at in range(count - 1)]
            named = OLD_TOPIC_ID if variant // 2 % 2 else topic_id
            record = carrier_record(value, count, id_, pointed, topic_id=named)
        else:
            key = b"key" if of_li else None
            record = NewRecord(cut(value, count)[number], key, (lm(id_, number, count, len(value)),))
        if one.is_aborted:
            log.aborted.append(AbortedTransaction(producer_id=ABORTED_PID, first_offset=log.end))
        flags, pid = (TRANSACTIONAL, ABORTED_PID) if one.is_aborted else (0, -1)
        offset = log.append(build_batch([record], attributes=flags, producer_id=pid))
        slices.setdefault((message, number), []).append(offset)
    return log
