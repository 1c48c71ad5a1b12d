"""create_timestamp: the header `_t` of li-apache-kafka-clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.contract import Context, RecordBatch

Made = Callable[..., Any]
NOW = 1_700_000_000_000


def test_the_timestamp_of_the_record_is_written_as_eight_big_endian_bytes(configured: Made, sent: Made) -> None:
    found = sent(configured("create_timestamp"), {"timestamp": NOW}, {"timestamp": 1, "headers": [("a", None)]})
    assert found == [[("_t", bytes.fromhex("0000018bcfe56800"))], [("a", None), ("_t", bytes(7) + b"\x01")]]


def test_a_record_without_a_timestamp_gets_the_current_time(configured: Made, sent: Made) -> None:
    assert sent(configured("create_timestamp"), {"timestamp": -1}, now=255) == [[("_t", bytes(7) + b"\xff")]]


def test_an_existing_header_is_kept_whatever_its_value(
    configured: Made, a_batch: Callable[..., Records], context: Callable[..., Context]
) -> None:
    records = a_batch({"headers": [("_t", bytes(8))]}, {"headers": [("_t", None)]})
    assert configured("create_timestamp").on_send_batch(RecordBatch("copy", 0, records, context())) is records


def test_create_timestamp_has_no_settings(configured: Made) -> None:
    with pytest.raises(ValueError, match=r"^key is not a setting; the settings are none"):
        configured("create_timestamp", key="created")
