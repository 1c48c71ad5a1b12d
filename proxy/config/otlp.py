"""The section of the export to an OpenTelemetry collector."""

from __future__ import annotations

from pydantic import Field

from kafka_sidecar.plugins.units import Duration
from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.types import duration_field


class Otlp(Section):
    """Needs `pip install 'kafka-sidecar[otel]'`."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """URL of a collector, such as `http://collector:4318`: metrics and spans are sent to it by OTLP over HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers of these requests."""
    interval: Duration = duration_field("1m", gt=0)
    """Interval at which metrics are sent."""
    sample: float = Field(default=0, ge=0, le=1)
    """The share of requests of which a span is sent; 0: no spans."""
    service_name: str = "kafka-sidecar"
    """The service that metrics and spans belong to."""
