"""Fetches of policies: once for all that wait, with a time limit."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace

import pytest
from support.in_process import until
from support.policies import Stub

from kafka_sidecar.policies.plans import Rule
from kafka_sidecar.proxy.features.validation import policy_fetches
from kafka_sidecar.proxy.features.validation.policy_fetches import PolicyFetches


async def test_equal_keys_are_fetched_once_at_a_time() -> None:
    rule = Rule("stub", policy := Stub())
    fetches = PolicyFetches()
    policy.gate.clear()
    waiting = [asyncio.ensure_future(fetches.resolve(replace(rule, text=str(n)), key)) for n, key in enumerate("aab")]
    await until(lambda: len(policy.asked) == 2)
    policy.gate.set()
    await asyncio.gather(*waiting)
    assert policy.asked == ["a", "b"]
    await fetches.resolve(rule, "a")
    assert policy.asked == ["a", "b", "a"]


async def test_one_that_waits_can_leave_without_the_others() -> None:
    rule, fetches = Rule("stub", policy := Stub()), PolicyFetches()
    policy.gate.clear()
    leaves, stays = (asyncio.ensure_future(fetches.resolve(rule, "a")) for _ in range(2))
    await until(lambda: policy.asked)
    leaves.cancel()
    policy.gate.set()
    await stays
    assert policy.known == {"a"}


async def test_a_fetch_that_fails_or_never_ends_is_logged_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(policy_fetches, "MAX_FETCH_S", 0.02)
    rule, fetches = Rule("stub", policy := Stub()), PolicyFetches()
    await fetches.resolve(rule, b"unavailable")
    policy.gate.clear()
    await fetches.resolve(rule, "late")
    logged = [(record.levelno, record.message, vars(record)["policy"]) for record in caplog.records]
    assert logged == [(logging.ERROR, "policy fetch failed", "stub")] * 2


@dataclass
class Alike(Stub):
    """As a policy that is written as a dataclass: equal to others of its class, and not hashable."""

    def __post_init__(self) -> None:
        super().__init__()


async def test_equal_policies_fetch_each_for_itself() -> None:
    policies, fetches = [Alike(), Alike()], PolicyFetches()
    await asyncio.gather(*(fetches.resolve(Rule("stub", policy), "a") for policy in policies))
    assert [policy.known for policy in policies] == [{"a"}, {"a"}]


class Stubborn(Stub):
    async def resolve(self, key: object) -> None:
        self.asked.append(key)
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                continue


async def test_a_fetch_that_does_not_end_when_it_is_cancelled_holds_no_request_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy_fetches, "MAX_FETCH_S", 0.01)
    monkeypatch.setattr(policy_fetches, "GRACE_S", 0.01)
    policy = Stubborn()
    policy.gate.clear()
    async with asyncio.timeout(5):
        await PolicyFetches().resolve(Rule("stub", policy), "a")
    policy.gate.set()


async def test_a_fetch_that_would_end_the_process_does_not(caplog: pytest.LogCaptureFixture) -> None:
    class Leaves(Stub):
        async def resolve(self, key: object) -> None:
            raise SystemExit(1)

    await PolicyFetches().resolve(Rule("stub", Leaves()), "a")
    assert [record.message for record in caplog.records] == ["policy fetch failed"]
