"""The time of day."""

from __future__ import annotations

import time

from kafka_sidecar.plugins.clock import now_ms


def test_the_time_is_that_of_the_machine_in_milliseconds() -> None:
    before = int(time.time() * 1000)
    assert before <= now_ms() <= time.time() * 1000
