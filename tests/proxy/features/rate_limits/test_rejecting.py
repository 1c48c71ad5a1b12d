"""What a limit with `action: reject` does to batches that come too fast."""

from __future__ import annotations

from typing import Any

import pytest
from support.produce_requests import batch, produce_request, produce_response, read, results
from support.rate_limits import Limited

from kafka_sidecar.codec.apis import ErrorCode

RECORDS = batch(*["x" * 100] * 10)
SIZE = len(RECORDS)
REJECTS: dict[str, Any] = {"name": "shop", "action": "reject", "produce_bytes": SIZE}
OVER = int(ErrorCode.POLICY_VIOLATION)
V = 9


def sent(topics: dict[str, dict[int, bytes | None]], version: int = V) -> bytes:
    return produce_request(version, topics)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_a_batch_over_the_rate_is_rejected_and_the_others_pass(version: int) -> None:
    talk = Limited({**REJECTS, "topics": ["orders"]})
    talk.client(sent({"orders": {0: RECORDS, 1: RECORDS, 2: RECORDS}, "free": {0: RECORDS}}, version))
    assert talk.to_broker == sent({"orders": {0: RECORDS, 1: RECORDS}, "free": {0: RECORDS}}, version)
    talk.broker(produce_response(version, {"orders": {0: 5, 1: 6}, "free": {0: 7}}))
    assert results(version, talk.to_client) == [
        ("orders", 0, 0, 5), ("orders", 1, 0, 6), ("orders", 2, OVER, -1), ("free", 0, 0, 7),
    ]  # fmt: skip


def test_a_request_of_which_nothing_is_left_is_answered_here_with_the_reason() -> None:
    talk = Limited(REJECTS)
    talk.client(sent({"orders": {0: RECORDS * 1, 1: RECORDS}}))
    talk.broker(produce_response(V, {"orders": {0: 5, 1: 6}}))
    before, talk.to_client = talk.to_broker, b""
    talk.client(sent({"orders": {0: RECORDS}}))
    assert talk.to_broker == before
    (topic,) = read(V, talk.to_client).responses
    (partition,) = topic.partition_responses
    assert "rate limit shop" in partition.error_message
    assert talk.mutes == []


def test_nothing_is_taken_for_what_is_rejected() -> None:
    talk = Limited(REJECTS)
    talk.client(sent({"orders": dict.fromkeys(range(100), RECORDS)}))
    talk.now += 1.0
    talk.broker(produce_response(V, {"orders": {0: 5, 1: 6}}))
    talk.client(sent({"orders": {0: RECORDS}}))
    assert talk.to_broker.endswith(sent({"orders": {0: RECORDS}}))
    assert talk.counted("rate_limit_rejected_batches") == {("shop",): 98}
    assert talk.counted("rate_limit_bytes") == {("shop", "produce"): 3 * SIZE}


def test_a_batch_larger_than_the_burst_passes_and_is_owed() -> None:
    talk = Limited({**REJECTS, "produce_bytes": SIZE // 10})
    talk.client(sent({"orders": {0: RECORDS}}))
    assert talk.to_broker == sent({"orders": {0: RECORDS}})
    talk.broker(produce_response(V, {"orders": {0: 5}}))
    for later, code in ((8.0, OVER), (2.0, 0)):
        talk.now += later
        talk.to_client = b""
        talk.client(sent({"orders": {0: RECORDS}}))
        if not code:
            talk.broker(produce_response(V, {"orders": {0: 6}}))
        assert results(V, talk.to_client)[0][2] == code


def test_records_are_counted_by_the_headers_of_batches() -> None:
    talk = Limited({"name": "shop", "action": "reject", "produce_records": 10})
    talk.client(sent({"orders": {0: RECORDS, 1: batch("one"), 2: batch("two")}}))
    talk.broker(produce_response(V, {"orders": {0: 5, 1: 6}}))
    assert [code for _, _, code, _ in results(V, talk.to_client)] == [0, 0, OVER]


def test_a_limit_that_throttles_counts_what_another_one_rejects() -> None:
    """The bytes have come in."""
    talk = Limited({**REJECTS, "produce_bytes": 1}, {"produce_bytes": SIZE})
    for _ in range(3):
        talk.client(sent({"orders": {0: RECORDS}}))
    assert talk.muted_s == 2.0
