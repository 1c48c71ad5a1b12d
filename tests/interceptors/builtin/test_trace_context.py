"""trace_context: traces that are continued or started."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.builtin.traceparent import TraceParent, parse_traceparent
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context, RecordBatch

Made = Callable[..., Any]
TRACE, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"
VALID = bytes(TraceParent(TRACE, SPAN, 1))
STATE = ("tracestate", b"congo=t61rcWkgMzE")


def of(headers: list[tuple[str, bytes | None]]) -> TraceParent:
    """The one `traceparent` of a record; it must be the last header."""
    (value,) = [value for key, value in headers if key == "traceparent"]
    assert headers[-1] == ("traceparent", value)
    own = parse_traceparent(value)
    assert own is not None
    return own


def test_a_trace_is_continued_with_a_new_span(configured: Made, sent: Made) -> None:
    (headers,) = sent(configured("trace_context"), {"headers": [("traceparent", VALID), STATE, ("a", None)]})
    assert headers[:-1] == [STATE, ("a", None)]
    assert (of(headers).trace_id, of(headers).flags) == (TRACE, 1)
    assert of(headers).span_id != SPAN


def test_a_trace_that_is_not_sampled_stays_unsampled(configured: Made, sent: Made) -> None:
    quiet = bytes(TraceParent(TRACE, SPAN, 0))
    (headers,) = sent(configured("trace_context", sample=1.0), {"headers": [("traceparent", quiet)]})
    assert (of(headers).trace_id, of(headers).flags) == (TRACE, 0)


def test_the_last_of_several_traceparents_is_used_and_only_one_is_sent(configured: Made, sent: Made) -> None:
    others = [("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-00"), ("traceparent", VALID)]
    (headers,) = sent(configured("trace_context"), {"headers": others})
    assert of(headers).trace_id == TRACE


def test_a_trace_is_started_if_there_is_none(configured: Made, sent: Made) -> None:
    found = sent(configured("trace_context"), *({"headers": [("a", b"")]} for _ in range(50)))
    assert all(headers[:-1] == [("a", b"")] for headers in found)
    assert len({of(headers).trace_id for headers in found}) == 50
    assert len({of(headers).span_id for headers in found}) == 50
    assert {of(headers).flags for headers in found} == {1}


def test_a_new_trace_has_no_tracestate_of_another(configured: Made, sent: Made) -> None:
    invalid, without = {"headers": [STATE, ("traceparent", b"00-xyz")]}, {"headers": [STATE]}
    going_on = {"headers": [STATE, ("traceparent", VALID)]}
    found = sent(configured("trace_context"), invalid, without, going_on, {})
    assert [STATE in headers for headers in found] == [False, False, True, False]
    assert [of(headers).trace_id == TRACE for headers in found] == [False, False, True, False]


def test_the_configured_share_of_new_traces_is_sampled(configured: Made, sent: Made) -> None:
    found = sent(configured("trace_context", sample=0.25), *({} for _ in range(4000)))
    flags = Counter(of(headers).flags for headers in found)
    assert abs(flags[1] - 1000) < 6 * (4000 * 0.25 * 0.75) ** 0.5
    assert flags[0] + flags[1] == 4000


def test_without_start_only_valid_traces_are_continued(configured: Made, sent: Made) -> None:
    invalid = [("traceparent", b"00-xyz"), STATE]
    records = {"headers": [STATE]}, {"headers": invalid}, {"headers": [("traceparent", VALID)]}
    found = sent(configured("trace_context", start=False), *records)
    assert found[:2] == [[STATE], invalid]
    assert of(found[2]).trace_id == TRACE


def test_without_start_records_without_a_trace_are_returned_as_the_same_object(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    records = a_batch({}, {"headers": [STATE]})
    assert (
        configured("trace_context", start=False).on_send_batch(RecordBatch("orders", 0, records, context())) is records
    )


def test_opentelemetry_reads_the_written_headers(configured: Made, sent: Made) -> None:
    for record in {}, {"headers": [("traceparent", VALID), STATE]}:
        (headers,) = sent(configured("trace_context"), record)
        carrier = {key: value.decode() for key, value in headers}
        read = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
        assert (read.is_valid, read.is_remote) == (True, True)
        assert (b"%032x" % read.trace_id, b"%016x" % read.span_id, read.trace_flags) == of(headers)


def test_an_export_without_its_library_is_rejected_with_the_remedy(
    configured: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "kafka_sidecar.interceptors.builtin.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ValueError, match=r"^otlp: .* not installed; in a clone, pip install '\.\[otel\]'$"):
        configured("trace_context", otlp="http://127.0.0.1:1/v1/traces")
    assert configured("trace_context").settings.otlp is None


def test_without_export_no_acknowledgements_are_requested(report: Any) -> None:
    chain = InterceptorCatalog([InterceptorSettings("trace_context", "it")], report).producers("orders")
    assert chain is not None
    assert (chain.needs_records, chain.wants_acknowledgements) == (True, False)


@pytest.mark.parametrize("wrong", [{"sample": 1.5}, {"sample": -0.1}, {"sample": "often"}])
def test_a_sample_share_outside_0_to_1_is_rejected(configured: Made, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^sample: "):
        configured("trace_context", **wrong)
