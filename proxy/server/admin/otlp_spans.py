"""Spans of sampled requests: from a request's first bytes to its response's, by their headers alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import random

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.recorder import Recorded, request_lines
from kafka_sidecar.proxy.relay.session import Session

NS = 1_000_000_000
OPERATIONS = {ApiKey.PRODUCE: "send", ApiKey.FETCH: "receive", ApiKey.OFFSET_COMMIT: "settle"}


class Tracing:
    """Chooses requests, and passes their spans on."""

    def __init__(self, share: float, resource: Resource, ended: Callable[[ReadableSpan], None]) -> None:
        self._share = share
        self._resource = resource
        self._ended = ended

    def recorder(self, session: Session, add: Callable[[Recorded], None]) -> Callable[[Recorded], None]:
        """What records the requests of a session: ``add``, and of some requests a span."""

        def record(recorded: Recorded) -> None:
            add(recorded)
            if random() < self._share:  # noqa: S311 - not a secret
                self._ended(self._span(session, recorded))

        return record

    def _span(self, session: Session, recorded: Recorded) -> ReadableSpan:
        (line,) = request_lines([recorded], time.perf_counter())
        api = recorded[0]
        began = time.time_ns() - int(line.ago_s * NS)
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": api.name,
            "kafka.api.version": api.version,
            "kafka.correlation_id": line.correlation_id,
            "kafka.request.bytes": line.request_bytes,
            "kafka.response.bytes": line.response_bytes,
            "kafka.response.by": line.response,
            "kafka_sidecar.session": session.number,
        }
        if (kind := OPERATIONS.get(ApiKey(api.key))) is not None:
            attributes["messaging.operation.type"] = kind
        if session.client_id is not None:
            attributes["messaging.client.id"] = session.client_id.encode("utf-8", "replace").decode()
        if line.status.throttle_ms:
            attributes["kafka.throttle_ms"] = line.status.throttle_ms
        if line.status.error_code:
            attributes["error.type"] = str(line.status.error_code)
        context = SpanContext(_random_id(16), _random_id(8), is_remote=False, trace_flags=TraceFlags(1))
        return ReadableSpan(
            api.name,
            context=context,
            resource=self._resource,
            attributes=attributes,
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR) if line.status.error_code else Status(),
            start_time=began,
            end_time=began + int((line.response_after_s or 0.0) * NS),
        )


def _random_id(size: int) -> int:
    return int.from_bytes(os.urandom(size), "big") or 1
