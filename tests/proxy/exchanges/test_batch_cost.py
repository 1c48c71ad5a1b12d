"""Which work on a batch is done in a thread."""

from __future__ import annotations

import pytest

from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.proxy.exchanges import limits as batch_cost
from kafka_sidecar.proxy.exchanges.limits import LIGHT_TURNS, is_light, takes_long


def test_a_batch_of_many_records_takes_long_and_so_do_many_compressed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    (small,) = batches(build_batch([NewRecord(b"v")] * 10, codec=4))
    assert not takes_long(small, 10)
    assert takes_long(small, 9)
    monkeypatch.setitem(batch_cost.MIN_OFFLOADED_BYTES, 4, len(small.data))
    assert takes_long(small, 10)


def test_a_batch_is_light_if_its_records_take_no_more_than_some_turns_of_the_loop() -> None:
    (small,) = batches(build_batch([NewRecord(b"v")] * 3 * LIGHT_TURNS))
    assert is_light(small)
    assert is_light(small, 3)
    assert not is_light(small, 2)
