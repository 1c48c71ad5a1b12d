"""Several built-in interceptors in one chain: each gets the result of the one before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import AcknowledgedBatch, Context

CHAIN = [
    InterceptorSettings("remove_header", "no-secrets", settings={"keys": ["origin"], "hooks": ["on_send"]}),
    InterceptorSettings("create_timestamp", "created"),
    InterceptorSettings("add_header", "tenant", settings={"headers": {"tenant": "acme", "origin": "ours"}}),
    InterceptorSettings("add_header", "again", settings={"headers": {"tenant": "other", "app": {"from": "client_id"}}}),
    InterceptorSettings("trace_context", "traces"),
    InterceptorSettings("latency", "latency"),
    InterceptorSettings("counting", "counting"),
]


def test_each_interceptor_gets_the_result_of_the_one_before_it(
    a_batch: Callable[..., Records], context: Callable[..., Context], report: Any
) -> None:
    catalog, here = InterceptorCatalog(CHAIN, report), context(client_id="app")
    chain = catalog.producers("orders")
    assert chain is not None
    given = a_batch({"key": b"k", "value": b"v", "headers": [("origin", b"theirs"), ("a", None)]}, {})
    left = chain.send(here, "orders", 0, given)
    names = ["_t", "tenant", "origin", "app", "traceparent"]
    assert [[header.key for header in record.headers] for record in left] == [["a", *names], names]
    assert [(header.key, header.value) for header in left[1].headers][1:4] == [
        ("tenant", b"acme"),
        ("origin", b"ours"),
        ("app", b"app"),
    ]
    assert [(record.key, record.value, record.timestamp) for record in left] == [
        (record.key, record.value, record.timestamp) for record in given
    ]

    chain.notify(AcknowledgedBatch("orders", 0, 2, here, here.clock(), 40), chain.collect_details(left), None)
    figures = {one.name: one for guard in catalog.guards for one in guard.interceptor.metrics()}
    assert figures["written_records"].counters == {("orders", "app"): 2}
    assert figures["sent_record_bytes"].counters == {("orders", "app"): len(left.payload)}
    assert sum(figures["produce_latency_seconds"].histograms["orders",].counts) == 2
    assert report.failures == []
