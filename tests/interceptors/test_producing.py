"""The producer chain: the order of its interceptors, and the handling of their failures (KIP-42)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.producer_interceptors import Edits, EditsWhole, adds, appends, fails

from kafka_sidecar.codec.records import Records
from kafka_sidecar.interceptors.contract import Context, Hints, Interceptor, ProducerInterceptor, TopicPartition
from kafka_sidecar.interceptors.guard import Limits
from kafka_sidecar.interceptors.headers import ReadOnlyError
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.records import ProducerRecord

NOW = 1_700_000_000_000  # ms
Batches = Callable[..., Records]


@pytest.fixture
def sent(chain: Callable[..., Producers], context: Callable[[], Context], a_batch: Batches) -> Callable[..., Any]:
    """Records with these values after a chain."""

    def of(interceptors: Sequence[Interceptor], *values: bytes) -> list[tuple[bytes | None, list[str]]]:
        records = a_batch(*({"value": value, "headers": [("h", b"1")]} for value in values))
        left = chain(*interceptors).send(context(), "orders", 3, records)
        return [(record.value, [header.key for header in record.headers]) for record in left]

    return of


Sent = Callable[..., list[tuple[bytes | None, list[str]]]]


def test_each_interceptor_gets_the_record_of_the_one_before_it(sent: Sent) -> None:
    first, second, third = Edits(appends(b"1")), Edits(appends(b"2")), Edits(appends(b"3"))
    assert sent([first, second, third], b"a", b"b") == [(b"a123", ["h"]), (b"b123", ["h"])]
    assert (first.seen, second.seen, third.seen) == ([b"a", b"b"], [b"a1", b"b1"], [b"a12", b"b12"])


def test_after_an_exception_the_next_gets_the_last_good_record(sent: Sent, report: Any) -> None:
    third = Edits(appends(b"3"))
    chain = [Edits(appends(b"1")), Edits(fails(ValueError("bug"), appends(b"2"))), third]
    assert sent(chain, b"a") == [(b"a13", ["h"])]
    assert report.failures == [("1", "on_send", "ValueError: bug")]
    assert report.places == [TopicPartition("orders", 3)]


def test_header_changes_of_a_failed_call_are_undone(sent: Sent) -> None:
    def spoils(record: ProducerRecord) -> None:
        record.headers.remove("h").add("spoilt", b"")
        record.replace(headers=[]).headers.add("lost", b"")
        record.headers.add("spoilt", b"")

    assert sent([Edits(adds("1")), Edits(fails(ValueError(), spoils)), Edits(adds("3"))], b"a") == [
        (b"a", ["h", "1", "3"])
    ]


def test_an_exception_for_one_record_does_not_affect_the_next(sent: Sent) -> None:
    def odd(record: ProducerRecord) -> Any:
        return adds("good")(record) if record.value != b"b" else fails(ValueError(), adds("bad"))(record)

    assert sent([Edits(odd)], b"a", b"b", b"c") == [(b"a", ["h", "good"]), (b"b", ["h"]), (b"c", ["h", "good"])]


WRONG = {
    "nothing": lambda record: None,
    "another topic": lambda record: ProducerRecord("other", 3, value=b"x"),
    "another partition": lambda record: ProducerRecord("orders", 4, value=b"x"),
    "several": lambda record: [record, record],
    "bytes": lambda record: b"x",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_removing_moving_or_duplicating_a_record_is_a_failure(wrong: str, sent: Sent, report: Any) -> None:
    assert sent([Edits(appends(b"1")), Edits(WRONG[wrong]), Edits(appends(b"3"))], b"a") == [(b"a13", ["h"])]
    assert [failure[:2] for failure in report.failures] == [("1", "on_send")]


def test_returning_an_earlier_record_is_a_failure(sent: Sent, report: Any) -> None:
    kept: list[ProducerRecord] = []

    def late(record: ProducerRecord) -> ProducerRecord:
        kept.append(record.replace(value=b"x"))
        return kept[0]

    assert sent([Edits(late)], b"a", b"b") == [(b"x", ["h"]), (b"b", ["h"])]
    assert len(report.failures) == 1


def test_a_new_record_replaces_the_one_it_is_returned_for(
    sent: Sent, a_batch: Batches, context: Callable[[], Context], chain: Callable[..., Producers]
) -> None:
    made = Edits(lambda record: ProducerRecord("orders", 3, b"k", b"x", [("new", None)]))
    assert sent([made, Edits(adds("2"))], b"a") == [(b"x", ["new", "2"])]
    (left,) = chain(made).send(context(), "orders", 3, a_batch({"timestamp": NOW + 9}))
    assert (left.key, left.timestamp) == (b"k", NOW + 9)


def test_keys_and_values_can_be_replaced_also_with_null(a_batch: Batches, chain: Any, context: Any) -> None:
    edits = Edits(lambda record: record.replace(key=record.value, value=record.key))
    records = a_batch({"key": None, "value": b"v"}, {"key": b"", "value": None}, {"key": b"k", "value": b""})
    left = chain(edits).send(context(), "orders", 3, records)
    assert [(record.key, record.value) for record in left] == [(b"v", None), (None, b""), (b"", b"k")]


def test_headers_of_records_are_read_only_after_the_chain(sent: Sent) -> None:
    kept: list[ProducerRecord] = []

    def keeps(record: ProducerRecord) -> ProducerRecord:
        kept.append(record)
        return record

    sent([Edits(keeps)], b"a", b"b")
    for record in kept:
        with pytest.raises(ReadOnlyError):
            record.headers.add("late", b"")


@pytest.mark.parametrize("error", [SystemExit(1), BaseException("panic")])
def test_nothing_that_an_interceptor_raises_fails_the_request(error: BaseException, sent: Sent, report: Any) -> None:
    assert sent([Edits(fails(error)), EditsWhole(lambda records: fails(error)(records))], b"a") == [(b"a", ["h"])]  # type: ignore[arg-type]
    assert len(report.failures) == 2


def test_hooks_for_batches_and_for_records_can_be_mixed(sent: Sent) -> None:
    def upper(records: Records) -> Records:
        return records.with_payload(records.payload.replace(b"a1", b"A!"))

    chain: list[Any] = [Edits(appends(b"1")), EditsWhole(upper), Edits(appends(b"3")), EditsWhole()]
    assert sent(chain, b"a", b"b") == [(b"A!3", ["h"]), (b"b13", ["h"])]
    assert chain[1].seen == [b"a1", b"b1"]
    assert chain[3].seen == [b"A!3", b"b13"]


@pytest.mark.parametrize("wrong", [None, [], 3, "fewer"])
def test_a_batch_must_keep_its_number_of_records(wrong: Any, sent: Sent, a_batch: Batches, report: Any) -> None:
    given_back = a_batch({}) if wrong == "fewer" else wrong
    chain = [EditsWhole(lambda records: given_back), Edits(appends(b"1"))]
    assert [value for value, _ in sent(chain, b"a", b"b")] == [b"a1", b"b1"]
    assert [failure[:2] for failure in report.failures] == [("0", "on_send")]


def test_a_batch_has_its_topic_partition_and_client(sent: Sent) -> None:
    whole = EditsWhole()
    sent([whole], b"a")
    assert (whole.topic[:2], whole.topic[2].clock()) == (("orders", 3), NOW)


def test_without_wants_records_on_send_is_not_called(sent: Sent) -> None:
    class Refrains(Edits):
        def hints(self) -> Hints:
            return Hints(wants_records=False)

    assert sent([Refrains(appends(b"1"))], b"a") == [(b"a", ["h"])]


def test_interceptors_without_hooks_need_no_records(chain: Any) -> None:
    producers = chain(ProducerInterceptor(), Interceptor())
    assert not producers.needs_records
    assert not producers.wants_acknowledgements


def test_a_failing_interceptor_is_disabled_and_the_others_continue(
    chain: Any, context: Any, a_batch: Batches, report: Any
) -> None:
    bad, good = Edits(fails(ValueError())), Edits(appends(b"1"))
    producers = chain(bad, good, limits=Limits(failures=3))
    left = producers.send(context(), "orders", 3, a_batch(*[{"value": b"a"}] * 10))
    assert [record.value for record in left] == [b"a1"] * 10
    assert len(bad.seen) == 3
    assert report.out == [("0", 3)]
