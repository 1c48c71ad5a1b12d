"""Requests of our own for the log of one partition. kio is the reference."""

from __future__ import annotations

from datetime import timedelta

import pytest
from support.fetches import VERSIONS, offsets_in, request_in
from support.interception import fetch_response
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.records import batches
from kafka_sidecar.large_messages.reading import Fetched, Read, UnreadableError
from kafka_sidecar.proxy.features.large_messages.read_back import read_request, read_response


@pytest.mark.parametrize("version", VERSIONS)
def test_a_read_is_a_fetch_without_a_session(version: int) -> None:
    key = topic_id("orders") if version >= 13 else "orders"
    frame = read_request(Read(7, 3000, committed_only=True), version, key, 4, "app")
    assert offsets_in(version, frame) == {"orders": {4: 7}}
    request = request_in(version, frame)
    [topic] = request.topics
    [one] = topic.partitions
    assert (request.max_bytes, one.partition_max_bytes, request.min_bytes) == (3000, 3000, 0)
    assert int(request.isolation_level) == 1
    if version >= 7:
        assert (request.session_id, request.session_epoch) == (0, -1)
    assert (one.fetch_offset, request.max_wait.total_seconds()) == (7, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_its_response_is_read(version: int) -> None:
    data = batch("a", base_offset=7)
    fetched = read_response(fetch_response(version, {"orders": {4: data}}), version)
    assert fetched is not None
    assert batches(fetched.records)[0].header.base_offset == 7
    assert (fetched.error_code, fetched.high_watermark) == (0, 1000)
    empty = read_response(fetch_response(version, {"orders": {4: None}}), version)
    assert empty is not None
    assert empty.records == b""


def test_another_response_means_that_the_log_cannot_be_read_now() -> None:
    frames = [
        fetch_response(12, topics)
        for topics in ({}, {"orders": {0: b"", 1: b""}}, {"orders": {0: b""}, "other": {0: b""}})
    ]
    for frame in (*frames, frames[1][:-1], b"\0\0\0\4"):
        with pytest.raises(UnreadableError):
            read_response(frame, 12)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_that_throttles_has_not_responded_yet(version: int) -> None:
    assert read_response(fetch_response(version, {}, throttle_time=timedelta(milliseconds=900)), version) is None


def test_an_error_of_the_whole_response_is_that_of_the_read() -> None:
    assert read_response(fetch_response(12, {}, error_code=70), 12) == Fetched(70)
