"""Metrics of TLS for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from kafka_sidecar.proxy.security.tls.live_tls import LiveTls
from kafka_sidecar.proxy.telemetry.prometheus import PREFIX, buckets


def collect(sides: Iterable[LiveTls]) -> Iterator[Metric]:
    """All metric families of TLS."""
    done = CounterMetricFamily(PREFIX + "tls_handshakes", "Successful TLS handshakes", labels=["side"])
    failed = CounterMetricFamily(
        PREFIX + "tls_handshake_failures", "TLS handshakes that failed", labels=["side", "reason"]
    )
    durations = HistogramMetricFamily(
        PREFIX + "tls_handshake_seconds", "Time from the connection to the end of its handshake", labels=["side"]
    )
    expiry = GaugeMetricFamily(
        PREFIX + "tls_certificate_expiry_seconds",
        "Seconds until the first certificate in a file expires",
        labels=["side", "setting"],
    )
    current = GaugeMetricFamily(
        PREFIX + "tls_last_reload_successful", "1 if the files of TLS apply, 0 if changed ones were rejected",
        labels=["side"],
    )  # fmt: skip
    for side in sides:
        stats = side.stats
        if side.side != "admin":  # whose handshakes asyncio makes
            done.add_metric([side.side], stats.handshakes)
            durations.add_metric([side.side], *buckets(stats.durations, stats.duration_s))
        for reason, number in stats.failures.items():
            failed.add_metric([side.side, reason], number)
        for setting, at in side.loaded.not_after.items():
            expiry.add_metric([side.side, setting], at - time.time())
        current.add_metric([side.side], int(stats.is_current))
    yield from (done, failed, durations, expiry, current)
