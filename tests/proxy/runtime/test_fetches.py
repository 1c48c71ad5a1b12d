"""What plug-ins wait for is fetched once for all, and never holds or ends anything else."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import pytest
from support.in_process import until
from support.policies import Stub

from kafka_sidecar.proxy.runtime import performer as fetches_module
from kafka_sidecar.proxy.runtime.performer import PlugInFetches


async def test_equal_keys_are_fetched_once_at_a_time() -> None:
    policy = Stub()
    fetches = PlugInFetches("policy")
    policy.gate.clear()
    waiting = [asyncio.ensure_future(fetches.resolve("stub", policy, key)) for key in "aab"]
    await until(lambda: len(policy.asked) == 2)
    policy.gate.set()
    await asyncio.gather(*waiting)
    assert policy.asked == ["a", "b"]
    await fetches.resolve("stub", policy, "a")
    assert policy.asked == ["a", "b", "a"]


async def test_one_that_waits_can_leave_without_the_others() -> None:
    policy, fetches = Stub(), PlugInFetches("policy")
    policy.gate.clear()
    leaves, stays = (asyncio.ensure_future(fetches.resolve("stub", policy, "a")) for _ in range(2))
    await until(lambda: policy.asked)
    leaves.cancel()
    policy.gate.set()
    await stays
    assert policy.known == {"a"}


async def test_a_fetch_that_fails_or_never_ends_is_logged_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fetches_module, "MAX_FETCH_S", 0.02)
    policy, fetches = Stub(), PlugInFetches("policy")
    await fetches.resolve("stub", policy, b"unavailable")
    policy.gate.clear()
    await fetches.resolve("stub", policy, "late")
    logged = [(record.levelno, record.message, vars(record)["policy"]) for record in caplog.records]
    assert logged == [(logging.ERROR, "plug-in fetch failed", "stub")] * 2


@dataclass
class Alike(Stub):
    """As a policy that is written as a dataclass: equal to others of its class, and not hashable."""

    def __post_init__(self) -> None:
        super().__init__()


async def test_equal_policies_fetch_each_for_itself() -> None:
    policies, fetches = [Alike(), Alike()], PlugInFetches("policy")
    await asyncio.gather(*(fetches.resolve("stub", policy, "a") for policy in policies))
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
    monkeypatch.setattr(fetches_module, "MAX_FETCH_S", 0.01)
    monkeypatch.setattr(fetches_module, "GRACE_S", 0.01)
    policy = Stubborn()
    policy.gate.clear()
    async with asyncio.timeout(5):
        await PlugInFetches("policy").resolve("stub", policy, "a")
    policy.gate.set()


async def test_a_fetch_that_would_end_the_process_does_not(caplog: pytest.LogCaptureFixture) -> None:
    class Leaves(Stub):
        async def resolve(self, key: object) -> None:
            raise SystemExit(1)

    await PlugInFetches("policy").resolve("stub", Leaves(), "a")
    assert [record.message for record in caplog.records] == ["plug-in fetch failed"]
