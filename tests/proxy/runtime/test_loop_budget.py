"""Judging gives way to everything else after some milliseconds."""

from __future__ import annotations

import asyncio

import pytest

from kafka_sidecar.proxy.runtime import loop_budget
from kafka_sidecar.proxy.runtime.loop_budget import Pace


async def test_whoever_has_judged_long_enough_rests_and_the_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_budget, "LONGEST_TURN_S", 0.01)
    one = Pace()
    turns: list[int] = []
    one.spent_s += 0.009
    assert not one.must_rest
    one.spent_s += 0.002
    assert one.must_rest
    asyncio.get_running_loop().call_soon(turns.append, "another connection's")
    await one.rest()
    assert turns == ["another connection's"]
    assert not one.must_rest
