"""Throttle times and error codes at the beginning of responses. kio is the reference."""

from __future__ import annotations

import datetime
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from kio.index import KioIndexError, load_response_schema
from kio.schema.errors import ErrorCode
from support import oracle

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.response_status import MAX_STATUS_BYTES, UNKNOWN, Status, read_status, status_fields
from kafka_sidecar.proxy.relay.routes import versions

AFTER_CORRELATION_ID = 8
NAMES = {"throttle_time": "T", "error_code": "E"}


def schemas() -> list[tuple[int, int, Any]]:
    """(key, version, response) of all that is relayed and that kio knows."""
    found = []
    for key in APIS:
        oldest, newest = versions(key) or (0, -1)
        for version in range(oldest, newest + 1):
            with suppress(KioIndexError):
                found.append((int(key), version, load_response_schema(key, version)))
    return found


def test_the_table_has_all_responses_that_begin_with_a_throttle_time_or_an_error_code() -> None:
    known, wrong = 0, []
    for key, version, schema in schemas():
        names = [NAMES.get(field.name, "") for field in fields(schema)][:2]
        expected = "".join(names) if names and names[0] else ""
        known += 1
        if status_fields(key, version) != expected:
            wrong.append((ApiKey(key).name, version, status_fields(key, version), expected))
    assert (known > 200, wrong) == (True, [])


@pytest.mark.parametrize(
    ("key", "version", "status"),
    [
        (ApiKey.FETCH, 7, Status(1500, 6)), (ApiKey.FETCH, 17, Status(1500, 6)), (ApiKey.FETCH, 4, Status(1500)),
        (ApiKey.HEARTBEAT, 0, Status(None, 6)), (ApiKey.HEARTBEAT, 4, Status(1500, 6)),
        (ApiKey.API_VERSIONS, 4, Status(None, 6)), (ApiKey.METADATA, 12, Status(1500)), (ApiKey.PRODUCE, 9, UNKNOWN),
    ],
)  # fmt: skip
def test_a_status_is_read_from_the_first_bytes(key: ApiKey, version: int, status: Status) -> None:
    code, throttle = ErrorCode.not_leader_or_follower, datetime.timedelta(milliseconds=1500)
    frame = oracle.response_frame(oracle.response(key, version, throttle_time=throttle, error_code=code), 7)
    start = frame[AFTER_CORRELATION_ID : AFTER_CORRELATION_ID + MAX_STATUS_BYTES]
    assert read_status(key, version, start) == status


def test_what_is_cut_off_or_follows_tagged_fields_is_unknown() -> None:
    assert read_status(ApiKey.FETCH, 12, b"") == UNKNOWN
    assert read_status(ApiKey.FETCH, 12, b"\1\0\0\0\0\0\0") == UNKNOWN
    assert read_status(ApiKey.FETCH, 12, b"\0\0\0\0\5\0") == Status(5)
