"""The replay of one partition, against a cluster in memory: what is sent, what is remembered, what stops it."""

from __future__ import annotations

from typing import Any

import pytest
from support.dead_letters import REASONS, letter_headers, letter_record, record_of
from support.letter_cluster import ACCEPTED, Answer, FakeCluster

from kafka_sidecar.codec.records import Record
from kafka_sidecar.dead_letters.letter import REPLAYED, Reasons
from kafka_sidecar.dead_letters.letters import Choice, OutgoingRecord
from kafka_sidecar.proxy.cli.dead_letters import producer, replay
from kafka_sidecar.proxy.cli.dead_letters.cluster import ClusterError
from kafka_sidecar.proxy.cli.dead_letters.replay import MendError, Order, PartitionReplay, Tally

DLQ = ("dlq", 0)
INVALID_RECORD, FENCED, DENIED, TOO_LARGE = 87, 90, 29, 10
ALL = Order(Choice(), "g")


def numbered(*numbers: int, **changed: Any) -> list[Record]:
    return [letter_record(b"%d" % n, [("h", b"1")], **changed) for n in numbers]


def refuse(*values: bytes) -> Any:
    """An answer that names these, as a sidecar's does."""

    def answer(records: list[Record]) -> Answer:
        found: list[tuple[int, str | None]] = [
            (record.index, f"json: no {record.index}") for record in records if record.value in values
        ]
        return (INVALID_RECORD, found, "some (kafka-sidecar explain x)") if found else ACCEPTED

    return answer


async def run(cluster: FakeCluster, order: Order = ALL) -> Tally:
    tally = Tally()
    await PartitionReplay(cluster, order, *DLQ, tally).run()  # type: ignore[arg-type]
    return tally


async def test_records_are_sent_once_with_the_mark_and_the_next_run_has_nothing_to_do(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(20))
    assert (await run(cluster)).sent == 20
    assert cluster.stored == [b"%d" % n for n in range(20)]
    assert {tuple(names) for sent in cluster.batches for names in sent.headers} == {("h", REPLAYED)}
    assert cluster.offsets["g", "dlq", 0] == (20, "")
    again = await run(cluster)
    assert (again.sent, again.read) == (0, 0)


async def test_what_is_rejected_is_tried_by_the_next_run_and_the_rest_is_not(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(20))
    cluster.answer = refuse(b"3", b"11", b"19")
    first = await run(cluster)
    assert (first.sent, first.refused) == (17, 3)
    cluster.answer = refuse(b"11")
    second = await run(cluster)
    assert (second.sent, second.refused) == (2, 1)
    cluster.answer = lambda records: ACCEPTED
    assert (await run(cluster)).sent == 1
    assert sorted(map(bytes, filter(None, cluster.stored))) == sorted(b"%d" % n for n in range(20))


async def test_the_rest_of_a_rejected_batch_has_the_sequence_numbers_that_were_not_used(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(6))
    cluster.answer = refuse(b"2", b"4")
    await run(cluster)
    assert [(sent.sequence, len(sent.values), sent.code) for sent in cluster.batches] == [(0, 6, 87), (0, 4, 0)]


async def test_batches_follow_each_other(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "BATCH_RECORDS", 4)
    monkeypatch.setattr(replay, "AT_ONCE", 7)
    cluster.letters[DLQ] = numbered(*range(10))
    await run(cluster)
    assert [(sent.sequence, len(sent.values)) for sent in cluster.batches] == [(0, 4), (4, 3), (7, 3)]
    assert cluster.requests.count("EndTxnRequest") == 2


async def test_a_batch_that_is_rejected_as_a_whole_is_halved(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(9))

    def answer(records: list[Record]) -> Answer:
        return (TOO_LARGE, [], "too large: 17") if any(one.value == b"5" for one in records) else ACCEPTED

    cluster.answer = answer
    tally = await run(cluster)
    assert (tally.sent, tally.refused) == (8, 1)
    assert cluster.stored == [b"%d" % n for n in range(9) if n != 5]
    assert [row.message for row in tally.rows if row.outcome == "MESSAGE_TOO_LARGE"] == ["too large: N"]


async def test_a_topic_that_may_not_be_written_costs_one_request(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(9))
    cluster.answer = lambda records: (DENIED, [], "denied")
    assert (await run(cluster)).refused == 9
    assert len(cluster.batches) == 1


