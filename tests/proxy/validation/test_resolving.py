"""What policies wait for is fetched once for all that wait, and not for ever."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from judges import Told
from one_loop import until

from kafka_sidecar.policies.plans import Rule
from kafka_sidecar.proxy.validation import resolving
from kafka_sidecar.proxy.validation.resolving import Resolving


async def test_equal_keys_are_fetched_once_at_a_time() -> None:
    rule = Rule("told", policy := Told())
    fetches = Resolving()
    policy.gate.clear()
    waiting = [asyncio.ensure_future(fetches.resolve(replace(rule, text=str(n)), key)) for n, key in enumerate("aab")]
    await until(lambda: len(policy.asked) == 2)
    policy.gate.set()
    await asyncio.gather(*waiting)
    assert policy.asked == ["a", "b"]
    await fetches.resolve(rule, "a")
    assert policy.asked == ["a", "b", "a"]


async def test_one_that_waits_can_leave_without_the_others() -> None:
    rule, fetches = Rule("told", policy := Told()), Resolving()
    policy.gate.clear()
    leaves, stays = (asyncio.ensure_future(fetches.resolve(rule, "a")) for _ in range(2))
    await until(lambda: policy.asked)
    leaves.cancel()
    policy.gate.set()
    await stays
    assert policy.known == {"a"}


async def test_a_fetch_that_fails_or_never_ends_is_told_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resolving, "LIMIT_S", 0.02)
    rule, fetches = Rule("told", policy := Told()), Resolving()
    await fetches.resolve(rule, b"nobody")
    policy.gate.clear()
    await fetches.resolve(rule, "late")
    told = [(record.levelno, record.message, vars(record)["policy"]) for record in caplog.records]
    assert told == [(logging.ERROR, "a policy cannot fetch what it needs", "told")] * 2
