"""`on_acknowledgement` is called for one record of a connection at a time, in order, whatever ends it (KIP-42)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from support.driven import Driven
from support.interception import Intercepting
from support.produce_requests import GUARDED, Validating, batch, produce_request, produce_response

from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.features.interception import send_stage
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import Threads

pytestmark = pytest.mark.usefixtures("_few_inline")


@pytest.fixture
def _few_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_stage, "MAX_INLINE_ACKNOWLEDGEMENTS", 3)


class Producing:
    """The requests of one connection, and the threads of its sidecar."""

    def __init__(self) -> None:
        self.interception = Intercepting("Slow")
        (self.slow,) = self.interception.interceptors
        self.performer = Performer(LoopBudget(), Threads(4))

    def sent(self, *values: str) -> Driven:
        exchange = self.interception.produce()
        exchange.request(produce_request(9, {"orders": {0: batch(*values)}}))
        return exchange

    def perform(self, step: Any, is_request: bool = False) -> Awaitable[Any]:
        assert isinstance(step, Work)
        assert step.must_run
        return self.performer.perform(step, self.interception.client.number, is_request)

    async def begun(self, exchange: Driven, offset: int) -> Awaitable[Any]:
        """A thread notifies of a response."""
        work = self.perform(exchange.response(produce_response(9, {"orders": {0: offset}})))
        assert await asyncio.to_thread(self.slow.began.wait, 10.0)
        return work


async def test_what_is_lost_with_a_connection_is_reported_after_what_a_thread_still_reports() -> None:
    producing = Producing()
    first, *later = [producing.sent(*"abcd"), producing.sent("e"), producing.sent(*"fghi"), producing.sent("j")]
    work = await producing.begun(first, 5)
    assert first.exchange.lost("closed") is None
    lost = [producing.perform(exchange.exchange.lost("closed")) for exchange in later]
    producing.slow.go_on.set()
    await asyncio.gather(work, *lost)
    assert not producing.slow.overlapped
    assert producing.slow.offsets == [(5 + at, True) for at in range(4)] + [(-1, False)] * 6


async def test_a_rejected_request_is_reported_after_what_a_thread_still_reports() -> None:
    producing = Producing()
    work = await producing.begun(producing.sent(*"abcd"), 5)
    rejected = producing.interception.produce(validating=Validating(*GUARDED, names=("orders",)))
    report = producing.perform(rejected.request(produce_request(9, {"orders": {0: batch("bad")}})), is_request=True)
    producing.slow.go_on.set()
    await asyncio.gather(work, report)
    assert not producing.slow.overlapped
    assert producing.slow.offsets == [(5 + at, True) for at in range(4)] + [(-1, False)]


async def test_once_a_thread_has_reported_few_acknowledgements_run_at_once_again() -> None:
    producing = Producing()
    first, second = producing.sent(*"abcd"), producing.sent("e")
    work = await producing.begun(first, 5)
    producing.slow.go_on.set()
    assert first.answer(await work) == produce_response(9, {"orders": {0: 5}})
    assert second.response(produce_response(9, {"orders": {0: 9}})) == produce_response(9, {"orders": {0: 9}})
    assert producing.slow.offsets[-1] == (9, True)


async def test_a_client_does_not_wait_for_interceptors_over_their_time_limit_and_the_order_stays() -> None:
    producing = Producing()
    first, second = producing.sent(*"abcd"), producing.sent("e")
    work = await producing.begun(first, 5)
    assert first.fail(TimeoutError()) == produce_response(9, {"orders": {0: 5}})
    report = producing.perform(second.response(produce_response(9, {"orders": {0: 9}})))
    producing.slow.go_on.set()
    await asyncio.gather(work, report)
    assert not producing.slow.overlapped
    assert [offset for offset, _ in producing.slow.offsets] == [5, 6, 7, 8, 9]
