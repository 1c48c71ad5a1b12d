"""Spans of requests, by their headers."""

from __future__ import annotations

from struct import pack

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from support.dialogue import Dialogue, request, response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.server.admin.otlp_spans import Tracing


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
