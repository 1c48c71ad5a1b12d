"""Calls in a process of its own: what comes back, and what ends it."""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from kafka_sidecar.codec.checkpoint import Stop, StoppedError, ThreadRequiredError, stoppable
from kafka_sidecar.schemas import own_process
from kafka_sidecar.schemas.own_process import OwnProcess, TookTooLongError
from kafka_sidecar.schemas.own_process_worker import MAX_MEMORY, serve


@pytest.fixture
def process() -> Iterator[OwnProcess]:
    made = OwnProcess()
    yield made
    made.close()


def test_a_function_is_called_there(process: OwnProcess) -> None:
    assert process.call(os.getpid) != os.getpid()
    assert process.call(len, bytes(3 << 20)) == 3 << 20
    assert process.call(int, "z", base=36) == 35


def test_its_value_error_is_raised_here_and_the_process_stays(process: OwnProcess) -> None:
    before = process.call(os.getpid)
    with pytest.raises(ValueError, match="invalid literal"):
        process.call(int, "a")
    assert process.call(os.getpid) == before


async def test_the_event_loop_never_waits_for_it(process: OwnProcess) -> None:
    with pytest.raises(ThreadRequiredError):
        process.call(os.getpid)
    assert process._child is None


def test_a_call_that_takes_too_long_ends_it_and_another_one_serves_the_next(process: OwnProcess) -> None:
    first = process.call(os.getpid)
    process._limit_s = 0.2
    with pytest.raises(TookTooLongError, match=r"more than 0\.2 s"):
        process.call(time.sleep, 60)
    process._limit_s = 20
    assert process.call(os.getpid) != first


@pytest.mark.parametrize(
    "end",
    [
        pytest.param((bytes, 2 * MAX_MEMORY), id="memory"),
        pytest.param((os._exit, 0), id="exit"),
        pytest.param((os.abort,), id="a library that aborts"),
    ],
)
def test_a_process_that_ends_in_the_middle_is_as_one_that_takes_too_long(
    process: OwnProcess, end: tuple[object]
) -> None:
    with pytest.raises(TookTooLongError, match="more memory"):
        process.call(*end)  # type: ignore[arg-type]
    assert process._child is None
    assert process.call(len, b"a") == 1


def test_a_process_that_ended_between_two_calls_is_started_again(process: OwnProcess) -> None:
    process.call(os.getpid)
    assert process._child is not None
    process._child.kill()
    process._child.wait()
    assert process.call(len, b"a") == 1


def test_arguments_that_cannot_be_sent_leave_no_half_question(process: OwnProcess) -> None:
    process.call(os.getpid)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        process.call(len, [bytes(1 << 20), lambda: None])
    assert process._child is None
    assert process.call(len, b"a") == 1


def test_a_caller_that_no_longer_wants_the_answer_does_not_wait(process: OwnProcess) -> None:
    process.call(os.getpid)
    stop = Stop()
    threading.Timer(0.1, lambda: setattr(stop, "is_set", True)).start()
    with stoppable(stop), pytest.raises(StoppedError):
        process.call(time.sleep, 60)
    assert process._child is None


def test_a_caller_whose_turn_has_not_come_does_not_wait_either(process: OwnProcess) -> None:
    stop = Stop()
    stop.is_set = True
    with process._turn, stoppable(stop), pytest.raises(StoppedError):
        process.call(os.getpid)


def test_questions_are_answered_until_they_end() -> None:
    asked = [(len, (b"ab",), {}), (int, ("a",), {}), (int, ("a",), {"base": 16})]
    requests, answers = io.BytesIO(b"".join(map(pickle.dumps, asked))), io.BytesIO()
    serve(requests, answers, 5)
    answers.seek(0)
    size, invalid, number = (pickle.load(answers) for _ in asked)
    assert (size, number) == (2, 10)
    assert type(invalid) is ValueError
    assert signal.alarm(0) == 0, "none is left"


def test_the_process_ends_by_itself_where_the_one_that_has_asked_was_killed() -> None:
    with own_process._start(limit_s=0) as child:  # and a second
        assert child.stdin is not None
        pickle.dump((time.sleep, (60,), {}), child.stdin)
        child.stdin.flush()
        assert child.wait(timeout=20) == -signal.SIGALRM


def test_the_process_ends_with_this_one() -> None:
    code = (
        "import os; from kafka_sidecar.schemas.own_process import SHARED; "
        "print(SHARED.call(os.getpid), SHARED._child.pid)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    answered, started = map(int, printed.split())
    assert answered == started
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)
