"""Every interleaving of what becomes of two large messages, read from every offset: what is delivered is what the rule
says, which is written once more in `support/small_logs.py`, from a list of what was sent.
"""

from __future__ import annotations

import pytest
from support.examples import TAKES_FEW, some
from support.large_logs import OUT_OF_RANGE, Log, Process, consume
from support.small_logs import VALUES, WRITERS_OF_A, Sent, interleavings, rule, written

from kafka_sidecar.large_messages.reading import Fetched
from kafka_sidecar.large_messages.settings import TopicSettings

LOGS = 1 if TAKES_FEW else 3  # of each kind, where not all are taken
SHORT_GAP = 4
NOT_LEADER = 6
STANDING = TopicSettings(on_missing="fail")  # a message that is taken for missing is noticed
each_format = pytest.mark.parametrize("of_li", [False, True], ids=["carriers", "segments of li"])
each_isolation = pytest.mark.parametrize("is_committed_only", [False, True], ids=["uncommitted", "committed"])
each_writer = pytest.mark.parametrize("lost", WRITERS_OF_A)


def logs(lost: str, at: int) -> list[tuple[int, list[Sent]]]:
    """Numbered; ``at`` says which are taken where not all are."""
    every = list(enumerate(interleavings(lost)))
    return some(every, of=len(every) // LOGS, at=at)


def max_bytes(start: int) -> int:
    """Of a response: of one batch, or of several."""
    return 1 if start % 2 else 400


@each_format
@each_isolation
@each_writer
def test_every_consumer_gets_what_the_rule_says(lost: str, is_committed_only: bool, of_li: bool) -> None:
    for number, sent in logs(lost, at=0):
        log = written(sent, of_li, number)
        process = Process(log, STANDING)  # one that goes on, whoever reads
        for start in range(len(sent)):
            restarted = Process(log, STANDING)  # one that knows nothing of what is before this offset
            expected = rule(sent, start, is_committed_only, of_li, seen_from=start)
            assert consume(restarted, start, max_bytes(start), is_committed_only) == expected, (sent, start)
            expected = rule(sent, start, is_committed_only, of_li)
            assert consume(process, start, max_bytes(start), is_committed_only) == expected, (sent, start)
        assert of_li or not log.counts["looked_back"]  # pointers are enough


@each_format
@each_isolation
@each_writer
def test_deletion_from_the_front_takes_the_messages_whose_segments_are_gone_and_no_others(
    lost: str, is_committed_only: bool, of_li: bool
) -> None:
    for number, sent in logs(lost, at=1):
        log = written(sent, of_li, number)
        process = Process(log)  # it may have a segment still that is deleted
        consume(process, 0, max_bytes(number), is_committed_only)
        log.delete_before(log_start := 1 + number % (len(sent) - 1))
        for start in range(log_start, len(sent)):
            expected = rule(sent, start, is_committed_only, of_li, log_start, seen_from=start)
            got = consume(Process(log), start, max_bytes(start), is_committed_only)
            assert got == expected, (sent, log_start, start)
            got = consume(process, start, max_bytes(start), is_committed_only)
            before, after = ({*rule(sent, start, is_committed_only, of_li, one)} for one in (0, log_start))
            assert before & after <= {*got} <= before | after, (sent, log_start, start)


@each_format
@each_isolation
@each_writer
def test_reads_that_fail_are_tried_again_and_lose_nothing(lost: str, is_committed_only: bool, of_li: bool) -> None:
    for number, sent in logs(lost, at=2):
        for start in range(len(sent)):
            log = written(sent, of_li, number)
            nothing = Fetched(0, b"", log.end, log.end, log.start)  # as where a remote read takes too long
            failures: list[Fetched | TimeoutError] = [nothing, Fetched(NOT_LEADER), TimeoutError()]
            log.failures = {at: failures[(at + number) % 3] for at in range(start % 3, 4)}
            expected = rule(sent, start, is_committed_only, of_li, seen_from=start)
            got = consume(Process(log, STANDING), start, max_bytes(start), is_committed_only, retries=4)
            assert got == expected, (sent, start)


@each_isolation
@each_writer
def test_segments_of_li_that_are_too_far_away_count_no_more(lost: str, is_committed_only: bool) -> None:
    settings = TopicSettings(look_back=SHORT_GAP)
    for number, sent in logs(lost, at=0):
        log = written(sent, of_li=True, variant=number)
        process = Process(log, settings)
        for start in range(len(sent)):
            expected = rule(sent, start, is_committed_only, of_li=True, gap=SHORT_GAP)
            for one in (Process(log, settings), process):
                got = consume(one, start, max_bytes(start), is_committed_only)
                assert got == expected, (sent, start)


def test_the_rule_delivers_each_message_once() -> None:
    for of_li in (False, True):
        for lost in ("before", "after", "half", "response", "process"):
            for sent in interleavings(lost):
                for is_committed_only in (False, True):
                    values = [value for _, value in rule(sent, 0, is_committed_only, of_li)]
                    assert sorted(values) == sorted(VALUES[message] for message in (1, 2, -1))


def test_the_rule_delivers_twice_what_two_processes_have_written() -> None:
    for lost in ("process after", "all"):
        for sent in interleavings(lost):
            assert [value for _, value in rule(sent, 0, True, of_li=False) if value == VALUES[1]] == [VALUES[1]] * 2


def test_an_offset_before_the_logs_start_is_out_of_range() -> None:
    """As a broker says it: the model's log is no gentler."""
    log = Log()
    log.add(b"first")
    log.delete_before(1)
    assert log.run(Process(log).partition().read(0, 1)).error_code == OUT_OF_RANGE