async def test_filters_leave_the_others_for_another_run(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = [*numbered(0, 1), *numbered(2, reason="other"), *numbered(3), *numbered(4, mode="shadow")]
    only = Order(Choice(reasons=frozenset({"other"}), with_stored=False), "g")
    assert (await run(cluster, only)).sent == 1
    assert (await run(cluster, Order(Choice(with_stored=False), "g"))).sent == 3
    assert (await run(cluster)).sent == 1
    assert cluster.stored == [b"2", b"0", b"1", b"3", b"4"]


async def test_records_that_are_no_letters_are_counted_and_not_read_again(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = [record_of(b"mine", []), *numbered(1)]
    first = await run(cluster)
    assert (first.sent, first.not_letters.total()) == (1, 1)
    assert (await run(cluster)).read == 0


async def test_a_limit_stops_it_and_a_dry_run_asks_for_nothing(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(20))
    dry = await run(cluster, Order(Choice(), "g", limit=5, is_dry=True))
    assert (dry.sent, [row.outcome for row in dry.rows]) == (5, ["would be sent"])
    assert cluster.requests == []
    assert (await run(cluster, Order(Choice(), "g", limit=5))).sent == 5
    assert (await run(cluster)).sent == 15
    assert cluster.stored == [b"%d" % n for n in range(20)]


async def test_a_record_without_its_partition_is_refused_without_a_request(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(0, partition=7)
    tally = await run(cluster)
    assert [row.outcome for row in tally.rows] == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert cluster.batches == []


class Upper:
    """Mends values; one of them cannot be."""

    def mend(self, record: OutgoingRecord, why: Reasons) -> OutgoingRecord:
        if record.value == b"1":
            raise MendError("upper failed")
        return OutgoingRecord(record.topic, record.partition, None, b"mended", record.headers, record.timestamp)


async def test_what_cannot_be_mended_is_not_sent(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(0, 1, 2)
    tally = await run(cluster, Order(Choice(), "g", mender=Upper()))
    assert cluster.stored == [b"mended", b"mended"]
    assert [(row.outcome, row.message) for row in tally.rows if row.message] == [("NOT_MENDED", "upper failed")]
    assert (await run(cluster)).sent == 1


async def test_a_memory_that_is_full_stops_the_replay_before_anything_is_committed(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "MAX_METADATA", 10)
    cluster.letters[DLQ] = numbered(*range(5))
    cluster.answer = refuse(b"2")
    with pytest.raises(ClusterError, match="too many, in no order, for group g to remember"):
        await run(cluster)
    assert cluster.stored == []
    assert cluster.offsets == {}
    assert cluster.requests[-1] == "EndTxnRequest"


async def test_an_offset_of_another_program_is_no_memory(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(1)
    cluster.offsets["g", "dlq", 0] = (3, "hello")
    with pytest.raises(ClusterError, match="give another one with --group"):
        await run(cluster)


@pytest.mark.parametrize("request_name", ["InitProducerIdRequest", "AddPartitionsToTxnRequest", "EndTxnRequest"])
async def test_of_two_replays_of_a_group_the_older_one_fails(cluster: FakeCluster, request_name: str) -> None:
    cluster.letters[DLQ] = numbered(1)
    cluster.codes[request_name] = FENCED
    with pytest.raises(ClusterError, match="another replay of this group has begun"):
        await run(cluster)
    assert cluster.stored == []


@pytest.mark.parametrize("request_name", ["AddOffsetsToTxnRequest", "TxnOffsetCommitRequest"])
async def test_without_the_right_to_remember_nothing_is_committed(cluster: FakeCluster, request_name: str) -> None:
    cluster.letters[DLQ] = numbered(1)
    cluster.codes[request_name] = 30
    with pytest.raises(ClusterError, match="GROUP_AUTHORIZATION_FAILED"):
        await run(cluster)
    assert (cluster.stored, cluster.offsets) == ([], {})


async def test_a_fatal_error_of_a_batch_ends_the_replay(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(1)
    cluster.answer = lambda records: (FENCED, [], "")
    with pytest.raises(ClusterError, match="another replay"):
        await run(cluster)


async def test_letters_that_retention_has_deleted_are_forgotten(cluster: FakeCluster) -> None:
    cluster.letters[DLQ] = numbered(*range(10))
    cluster.answer = refuse(b"2", b"8")
    await run(cluster)
    cluster.start = 5
    cluster.answer = lambda records: ACCEPTED
    assert (await run(cluster)).sent == 1
    assert cluster.offsets["g", "dlq", 0] == (10, "")


def test_letters_of_the_tests_are_as_the_sidecar_writes_them() -> None:
    assert len(letter_headers(REASONS)) == 15
