"""Interceptors that take long for a record are called in a thread: other clients do not wait for them."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.fake_broker import FakeBroker
from support.fetches import begin_fetch, fetch_request
from support.in_process import connected
from support.interception import Adds, Intercepting, Reads, fetch_response
from support.produce_requests import batch, produce_request, produce_response, results, stores
from support.sidecar_process import port_of, running

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.plugins.pace import MAX_TURN_S, UNMEASURED_RECORDS

pytestmark = pytest.mark.measured

RECORD_S = 0.02  # that each record takes
MAX_DELAY_S = 0.6  # of the event loop, even on a busy machine; the records of one request take two seconds
RECORDS = 100
PLUG_IN = f"""\
import time

from kafka_sidecar.interceptors.contract import ProducerInterceptor


class Sleeps(ProducerInterceptor):
    def on_send(self, record):
        time.sleep({RECORD_S})
        return record
"""


async def sends(intercepting: Intercepting, records: int) -> int:
    """How many threads a request with so many records needs."""
    before = len(intercepting.needs)
    request = produce_request(9, {"orders": {0: batch(*["keep"] * records)}})
    assert await intercepting.finish(intercepting.produce(), request) == request
    return len(intercepting.needs) - before


async def test_what_is_not_measured_yet_sees_few_records_at_once() -> None:
    intercepting = Intercepting("Adds")
    assert await sends(intercepting, UNMEASURED_RECORDS + 1) == 1
    assert threading.get_ident() not in intercepting.interceptors[0].threads
    assert await sends(Intercepting("Adds"), UNMEASURED_RECORDS) == 0


async def test_an_interceptor_that_takes_long_for_a_record_sees_batches_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast = Adds.on_send

    def on_send(self: Adds, record: ProducerRecord) -> ProducerRecord:
        time.sleep(MAX_TURN_S / 2)
        return fast(self, record)

    intercepting = Intercepting("Adds")
    with monkeypatch.context() as patch:
        patch.setattr(Adds, "on_send", on_send)
        assert await sends(intercepting, 1) == 0
        assert await sends(intercepting, 3) == 1
    assert await sends(intercepting, 3) == 1  # it has become fast, which is not known yet


async def test_an_interceptor_that_takes_long_for_an_acknowledgement_is_notified_in_a_thread() -> None:
    intercepting = Intercepting("Adds")
    chain = intercepting.catalog.producers("orders")
    assert chain is not None
    chain.notify_pace.add(1, MAX_TURN_S / 2)
    for records, threads in ((1, 0), (9, 1)):
        exchange = intercepting.produce()
        intercepting.needs.clear()
        chain.send_pace.add(1000, 0.001)
        await intercepting.finish(exchange, produce_request(9, {"orders": {0: batch(*["keep"] * records)}}))
        response = produce_response(9, {"orders": {0: 1}})
        assert await exchange.finish(exchange.response(response), intercepting.perform) == response
        assert [type(need) for need in intercepting.needs] == [Work] * threads
    assert len(intercepting.interceptors[0].acknowledged) == 10


async def test_a_consumers_interceptor_that_takes_long_for_a_record_sees_batches_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast = Reads.on_consume

    def on_consume(self: Reads, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        time.sleep(len(records) * MAX_TURN_S / 2)
        return fast(self, records)

    monkeypatch.setattr(Reads, "on_consume", on_consume)
    intercepting = Intercepting("Reads")
    for records, threads in ((1, 0), (3, 1)):
        exchange = begin_fetch(intercepting)
        exchange.request(fetch_request(12, {"orders": {0: 0}}))
        response = fetch_response(12, {"orders": {0: batch(*["keep"] * records)}})
        assert await exchange.finish(exchange.response(response), intercepting.perform) == response
        assert len(intercepting.needs) == threads


@pytest.mark.program
async def test_a_running_sidecar_serves_others_while_records_take_20_ms_each(tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text(PLUG_IN)
    entry = {"type": "sleeping:Sleeps", "class_path": str(tmp_path), "topics": ["orders"]}
    config = tmp_path / "sidecar.yaml"
    config.write_text(yaml.safe_dump({"interceptors": [entry]}))
    async with FakeBroker(1) as broker, running(broker, tmp_path / "log", "--config", str(config)) as sidecar:
        broker.answers[ApiKey.PRODUCE] = stores
        async with connected(port_of(sidecar)) as slow, connected(port_of(sidecar)) as other:
            request = produce_request(9, {"orders": {0: batch(*["v"] * RECORDS)}})
            waiting, asked = asyncio.ensure_future(slow.ask(request)), 0
            while not waiting.done():
                await other.ask(produce_request(9, {"free": {0: batch("v")}}))
                asked += 1
            assert [code for _, _, code, _ in results(9, await waiting, 7)] == [0]
        assert asked > 10
        delays = await asyncio.to_thread(loop_delays, f"{sidecar.admin}/metrics")
        assert delays["+Inf"] > 0
        assert max((float(bound) for bound, count in delays.items() if count < delays["+Inf"]), default=0) < MAX_DELAY_S


def loop_delays(url: str) -> dict[str, float]:
    """How often the event loop was late by at most so many seconds."""
    with urllib.request.urlopen(url, timeout=10) as response:
        text = response.read().decode()
    return {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "kafka_sidecar_event_loop_delay_seconds_bucket"
    }
