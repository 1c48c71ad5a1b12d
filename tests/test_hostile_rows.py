"""What `make hostile` reads off: delays of the event loop, and honest clients that did not get through."""

from __future__ import annotations

import pytest
from harness.tool_host import Answer
from hostile.honest import Waits
from hostile.watch import Delay

LINES = "ack 1000 2500\nread 1000 3000\nlarge 1000 9000\n"


@pytest.mark.parametrize(
    ("attempts", "worst_s"),
    [
        ([], 0.0),
        ([(1.0, 1.5, True), (2.0, 2.25, True)], 0.5),
        ([(1.0, 1.0, False), (2.0, 2.0, False), (3.0, 3.5, True), (4.0, 4.0, True)], 2.5),
        ([(1.0, 1.0, True), (2.0, 2.0, False), (9.0, 9.0, False)], 7.0),
    ],
)
def test_a_delay_runs_from_the_first_attempt_until_one_succeeds(
    attempts: list[tuple[float, float, bool]], worst_s: float
) -> None:
    delay = Delay()
    for began, ended, succeeded in attempts:
        delay.add(began, ended, succeeded)
    assert delay.worst_s == worst_s


def test_waits_are_read_by_kind_and_time() -> None:
    waits = Waits.read(Answer(0, LINES, ""))
    assert waits.failures == ()
    assert [waits.worst(kind, 1.0, 2.0) for kind in ("ack", "read", "large")] == [2.5, 3.0, 9.0]
    assert waits.worst("ack", 2.0, 3.0) == float("inf")


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (Answer(1, LINES, "first\nlast\n"), "the Java clients ended with 1: last"),
        (Answer(None, LINES, ""), "the Java clients did not end in time: no error output"),
        (Answer(0, LINES + "ack 1001 2\n", ""), "1 honest records were acknowledged and not read"),
        (Answer(0, LINES + "large 1001 -1\n", ""), "1 honest records were not acknowledged"),
        (Answer(0, "", ""), "no honest record was acknowledged"),
    ],
)
def test_honest_clients_that_did_not_get_through_are_a_failure(answer: Answer, failure: str) -> None:
    assert Waits.read(answer).failures == (failure,)
