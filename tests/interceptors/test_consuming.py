"""The consumer chain over one batch: which changes are allowed and which are failures (KIP-42)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import BatchHeader, Header, NewRecord, Records, batches, build_batch, reseal
from kafka_sidecar.interceptors import consuming
from kafka_sidecar.interceptors.consuming import Consumers
from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Hints,
    Interceptor,
    RecordBatch,
    TopicPartition,
)
from kafka_sidecar.interceptors.guard import Guard, Limits
from kafka_sidecar.interceptors.headers import ReadOnlyError
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords

NOW = 1_700_000_000_000
BASE = 40
Batches = Callable[..., Records]
Edit = Callable[[ConsumerRecords], Any]


class Edits(ConsumerInterceptor):
    """Edits records as the test asks, and records the values of each call."""

    def __init__(self, edit: Edit = lambda records: records) -> None:
        self.edit, self.seen = edit, list[list[bytes | None]]()

    def on_consume(self, records: ConsumerRecords) -> Any:
        self.seen.append([record.value for record in records])
        return self.edit(records)


class EditsWhole(ConsumerInterceptor):
    def __init__(self, edit: Callable[[Records], Any] = lambda records: records) -> None:
        self.edit, self.seen = edit, list[list[bytes | None]]()

    def on_consume_batch(self, batch: RecordBatch) -> Any:
        self.seen.append([record.value for record in batch.records])
        return self.edit(batch.records)


def appends(text: bytes) -> Edit:
    return lambda records: [record.replace(value=(record.value or b"") + text) for record in records]


def only(*values: bytes) -> Edit:
    return lambda records: (record for record in records if record.value in values)


def fails(error: BaseException) -> Edit:
    def edit(records: ConsumerRecords) -> Iterable[ConsumerRecord]:
        for record in records:
            record.headers.add("spoilt", b"")
            yield record.replace(value=b"spoilt")
        raise error

    return edit


class Silent:
    def failed(self, *about: object) -> None: ...
    def slow(self, *about: object) -> None: ...
    def disabled(self, *about: object) -> None: ...


def chain(interceptors: Sequence[Interceptor], report: Any) -> Consumers:
    guards = (
        Guard(str(at), one, one.hints(), report, limits=Limits(failures=0)) for at, one in enumerate(interceptors)
    )
    return Consumers(tuple(guards))


def header(**about: Any) -> BatchHeader:
    (batch,) = batches(build_batch([], base_offset=BASE, leader_epoch=7, **about))
    return batch.header


@pytest.fixture
def consumed(context: Callable[[], Context], a_batch: Batches, report: Any) -> Callable[..., Any]:
    """The values and offsets of records after a chain."""

    def of(interceptors: Sequence[Interceptor], *values: bytes) -> list[tuple[bytes | None, int]]:
        records = a_batch(*({"value": value} for value in values))
        left = chain(interceptors, report).consume(context(), "orders", 3, header(), records)
        of.same = left is records  # type: ignore[attr-defined]
        assert not any(record.headers for record in left)
        return [(record.value, BASE + record.offset_delta) for record in left]

    return of


Consumed = Callable[..., list[tuple[bytes | None, int]]]


def test_on_consume_runs_in_configured_order_on_the_records_of_the_one_before(consumed: Consumed) -> None:
    first, second, third = Edits(appends(b"1")), Edits(only(b"b1", b"c1")), Edits(appends(b"3"))
    assert consumed([first, second, third], b"a", b"b", b"c") == [(b"b13", 41), (b"c13", 42)]
    assert (first.seen, second.seen, third.seen) == (
        [[b"a", b"b", b"c"]],
        [[b"a1", b"b1", b"c1"]],
        [[b"b1", b"c1"]],
    )


@pytest.mark.parametrize("kept", [[], [0], [1], [2], [0, 2], [1, 2], [0, 1, 2]])
def test_removed_records_leave_gaps_and_the_others_keep_their_offsets(kept: list[int], consumed: Consumed) -> None:
    values = (b"a", b"b", b"c")
    assert consumed([Edits(only(*(values[at] for at in kept)))], *values) == [(values[at], BASE + at) for at in kept]


def test_after_an_exception_the_next_gets_the_last_good_records_and_headers(consumed: Consumed, report: Any) -> None:
    chain = [Edits(appends(b"1")), Edits(fails(ValueError("bug"))), Edits(appends(b"3"))]
    assert consumed(chain, b"a", b"b") == [(b"a13", 40), (b"b13", 41)]
    assert report.failures == [("1", "on_consume", "ValueError: bug")]
    assert report.places == [TopicPartition("orders", 3)]


WRONG: dict[str, Edit] = {
    "one is added": lambda records: [*records, ConsumerRecord("orders", 3, 99)],
    "one is there twice": lambda records: [*records, list(records)[-1]],
    "one is moved to another topic": lambda records: [ConsumerRecord("other", 3, 40)],
    "one is moved to another partition": lambda records: [ConsumerRecord("orders", 4, 40)],
    "one is moved to another offset": lambda records: [ConsumerRecord("orders", 3, 39)],
    "they are in another order": lambda records: reversed(list(records)),
    "there is something else among them": lambda records: [b"x"],
    "there is nothing": lambda records: None,
    "it cannot be gone through": lambda records: 3,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_records_cannot_be_added_moved_or_reordered(wrong: str, consumed: Consumed, report: Any) -> None:
    chain = [Edits(appends(b"1")), Edits(WRONG[wrong]), Edits(appends(b"3"))]
    assert consumed(chain, b"a", b"b") == [(b"a13", 40), (b"b13", 41)]
    assert [failure[:2] for failure in report.failures] == [("1", "on_consume")]


def test_returning_a_record_of_an_earlier_fetch_is_a_failure(consumed: Consumed, report: Any) -> None:
    kept: list[ConsumerRecord] = []

    def caches(records: ConsumerRecords) -> list[ConsumerRecord]:
        kept.extend(records)
        return [record.replace(value=b"cached") for record in kept[: len(records)]]

    caching = Edits(caches)
    assert consumed([caching], b"a", b"b") == [(b"cached", 40), (b"cached", 41)]
    assert consumed([caching], b"c", b"d") == [(b"c", 40), (b"d", 41)]
    assert len(report.failures) == 1


def test_a_new_record_replaces_the_one_at_its_offset(consumed: Consumed) -> None:
    made = Edits(lambda records: [ConsumerRecord("orders", 3, 41, b"k", b"x")])
    assert consumed([made, Edits(appends(b"2"))], b"a", b"b") == [(b"x2", 41)]


def test_records_with_the_same_offset_are_identified_by_their_index(context: Any, report: Any) -> None:
    (batch,) = batches(
        build_batch([NewRecord(b"a", offset_delta=0), NewRecord(b"b", offset_delta=0)], base_offset=BASE)
    )
    left = chain([Edits(appends(b"1"))], report).consume(context(), "orders", 3, batch.header, batch.records())
    assert [record.value for record in left] == [b"a1", b"b1"]
    assert not report.failures


def test_records_show_topic_partition_offset_and_leader_epoch(consumed: Consumed) -> None:
    seen: list[Any] = []

    def looks(records: ConsumerRecords) -> ConsumerRecords:
        seen.append((records.partitions(), [(one.offset, one.leader_epoch, one.index) for one in records]))
        assert all(one.context is records.context for one in records)
        return records

    consumed([Edits(looks)], b"a", b"b")
    assert seen == [({TopicPartition("orders", 3)}, [(40, 7, 0), (41, 7, 1)])]


def test_headers_can_be_changed_until_the_chain_has_run(a_batch: Batches, context: Any, report: Any) -> None:
    kept: list[ConsumerRecord] = []

    def adds(records: ConsumerRecords) -> ConsumerRecords:
        kept.extend(records)
        for record in records:
            record.headers.add("x", None).remove("h")
        return records

    records = a_batch({"headers": [("h", b"1")]}, {"headers": []})
    left = chain([Edits(adds), Edits(adds)], report).consume(context(), "orders", 3, header(), records)
    assert [record.headers for record in left] == [(Header("x", None), Header("x", None))] * 2
    for record in kept:
        with pytest.raises(ReadOnlyError):
            record.headers.add("late", b"")


@pytest.mark.parametrize("error", [SystemExit(1), BaseException("panic")])
def test_nothing_that_an_interceptor_raises_fails_the_request(error: BaseException, consumed: Consumed) -> None:
    assert consumed([Edits(fails(error)), Edits(appends(b"2"))], b"a") == [(b"a2", 40)]


def test_hooks_for_batches_and_for_lists_can_be_mixed(consumed: Consumed) -> None:
    whole = EditsWhole(lambda records: records.with_payload(records.payload.replace(b"a1", b"A!")))
    assert consumed([Edits(appends(b"1")), whole, Edits(only(b"A!"))], b"a", b"b") == [(b"A!", 40)]
    assert whole.seen == [[b"a1", b"b1"]]


def test_once_all_records_are_removed_the_next_interceptors_are_not_called(consumed: Consumed) -> None:
    second, whole = Edits(), EditsWhole()
    assert consumed([Edits(only()), second, whole], b"a") == []
    assert (second.seen, whole.seen) == ([], [])


def test_very_many_records_are_passed_in_several_calls(consumed: Consumed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming, "MAX_RECORDS_PER_CALL", 2)
    edits = Edits(only(b"b", b"e"))
    assert consumed([edits], b"a", b"b", b"c", b"d", b"e") == [(b"b", 41), (b"e", 44)]
    assert edits.seen == [[b"a", b"b"], [b"c", b"d"], [b"e"]]


def test_without_wants_records_on_consume_is_not_called(consumed: Consumed, report: Any) -> None:
    class Refrains(Edits):
        def hints(self) -> Hints:
            return Hints(wants_records=False)

    assert consumed([Refrains(appends(b"1"))], b"a") == [(b"a", 40)]
    assert not chain([Refrains(), ConsumerInterceptor()], report).needs_records


@given(st.lists(st.binary(max_size=3), min_size=1, max_size=6))
def test_a_chain_that_changes_nothing_returns_the_same_records_object(values: list[bytes]) -> None:
    def looks(records: ConsumerRecords) -> list[ConsumerRecord]:
        assert all(record.headers.last_header("not there") is None for record in records)
        return list(records)

    (batch,) = batches(build_batch([NewRecord(value, headers=[Header("h", None)]) for value in values]))
    records = batch.records()
    steps = [Edits(looks), EditsWhole(), Edits(fails(ValueError())), Edits(looks)]
    assert chain(steps, Silent()).consume(Context(lambda: NOW), "orders", 3, batch.header, records) is records


what = st.sampled_from(["keep", "drop", "value", "key", "header"])


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=8),
    st.lists(st.lists(what, min_size=8, max_size=8), min_size=1, max_size=3),
    st.booleans(),
)
def test_after_any_edits_another_reader_finds_what_the_interceptors_returned(
    distances: list[int], scripts: list[list[str]], compacted: bool
) -> None:
    deltas = [sum(distances[:at]) if compacted else at for at in range(len(distances))]
    new = [NewRecord(b"v%d" % delta, b"k", [Header("h", b"1")], offset_delta=delta) for delta in deltas]
    (batch,) = batches(build_batch(new, codec=3, base_offset=BASE, base_timestamp=NOW, last_offset_delta=100))

    def follows(script: list[str], number: int) -> Edit:
        def edit(records: ConsumerRecords) -> Iterable[ConsumerRecord]:
            for record in records:
                step = script[deltas.index(record.offset - BASE)]
                if step == "value":
                    yield record.replace(value=(record.value or b"") + b"!%d" % number)
                elif step == "key":
                    yield record.replace(key=None)
                elif step == "header":
                    record.headers.add("x", b"%d" % number)
                    yield record
                elif step == "keep":
                    yield record

        return edit

    steps = [Edits(follows(script, number)) for number, script in enumerate(scripts)]
    left = chain(steps, Silent()).consume(Context(lambda: NOW), "orders", 3, batch.header, batch.records())

    expected = []
    for at, delta in enumerate(deltas):
        done = [script[at] for script in scripts]
        if "drop" in done:
            continue
        value = b"v%d" % delta + b"".join(b"!%d" % n for n, step in enumerate(done) if step == "value")
        headers = [("h", b"1"), *(("x", b"%d" % n) for n, step in enumerate(done) if step == "header")]
        expected.append((BASE + delta, None if "key" in done else b"k", value, headers))
    theirs = MemoryRecords(reseal(batch, left)).next_batch()
    assert theirs.validate_crc()
    assert [(one.offset, one.key, one.value, list(one.headers)) for one in theirs] == expected
    assert (
        theirs.next_offset == BASE + 101
    )  # consumers continue after the batch's last offset, whichever records are left
