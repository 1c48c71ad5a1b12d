"""The last rejected batches and their ids."""

from __future__ import annotations

import re

from support.client import FakeClient

from kafka_sidecar.proxy.exchanges.produce_response import PartitionRejection
from kafka_sidecar.proxy.features.validation.rejections import (
    MAX_RECENT,
    RecentRejections,
    RejectedBatch,
)
from kafka_sidecar.proxy.features.validation.stage import UNKNOWN, Sender, sender_of, with_id


def rejected(rejection_id: str) -> RejectedBatch:
    return RejectedBatch(rejection_id, 0.0, "orders", 0, "enforce", "json", "no_json", "no", 0, 1, (), UNKNOWN)


def test_ids_are_short_and_begin_alike_in_one_process_only() -> None:
    ours, others = RecentRejections(), RecentRejections()
    ids = [ours.next_id() for _ in range(20)]
    assert len(set(ids)) == 20
    assert all(re.fullmatch(rf"{ours.prefix}-[0-9a-f]+", one) for one in ids)
    assert ours.prefix != others.prefix


def test_the_last_ones_are_found_by_their_id_and_listed_newest_first() -> None:
    recent = RecentRejections()
    for number in range(MAX_RECENT + 1):
        recent.add(rejected(str(number)))
    assert recent.find("0") is None
    assert recent.find("1") == rejected("1")
    assert [one.id for one in recent.newest(2)] == [str(MAX_RECENT), str(MAX_RECENT - 1)]
    assert len(list(recent.newest())) == MAX_RECENT


def test_what_a_client_says_of_itself_is_cut() -> None:
    long = "c" * 30_000
    client = FakeClient(7, long, long, long, host="10.0.0.1")
    assert sender_of(client, None) == Sender(7, "10.0.0.1", "c" * 249, "c" * 249, "c" * 249)


def test_every_message_to_the_client_ends_with_the_id() -> None:
    rejection = PartitionRejection(87, "two errors", ((1, "first"), (3, "second")))
    hint = " (kafka-sidecar explain abc123-f)"
    assert with_id(rejection, "abc123-f") == PartitionRejection(
        87, f"two errors{hint}", ((1, f"first{hint}"), (3, f"second{hint}"))
    )
