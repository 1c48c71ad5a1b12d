"""The metrics of validation."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from support.produce_requests import BAD, GOOD, Validating, batch

from kafka_sidecar.proxy.features.validation.exposition import collect as families
from kafka_sidecar.proxy.server.admin.exposition import render
from kafka_sidecar.proxy.telemetry.metrics import Metrics


def test_rejections_and_failures_of_policies_have_metrics() -> None:
    validation = Validating()
    validation.validated(9, {"a": {0: BAD, 1: GOOD, 2: batch("bug")}})
    page = render(Metrics(features=[lambda: families(validation.stats)])).decode()
    samples = {
        (sample.name.removeprefix("kafka_sidecar_"), "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert samples["rejected_records_total", "enforcestubbada"] == 2
    assert samples["policy_failures_total", "enforcestub"] == 1
    assert samples["validated_batches_total", "contents"] == 3
    assert samples["validated_records_total", ""] == 6
