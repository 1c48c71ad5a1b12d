"""No built-in interceptor parses a large value in this process: all connections would wait for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.large_values import TEXTS, record_parses

from kafka_sidecar.codec.records import Records, batches, build_batch
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.interceptors.registry import INTERCEPTORS

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "add_header": [{"headers": {"a": "b"}}],
    "commit_metadata": [],  # sees no records, as skip_identical_commits
    "counting": [{}],
    "create_timestamp": [{}],
    "latency": [{}],
    "mask_fields": [
        {"fields": ["$.a"]},
        {"fields": ["$..b"], "with": {"keep_last": 4}},
        {"fields": ["$.b"], "schema": {"language": "json_schema", "file": "a.json"}},
    ],
    "remove_header": [{"keys": ["a"]}],
    "skip_identical_commits": [],
    "trace_context": [{}],
}
CASES = [(name, settings) for name, each in SETTINGS.items() for settings in each]


def test_all_built_in_interceptors_are_here() -> None:
    assert sorted(SETTINGS) == sorted(INTERCEPTORS.built_in)


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_no_large_value_is_parsed_here(
    name: str,
    settings: dict[str, Any],
    text: bytes,
    a_batch: Callable[..., Records],
    context: Callable[..., Context],
    report: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "a.json").write_text("{}")
    if "schema" in settings:
        settings = {**settings, "schema": {**settings["schema"], "file": str(tmp_path / "a.json")}}
    catalog = InterceptorCatalog([InterceptorSettings(name, "it", settings=settings)], report)
    producers, consumers = catalog.producers("orders"), catalog.consumers("orders")
    (empty,) = batches(build_batch([]))
    records = a_batch({"value": text, "key": text, "headers": [("a", text)]})
    seen = record_parses(monkeypatch)
    if producers is not None:
        assert len(list(producers.send(context(), "orders", 0, records))) == 1
    if consumers is not None:
        assert len(list(consumers.consume(context(), "orders", 0, empty.header, records))) == 1
    assert producers is not None or consumers is not None
    assert seen == report.failures == []
