"""remove_header: headers removed for brokers or consumers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context, RecordBatch

Made = Callable[..., Any]
THERE = {"headers": [("a", b"1"), ("secret", b"2"), ("b", None), ("secret", None), ("token", b"")]}


def test_all_headers_of_the_keys_are_removed_and_the_others_keep_their_order(configured: Made, sent: Made) -> None:
    removing = configured("remove_header", keys=["secret", "token"])
    assert sent(removing, THERE, {"headers": [("secrets", b"")]}) == [[("a", b"1"), ("b", None)], [("secrets", b"")]]


def test_headers_are_removed_for_consumers(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    removing = configured("remove_header", keys=["secret"])
    left = removing.on_consume_batch(RecordBatch("orders", 0, a_batch(THERE), context()))
    assert [header.key for header in left[0].headers] == ["a", "b", "token"]


def test_records_without_the_headers_are_returned_as_the_same_object(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    records = a_batch({"headers": [("a", b"")]}, {})
    assert (
        configured("remove_header", keys=["secret"]).on_send_batch(RecordBatch("o", 0, records, context())) is records
    )


@pytest.mark.parametrize(
    ("hooks", "producers", "consumers"),
    [(["on_send"], True, False), (["on_consume"], False, True), (["on_send", "on_consume"], True, True)],
)
def test_only_configured_hooks_decode_records(hooks: list[str], producers: bool, consumers: bool, report: Any) -> None:
    settings = InterceptorSettings("remove_header", "it", settings={"keys": ["secret"], "hooks": hooks})
    catalog = InterceptorCatalog([settings], report)
    assert (catalog.producers("orders") is not None, catalog.consumers("orders") is not None) == (producers, consumers)


def test_remove_header_is_fail_closed(configured: Made) -> None:
    assert configured("remove_header", keys=["secret"]).hints().fail_closed


@pytest.mark.parametrize("wrong", [{}, {"keys": ["a"], "hooks": []}])
def test_a_remove_header_without_keys_or_hooks_is_rejected(configured: Made, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^has no effect: set keys, and at least one of the hooks"):
        configured("remove_header", **wrong)
