"""Interceptors can be tested without a proxy, under the same rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pytest

from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Hints,
    OffsetAndMetadata,
    Offsets,
    ProducerInterceptor,
    RecordMetadata,
    TopicPartition,
)
from kafka_sidecar.interceptors.headers import ReadOnlyError
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords, ProducerRecord
from kafka_sidecar.interceptors.testing import commit, consume, send
from kafka_sidecar.plugins.violations import ContractError

NOW = 1_700_000_000_000
PLACE = TopicPartition("orders", 3)


class Marks(ProducerInterceptor, ConsumerInterceptor):
    """Appends its mark to values, drops values that begin with "drop", commits half."""

    def __init__(self, mark: bytes = b"!") -> None:
        self.mark = mark
        self.written: list[RecordMetadata] = []
        self.committed: list[Offsets] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.headers.add("client", (record.context.client_id or "").encode())
        return record.replace(value=(record.value or b"") + self.mark)

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        assert exception is None
        self.written.append(metadata)

    def on_consume(self, records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        return [record for record in records if not (record.value or b"").startswith(b"drop")]

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return {place: OffsetAndMetadata(one.offset // 2) for place, one in offsets.items() if one.offset}

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(offsets)


def produced(value: bytes, context: Context, timestamp: int = NOW, topic: str = "orders") -> ProducerRecord:
    return ProducerRecord(topic, 3, b"k", value, [("h", None)], timestamp, context)


def test_records_pass_the_chain_in_one_batch_and_are_acknowledged(context: Callable[..., Context]) -> None:
    first, second = Marks(b"1"), Marks(b"2")
    own = context(client_id="app")
    sent = send([first, second], [produced(b"a", own), produced(b"b", own, NOW - 5)])
    assert [(record.value, record.timestamp, record.index) for record in sent] == [
        (b"a12", NOW, 0), (b"b12", NOW - 5, 1),
    ]  # fmt: skip
    assert [(header.key, header.value) for header in sent[0].headers] == [("h", None), *[("client", b"app")] * 2]
    assert first.written == second.written
    assert [(one.offset, one.timestamp, one.serialized_value_size) for one in first.written] == [
        (0, NOW, 3), (1, NOW - 5, 3),
    ]  # fmt: skip


def test_sent_headers_are_read_only(context: Callable[..., Context]) -> None:
    (sent,) = send(Marks(), [produced(b"a", context())])
    with pytest.raises(ReadOnlyError):
        sent.headers.add("x", b"")


def test_consumed_records_keep_their_offsets_and_dropped_ones_are_gone(context: Callable[..., Context]) -> None:
    records = [
        ConsumerRecord("orders", 3, offset, value=value, timestamp=NOW, context=context())
        for offset, value in ((40, b"a"), (45, b"drop this"), (46, b"b"))
    ]
    assert [(record.offset, record.value) for record in consume(Marks(), records)] == [(40, b"a"), (46, b"b")]


def test_commits_pass_the_chain_and_are_confirmed(context: Callable[..., Context]) -> None:
    marks = Marks()
    offsets = Offsets({PLACE: OffsetAndMetadata(10), TopicPartition("orders", 4): OffsetAndMetadata(0)}, context())
    assert commit(marks, offsets) == {PLACE: OffsetAndMetadata(5)}
    assert marks.committed == [{PLACE: OffsetAndMetadata(5)}]
    assert commit(marks, Offsets({}, context())) == {}
    assert len(marks.committed) == 1  # nothing was committed


class Fails(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return int(record.value or b"") and record  # type: ignore[return-value]


def test_what_a_hook_raises_is_raised(context: Callable[..., Context]) -> None:
    with pytest.raises(ValueError, match="invalid literal for int"):
        send(Fails(), [produced(b"a card", context())])


def test_what_a_hook_may_not_return_is_a_contract_error(context: Callable[..., Context]) -> None:
    with pytest.raises(ContractError, match=r"on_send\(\) returned int: return one record"):
        send(Fails(), [produced(b"0", context())])


class Observes(ProducerInterceptor):
    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise AssertionError("its hints do not request records")


def test_hints_apply_as_in_a_sidecar(context: Callable[..., Context]) -> None:
    assert [record.value for record in send(Observes(), [produced(b"a", context())])] == [b"a"]


def test_records_of_several_partitions_are_not_one_batch(context: Callable[..., Context]) -> None:
    with pytest.raises(ValueError, match="one topic and partition"):
        send(Marks(), [produced(b"a", context()), produced(b"a", context(), topic="other")])
