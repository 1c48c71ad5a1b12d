"""Metrics and spans that a collector gets by OTLP, of a sidecar that serves clients."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from struct import pack
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Histogram, Sum
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from support.collector import Collector, collecting
from support.dialogue import Dialogue, request, response
from support.fake_broker import FakeBroker
from support.in_process import config, connected, port_of, until
from support.produce_requests import batch, produce_request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.server.admin.exposition import all_families, registry, render
from kafka_sidecar.proxy.server.admin.otlp import OtlpExport, Tracing, translate
from kafka_sidecar.proxy.server.process import Process
from kafka_sidecar.proxy.server.server import Server
from kafka_sidecar.proxy.telemetry.log_limiter import LogRate
from kafka_sidecar.proxy.telemetry.metrics import Metrics

SECRET = "4111-1111"


@asynccontextmanager
async def exporting(collector: Collector, **otlp: Any) -> AsyncIterator[Server]:
    """A sidecar that sends what it has when it stops."""
    async with FakeBroker(1) as broker:
        settings: dict[str, Any] = {
            "policies": {"stub": {"type": "support.policies:Stub"}},
            "topics": [{"name": "orders", "policy": "stub"}],
            "otlp": {"endpoint": collector.url, **otlp},
        }
        rate = LogRate(100, lambda: 0.0)
        process = Process(config(broker, **settings), None, lambda find_more: config(broker), rate)
        server, export = process.server, process._export
        assert export is not None
        await server.start()
        export.start()
        try:
            yield server
        finally:
            hurry = asyncio.Event()
            hurry.set()
            await process.drain(hurry)


async def talk(server: Server) -> None:
    async with connected(port_of(server)) as client:
        await client.ask(request(ApiKey.HEARTBEAT, 3, 7))
        await client.ask(produce_request(9, {"orders": {0: batch(f"bad {SECRET}")}}))


async def test_the_collector_gets_every_metric_with_the_values_of_prometheus() -> None:
    with collecting() as collector:
        async with exporting(collector, service_name="gateway", headers={"x-team": "data"}) as server:
            await talk(server)
        got = collector.last_metrics
        resource = collector.metrics[-1].resource_metrics[0].resource
        attributes = {one.key: one.value.string_value for one in resource.attributes}
    assert (attributes["service.name"], collector.headers[-1]["x-team"]) == ("gateway", "data")
    expected = {family.name: family for family in text_string_to_metric_families(render(server.metrics).decode())}
    named = {name.removesuffix("_total") for name in got}
    assert named >= {name for name, family in expected.items() if family.samples and name.startswith("kafka_sidecar_")}
    requests = got["kafka_sidecar_client_to_proxy_request_total"].sum
    assert requests.is_monotonic
    assert {point.attributes[0].value.string_value: point.as_int for point in requests.data_points} == {
        "Heartbeat": 1, "Produce": 1,
    }  # fmt: skip
    rejected = got["kafka_sidecar_rejected_records_total"].sum.data_points[0]
    assert {one.key: one.value.string_value for one in rejected.attributes}["reason"] == "bad"
    assert got["kafka_sidecar_cluster_reached"].gauge.data_points[0].as_int == 1


async def test_histograms_have_the_counts_of_their_buckets() -> None:
    with collecting() as collector:
        async with exporting(collector) as server:
            await talk(server)
        point = collector.last_metrics["kafka_sidecar_request_latency_seconds"].histogram.data_points[0]
    assert (point.count, sum(point.bucket_counts), len(point.bucket_counts)) == (1, 1, len(point.explicit_bounds) + 1)
    assert 0 < point.sum < 10


async def test_metrics_are_sent_at_the_interval() -> None:
    with collecting() as collector:
        async with exporting(collector, interval="20ms"):
            await until(lambda: len(collector.metrics) >= 2)
        assert not collector.spans


async def test_a_span_of_each_sampled_request_has_the_conventions_for_messaging_and_no_contents() -> None:
    with collecting() as collector:
        async with exporting(collector, sample=1) as server:
            await talk(server)
        heartbeat, produce = sorted(collector.spans, key=lambda span: span.name)
        received = collector.received
    attributes = {one.key: one.value for one in produce.attributes}
    assert (produce.name, attributes["messaging.system"].string_value) == ("Produce", "kafka")
    assert attributes["messaging.operation.type"].string_value == "send"
    assert attributes["messaging.client.id"].string_value == "app"
    assert (attributes["kafka.api.version"].int_value, attributes["kafka.response.by"].string_value) == (9, "sidecar")
    assert (len(heartbeat.trace_id), len(heartbeat.span_id)) == (16, 8)
    assert 0 < heartbeat.end_time_unix_nano - heartbeat.start_time_unix_nano < 10e9
    assert SECRET.encode() not in received


async def test_without_sampling_nothing_is_added_to_a_request() -> None:
    with collecting() as collector:
        async with exporting(collector) as server:
            assert server.record_requests is None


async def test_a_collector_that_fails_is_logged_once_until_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    metrics = Server(config("a:1"), Metrics()).metrics
    with collecting() as collector:
        export = OtlpExport(
            config("a:1", otlp={"endpoint": collector.url}).otlp, registry(partial(all_families, metrics)).collect, "x"
        )
        for status in (400, 400, 200, 200):
            collector.status = status
            await export._export()
    assert [line for line in caplog.messages if line.startswith("metrics")] == [
        "metrics not exported", "metrics are exported again",
    ]  # fmt: skip


def test_without_an_endpoint_nothing_of_opentelemetry_is_used() -> None:
    assert Process(config("a:1"), None, lambda find_more: config("a:1"), LogRate(9, lambda: 0.0))._export is None


def test_where_opentelemetry_is_not_installed_the_remedy_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka_sidecar.proxy.server.admin.otlp", None)
    exported = config("a:1", otlp={"endpoint": "http://collector:4318"})
    with pytest.raises(ConfigError, match=r"otlp.endpoint: .*in a clone, pip install '\.\[otel\]'"):
        Process(exported, None, lambda find_more: exported, LogRate(9, lambda: 0.0))


def test_counters_gauges_and_histograms_are_translated_and_empty_families_omitted() -> None:
    counter = CounterMetricFamily("c", "a counter", labels=["api_key"])
    counter.add_metric(["Fetch"], 3)
    histogram = HistogramMetricFamily("h", "a histogram", labels=["api_key"])
    histogram.add_metric(["Fetch"], [("0.1", 1), ("1.0", 4), ("+Inf", 6)], 12.5)
    empty = CounterMetricFamily("e", "no series", labels=["x"])
    one, two, three = translate([counter, GaugeMetricFamily("g", "a gauge", value=2), empty, histogram], 5, 9)
    assert (one.name, one.description) == ("c_total", "a counter")
    assert isinstance(one.data, Sum)
    point = one.data.data_points[0]
    assert (point.attributes, point.value, point.start_time_unix_nano, point.time_unix_nano) == (
        {"api_key": "Fetch"}, 3, 5, 9,
    )  # fmt: skip
    assert isinstance(two.data, Gauge)
    assert isinstance(three.data, Histogram)
    (series,) = three.data.data_points
    assert (list(series.bucket_counts), list(series.explicit_bounds)) == ([1, 3, 2], [0.1, 1.0])
    assert (series.count, series.sum, series.attributes) == (6, 12.5, {"api_key": "Fetch"})


def traced(share: float) -> tuple[Dialogue, list[ReadableSpan]]:
    ended: list[ReadableSpan] = []
    talk = Dialogue()
    talk.session.record = Tracing(share, Resource({}), ended.append).recorder(talk.session, talk.session.record)
    talk.client(request(ApiKey.HEARTBEAT, 3, 7)).broker(response(7, pack(">ih", 1500, 27)))
    return talk, ended


def test_an_error_and_a_throttle_time_are_attributes_of_the_span() -> None:
    talk, (span,) = traced(1.0)
    assert span.attributes is not None
    assert (span.name, span.attributes["error.type"], span.attributes["kafka.throttle_ms"]) == ("Heartbeat", "27", 1500)
    assert span.status.status_code is StatusCode.ERROR
    assert "messaging.operation.type" not in span.attributes
    assert len(list(talk.session.recorder)) == 1


def test_requests_that_are_not_sampled_are_recorded_all_the_same() -> None:
    talk, spans = traced(0.0)
    assert (len(list(talk.session.recorder)), spans) == (1, [])
