"""What is counted, and that Prometheus reads the same numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import oracle, produce_requests
from support.all_metrics import all_metrics
from support.broker_responses import asked, broker, named
from support.dialogue import Dialogue, pieces, produce, produced, request, response
from support.produce_requests import BAD, GOOD, Validating, produce_response

from kafka_sidecar import __version__
from kafka_sidecar.codec import compiled
from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.interceptors.metrics import Histogram, Metric
from kafka_sidecar.proxy.server.admin.exposition import render
from kafka_sidecar.proxy.telemetry.metrics import Metrics

GOLDEN = Path(__file__).with_name("metrics.txt")
OF_THIS_PLACE = ("process_", "kafka_sidecar_build_info")
Samples = dict[tuple[str, str], float]

CLIENT = [
    asked(ApiKey.API_VERSIONS, 4), request(ApiKey.API_VERSIONS, 6, 2, b"to come"), asked(ApiKey.METADATA, 12, 3),
    produce(9, 4, 0), produce(9, 5, 1), produce(3, 6, 0), asked(ApiKey.FETCH, 17, 7), request(ApiKey.HEARTBEAT, 3, 8),
]  # fmt: skip
FETCHED = [{"partitions": [{"records": bytes(200_000)}]}]
BROKER = [
    oracle.response_frame(oracle.response(18, 4, api_keys=[{"api_key": key} for key in range(200)]), 1),
    oracle.response_frame(named(ApiKey.METADATA, 12), 3),
    produced(9, 5),
    oracle.response_frame(named(ApiKey.FETCH, 17, responses=FETCHED, node_endpoints=[broker(7)]), 7),
    response(8, b"done"),
]


def dialogue() -> Dialogue:
    chunks = pieces(b"".join(BROKER), list(range(0, 300_000, 1000)))
    return Dialogue(host="s").client(b"".join(CLIENT)).broker(*chunks)


def read(metrics: Metrics) -> Samples:
    """(name without prefix, value of the only label but a bucket's) -> value."""
    found = {}
    for family in text_string_to_metric_families(render(metrics).decode()):
        for sample in family.samples:
            labels = {key: value for key, value in sample.labels.items() if key != "le"}
            found[sample.name.removeprefix("kafka_sidecar_"), "".join(labels.values())] = sample.value
    return found


def total(samples: Samples, name: str) -> float:
    return sum(value for (sample, _), value in samples.items() if sample == name)


@pytest.mark.parametrize("acks", [-1, 0])
def test_the_bytes_of_changed_requests_and_responses_are_counted_on_each_side(acks: int) -> None:
    validation = Validating()
    talk = Dialogue(exchange=lambda key, version: lambda data, at, size, client: validation.exchange(9).exchange)
    frames = [
        produce_requests.produce_request(9, {"a": {0: GOOD}}, correlation_id=1),
        produce_requests.produce_request(9, {"a": {0: BAD}}, correlation_id=2),
        produce_requests.produce_request(9, {"a": {0: BAD, 1: GOOD}}, acks=acks, correlation_id=3),
    ]
    answers = [produce_response(9, {"a": {at: 5}}, number) for at, number in ((0, 1), (1, 3))]
    talk.client(*frames).broker(*answers[: 2 if acks else 1])
    samples = read(talk.metrics)
    assert talk.cause == (None if acks else "rejected_without_acks")
    assert total(samples, "client_to_proxy_request_size_bytes_total") == sum(map(len, frames))
    assert total(samples, "proxy_to_broker_request_size_bytes_total") == len(talk.to_broker)
    if acks:  # else it ends before its answers are due
        assert total(samples, "proxy_to_client_response_size_bytes_total") == len(talk.to_client)


def test_the_bytes_are_counted_at_each_of_the_four_points() -> None:
    talk = dialogue()
    samples = read(talk.metrics)
    assert talk.session.closing is None
    assert total(samples, "client_to_proxy_request_size_bytes_total") == sum(map(len, CLIENT))
    assert total(samples, "proxy_to_broker_request_size_bytes_total") == len(talk.to_broker)
    assert total(samples, "broker_to_proxy_response_size_bytes_total") == sum(map(len, BROKER))
    assert total(samples, "proxy_to_client_response_size_bytes_total") == len(talk.to_client)


def test_requests_and_responses_are_counted_by_api_at_each_of_the_four_points() -> None:
    samples = read(dialogue().metrics)
    points = [
        "client_to_proxy_request",
        "proxy_to_broker_request",
        "broker_to_proxy_response",
        "proxy_to_client_response",
    ]
    counted = {api: [samples[f"{point}_total", api] for point in points] for api in ("ApiVersions", "Produce", "Fetch")}
    assert counted == {"ApiVersions": [2, 1, 1, 2], "Produce": [3, 3, 1, 1], "Fetch": [1, 1, 1, 1]}


def test_the_latency_is_the_time_from_the_first_bytes_of_a_request_to_those_of_its_response() -> None:
    talk = Dialogue()
    for seconds in (0.000_001, 0.003, 0.003, 70.0, 10_000.0):
        talk.client(request(ApiKey.HEARTBEAT, 3, 1, b"x" * 100)[:50])
        talk.now += seconds
        talk.client(request(ApiKey.HEARTBEAT, 3, 1, b"x" * 100)[50:]).broker(response(1, b"answer")[:8])
        talk.now += 5.0
        talk.broker(response(1, b"answer")[8:])
    samples = read(talk.metrics)
    assert samples["request_latency_seconds_count", "Heartbeat"] == 5
    assert samples["request_latency_seconds_sum", "Heartbeat"] == pytest.approx(10_070.006, rel=1e-6)
    buckets = histogram(talk.metrics, "request_latency_seconds")
    assert [count for le, count in buckets.items() if le < 0.003] == [1] * 8
    assert [count for le, count in buckets.items() if 0.003 < le < 60] == [3] * 14
    assert buckets[float("inf")] == 5


def histogram(metrics: Metrics, name: str) -> dict[float, float]:
    return {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(render(metrics).decode())
        for sample in family.samples
        if sample.name == f"kafka_sidecar_{name}_bucket"
    }


def test_only_rewritten_responses_count_as_buffered() -> None:
    talk = Dialogue().client(asked(ApiKey.METADATA, 12, 3), asked(ApiKey.FETCH, 17, 7))
    for frame in BROKER[1], BROKER[3]:
        for chunk in pieces(frame, [20]):
            talk.broker(chunk)
            talk.now += 0.5
    samples = read(talk.metrics)
    assert samples["buffered_responses_total", "Metadata"] == 1
    assert samples["buffered_response_seconds_total", "Metadata"] == 0.5
    assert ("buffered_responses_total", "Fetch") not in samples


def test_connections_are_counted_by_listener_and_their_ends_by_cause() -> None:
    metrics = Metrics()
    metrics.connections.update(["bootstrap", "node", "node"])
    metrics.active["node"] += 1
    metrics.disconnects["client_closed"] += 2
    metrics.connect_failures["connect_timeout"] += 1
    metrics.broker_listeners, metrics.cluster_reached = 3, True
    samples = read(metrics)
    assert samples["connections_total", "node"] == 2
    assert samples["active_connections", "node"] == 1
    assert samples["disconnects_total", "client_closed"] == 2
    assert samples["broker_connect_failures_total", "connect_timeout"] == 1
    assert (samples["broker_listeners", ""], samples["cluster_reached", ""]) == (3, 1)


def test_late_timers_are_counted_and_early_ones_have_no_delay() -> None:
    metrics = Metrics()
    for seconds in (-0.001, 0.0, 0.25, 1e6):
        metrics.record_loop_delay(seconds)
    assert read(metrics)["event_loop_delay_seconds_count", ""] == 4
    buckets = histogram(metrics, "event_loop_delay_seconds")
    assert [buckets[min(le for le in buckets if le > 0.25)], buckets[float("inf")]] == [3, 4]


def test_a_reload_that_fails_keeps_the_time_of_the_last_good_one() -> None:
    metrics = Metrics()
    metrics.record_reload((), 1000.0)
    assert (metrics.config_is_current, metrics.config_applied_at) == (True, 1000.0)
    metrics.record_reload(None, 2000.0)
    assert (metrics.config_is_current, metrics.config_applied_at) == (False, 1000.0)


def test_a_restart_is_required_until_a_valid_file_has_the_values_that_apply() -> None:
    metrics, seen = Metrics(), list[float]()
    for needs_restart in ((), ("listen",), None, ()):
        metrics.record_reload(needs_restart, 1000.0)
        seen.append(read(metrics)["config_restart_required", ""])
    assert seen == [0, 1, 1, 0]


def test_the_build_and_the_process_have_metrics() -> None:
    text = render(Metrics()).decode()
    assert f'kafka_sidecar_build_info{{build="{compiled.in_use()}",python="' in text
    assert f'version="{__version__}"}} 1.0' in text
    assert "process_resident_memory_bytes " in text


def test_without_requests_no_api_has_metrics() -> None:
    assert b"api_key=" not in render(Metrics())


def test_the_whole_page() -> None:
    """Each family with each of its samples."""
    durations = Histogram()
    durations.add(100, 58)
    own = [
        Metric("own_counts", 'With "quotes".', ("topic",), counters={('odd"\n\\',): 75}),
        Metric("own_sizes", "A gauge.", (), gauges={(): 1.5}),
        Metric("own_seconds", "A histogram.", (), histograms={(): durations}),
    ]
    lines = render(all_metrics(*own)).decode().splitlines()
    named = [(line.split()[2] if line.startswith("#") else line, line) for line in lines]
    assert [line for name, line in named if not name.startswith(OF_THIS_PLACE)] == GOLDEN.read_text().splitlines()
