"""However many stages look into a request, its frame is opened once and each batch is cut and inflated once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from support.dialogue import Dialogue
from support.features import fetching, started
from support.interception import fetch_response
from support.produce_requests import batch, produce_request, produce_response

from kafka_sidecar.codec import message
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.produce import ProduceRequest, ProduceResponse
from kafka_sidecar.codec.records import batch as batch_module
from kafka_sidecar.codec.records import log_validator
from kafka_sidecar.proxy.exchanges import fetch, fetched_records, produce

POLICY = {
    "policies": {"stub": {"type": "support.policies:Stub"}},
    "topics": [{"name": "orders", "policy": "stub"}],
}
ADDS, READS, HIDES = (
    {"type": f"support.interception:{kind}", "topics": ["orders"]} for kind in ("Adds", "Reads", "Hides")
)
PARTITIONS = 3


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a frame is scanned or decoded, a batch cut, and inflated."""
    counted: Counter[str] = Counter()

    def count(module: Any, name: str, named: Callable[..., str] | None = None) -> None:
        original = getattr(module, name)

        def counting(*args: Any, **given: Any) -> Any:
            counted[named(*args) if named is not None else name] += 1
            return original(*args, **given)

        monkeypatch.setattr(module, name, counting)

    count(message, "reader", lambda cls, version: f"decode {cls.__name__}")
    count(produce, "scan_produce")
    count(fetch, "scan_fetch")
    count(log_validator, "batches")
    count(fetched_records, "batches")
    count(batch_module, "decompress")
    return counted


def test_a_produce_with_a_policy_and_an_interceptor_is_decoded_and_inflated_once(calls: Counter[str]) -> None:
    talk = Dialogue(exchange=started(ADDS, **POLICY).exchange)
    records = {index: batch("good", "better", codec=3) for index in range(PARTITIONS)}
    talk.client(produce_request(9, {"orders": records}, correlation_id=1))
    assert talk.to_broker.count(b"added") == 2 * PARTITIONS  # the policy has accepted, the interceptor has changed
    assert calls["scan_produce"] == 1
    assert calls[f"decode {ProduceRequest.__name__}"] == 0
    assert calls["batches"] == PARTITIONS
    assert calls["decompress"] == PARTITIONS
    talk.broker(produce_response(9, {"orders": dict.fromkeys(records, 5)}, 1))
    assert calls[f"decode {ProduceResponse.__name__}"] == 1
    assert talk.cause is None


def test_a_produce_of_which_a_part_is_rejected_is_not_decoded_again(calls: Counter[str]) -> None:
    talk = Dialogue(exchange=started(ADDS, **POLICY).exchange)
    talk.client(produce_request(9, {"orders": {0: batch("good", codec=3), 1: batch("bad", codec=3)}}, correlation_id=1))
    talk.broker(produce_response(9, {"orders": {0: 5}}, 1))
    assert talk.cause is None
    assert (calls["scan_produce"], calls["batches"], calls["decompress"]) == (1, 2, 2)
    assert (calls[f"decode {ProduceRequest.__name__}"], calls[f"decode {ProduceResponse.__name__}"]) == (0, 1)


def test_a_fetch_with_two_interceptors_is_decoded_and_inflated_once(calls: Counter[str]) -> None:
    talk = Dialogue(exchange=started(READS, HIDES).exchange)
    talk.client(fetching(12, "orders"))
    calls.clear()  # what ends before here is the request
    records = {index: batch("edit", "keep", codec=3) for index in range(PARTITIONS)}
    talk.broker(fetch_response(12, {"orders": records}))
    assert talk.cause is None
    assert calls["scan_fetch"] == 1
    assert calls[f"decode {FetchResponse.__name__}"] == 0
    assert calls["batches"] == PARTITIONS
    assert calls["decompress"] == PARTITIONS
