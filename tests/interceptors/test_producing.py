"""A producer's chain: who sees what in which order, and what becomes of failures (KIP-42, KIP-512)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Codec, Header, NewRecord, Records, batches, build_batch, reseal
from kafka_sidecar.interceptors import producing
from kafka_sidecar.interceptors.contract import (
    AcknowledgedBatch,
    Context,
    Hints,
    Interceptor,
    ProducerInterceptor,
    RecordBatch,
    RecordMetadata,
    SendError,
)
from kafka_sidecar.interceptors.guard import Guard, Limits
from kafka_sidecar.interceptors.headers import Headers, ReadOnlyError
from kafka_sidecar.interceptors.producing import Producers
from kafka_sidecar.interceptors.records import ProducerRecord

NOW = 1_700_000_000_000
Batches = Callable[..., Records]
Edit = Callable[[ProducerRecord], Any]


class Edits(ProducerInterceptor):
    """Does with each record what it is told to, and remembers the values that it saw."""

    def __init__(self, edit: Edit = lambda record: record) -> None:
        self.edit, self.seen = edit, list[bytes | None]()

    def on_send(self, record: ProducerRecord) -> Any:
        self.seen.append(record.value)
        return self.edit(record)


class EditsWhole(ProducerInterceptor):
    """The same for batches."""

    def __init__(self, edit: Callable[[Records], Any] = lambda records: records) -> None:
        self.edit, self.seen = edit, list[bytes | None]()

    def on_send_batch(self, batch: RecordBatch) -> Any:
        self.seen += [record.value for record in batch.records]
        self.topic = batch.topic, batch.partition, batch.context
        return self.edit(batch.records)


class Hears(ProducerInterceptor):
    def __init__(self, wants_records: bool = True) -> None:
        self.wants_records, self.heard = wants_records, list[tuple[RecordMetadata, Exception | None]]()

    def hints(self) -> Hints:
        return Hints(wants_records=self.wants_records)

    def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
        self.heard.append((metadata, exception))


class HearsHeaders(Hears):
    def on_acknowledgement_with_headers(
        self, metadata: RecordMetadata, exception: Exception | None, headers: Headers
    ) -> None:
        self.heard.append((metadata, exception))
        self.headers = [*getattr(self, "headers", []), headers]


class HearsWhole(ProducerInterceptor):
    def __init__(self) -> None:
        self.heard = list[tuple[AcknowledgedBatch, Exception | None]]()

    def on_acknowledgement_batch(self, batch: AcknowledgedBatch, exception: Exception | None) -> None:
        self.heard.append((batch, exception))


def appends(text: bytes) -> Edit:
    return lambda record: record.replace(value=(record.value or b"") + text)


def adds(key: str) -> Edit:
    def edit(record: ProducerRecord) -> ProducerRecord:
        record.headers.add(key, b"")
        return record

    return edit


def fails(error: BaseException, first: Edit = lambda record: record) -> Edit:
    def edit(record: ProducerRecord) -> ProducerRecord:
        first(record)
        raise error

    return edit


@pytest.fixture
def chain(told: Any) -> Callable[..., Producers]:
    def of(*interceptors: Interceptor, limits: Limits = Limits(failures=0)) -> Producers:  # noqa: B008 - frozen
        guards = [Guard(str(at), one, one.hints(), told, limits=limits) for at, one in enumerate(interceptors)]
        return Producers(tuple(guards))

    return of


@pytest.fixture
def sent(chain: Callable[..., Producers], context: Callable[[], Context], a_batch: Batches) -> Callable[..., Any]:
    """What is left of records with these values after a chain."""

    def of(interceptors: Sequence[Interceptor], *values: bytes) -> list[tuple[bytes | None, list[str]]]:
        records = a_batch(*({"value": value, "headers": [("h", b"1")]} for value in values))
        left = chain(*interceptors).send(context(), "orders", 3, records)
        return [(record.value, [header.key for header in record.headers]) for record in left]

    return of


Sent = Callable[..., list[tuple[bytes | None, list[str]]]]


def test_on_send_runs_for_every_record_in_configured_order_and_each_gets_the_previous_ones_output(sent: Sent) -> None:
    first, second, third = Edits(appends(b"1")), Edits(appends(b"2")), Edits(appends(b"3"))
    assert sent([first, second, third], b"a", b"b") == [(b"a123", ["h"]), (b"b123", ["h"])]
    assert (first.seen, second.seen, third.seen) == ([b"a", b"b"], [b"a1", b"b1"], [b"a12", b"b12"])


def test_after_an_exception_the_last_good_record_goes_on(sent: Sent, told: Any) -> None:
    third = Edits(appends(b"3"))
    chain = [Edits(appends(b"1")), Edits(fails(ValueError("bug"), appends(b"2"))), third]
    assert sent(chain, b"a") == [(b"a13", ["h"])]
    assert told.failures == [("1", "on_send", "ValueError: bug")]


def test_what_an_interceptor_did_to_the_headers_before_it_failed_is_undone(sent: Sent) -> None:
    def spoils(record: ProducerRecord) -> None:
        record.headers.remove("h").add("spoilt", b"")
        record.replace(headers=[]).headers.add("lost", b"")
        record.headers.add("spoilt", b"")

    assert sent([Edits(adds("1")), Edits(fails(ValueError(), spoils)), Edits(adds("3"))], b"a") == [
        (b"a", ["h", "1", "3"])
    ]


def test_the_exception_of_one_record_does_not_touch_the_next(sent: Sent) -> None:
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
def test_a_record_cannot_be_left_out_nor_moved_nor_become_several(wrong: str, sent: Sent, told: Any) -> None:
    assert sent([Edits(appends(b"1")), Edits(WRONG[wrong]), Edits(appends(b"3"))], b"a") == [(b"a13", ["h"])]
    assert [failure[:2] for failure in told.failures] == [("1", "on_send")]


def test_a_record_given_back_in_place_of_a_later_one_is_an_exception(sent: Sent, told: Any) -> None:
    kept: list[ProducerRecord] = []

    def late(record: ProducerRecord) -> ProducerRecord:
        kept.append(record.replace(value=b"x"))
        return kept[0]

    assert sent([Edits(late)], b"a", b"b") == [(b"x", ["h"]), (b"b", ["h"])]
    assert len(told.failures) == 1


def test_a_record_made_from_nothing_takes_the_place_of_the_one_it_was_made_for(
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


def test_headers_are_read_only_once_the_chain_has_run(sent: Sent) -> None:
    kept: list[ProducerRecord] = []

    def keeps(record: ProducerRecord) -> ProducerRecord:
        kept.append(record)
        return record

    sent([Edits(keeps)], b"a", b"b")
    for record in kept:
        with pytest.raises(ReadOnlyError):
            record.headers.add("late", b"")


@pytest.mark.parametrize("error", [SystemExit(1), BaseException("panic")])
def test_nothing_that_an_interceptor_raises_fails_the_request(error: BaseException, sent: Sent, told: Any) -> None:
    assert sent([Edits(fails(error)), EditsWhole(lambda records: fails(error)(records))], b"a") == [(b"a", ["h"])]  # type: ignore[arg-type]
    assert len(told.failures) == 2


def test_batch_by_batch_and_record_by_record_can_be_mixed_in_one_chain(sent: Sent) -> None:
    def upper(records: Records) -> Records:
        return records.with_payload(records.payload.replace(b"a1", b"A!"))

    chain: list[Any] = [Edits(appends(b"1")), EditsWhole(upper), Edits(appends(b"3")), EditsWhole()]
    assert sent(chain, b"a", b"b") == [(b"A!3", ["h"]), (b"b13", ["h"])]
    assert chain[1].seen == [b"a1", b"b1"]
    assert chain[3].seen == [b"A!3", b"b13"]


@pytest.mark.parametrize("wrong", [None, [], 3, "fewer"])
def test_a_batch_cannot_become_smaller_nor_something_else(wrong: Any, sent: Sent, a_batch: Batches, told: Any) -> None:
    given_back = a_batch({}) if wrong == "fewer" else wrong
    chain = [EditsWhole(lambda records: given_back), Edits(appends(b"1"))]
    assert [value for value, _ in sent(chain, b"a", b"b")] == [b"a1", b"b1"]
    assert [failure[:2] for failure in told.failures] == [("0", "on_send")]


def test_a_batch_comes_with_its_topic_partition_and_client(sent: Sent) -> None:
    whole = EditsWhole()
    sent([whole], b"a")
    assert (whole.topic[:2], whole.topic[2].clock()) == (("orders", 3), NOW)


@given(st.integers(0, 2**32), st.integers(1, 12), st.sets(st.integers(0, 4), max_size=3))
def test_in_a_chain_of_five_whose_third_raises_at_random_every_other_one_sees_every_record(
    seed: int, count: int, whole: set[int]
) -> None:
    random = Random(seed)
    raised: set[bytes] = set()

    def at_random(record: ProducerRecord) -> Any:
        if random.random() < 0.5:
            return appends(b"3")(adds("3")(record))
        raised.add((record.value or b"")[:1])
        adds("never")(record)
        raise random.choice((ValueError, SystemExit, ReadOnlyError))("at random")

    def of(at: int) -> ProducerInterceptor:
        if at == 2:
            return Edits(at_random)
        return EditsWhole() if at in whole else Edits(appends(b"%d" % (at + 1)))

    interceptors: list[Any] = [of(at) for at in range(5)]
    guards = [Guard(str(at), one, Hints(), _Silent(), limits=Limits(failures=0)) for at, one in enumerate(interceptors)]
    (batch,) = batches(build_batch([NewRecord(b"%c" % (65 + at)) for at in range(count)]))

    left = Producers(tuple(guards)).send(Context(lambda: NOW), "orders", 3, batch.records())

    names = [b"%c" % (65 + at) for at in range(count)]
    for one in interceptors:
        assert [(value or b"")[:1] for value in one.seen] == names
    expected = [
        name
        + b"".join(b"%d" % (at + 1) for at in range(5) if at not in whole - {2} and not (at == 2 and name in raised))
        for name in names
    ]
    assert [record.value for record in left] == expected
    assert [[header.key for header in record.headers] for record in left] == [
        [] if name in raised else ["3"] for name in names
    ]


class _Silent:
    def failed(self, *told: object) -> None: ...
    def slow(self, *told: object) -> None: ...
    def disabled(self, *told: object) -> None: ...


texts = st.none() | st.binary(max_size=5)
keys = st.sampled_from(["", "a", "b", "ü"])
some_headers = st.lists(st.tuples(keys, texts), max_size=3)
a_record = st.tuples(texts, texts, some_headers)
an_edit = st.one_of(
    st.tuples(st.just("key"), texts),
    st.tuples(st.just("value"), texts | st.binary(min_size=100, max_size=200)),
    st.tuples(st.just("headers"), some_headers),
    st.tuples(st.just("add"), st.tuples(keys, texts)),
    st.tuples(st.just("remove"), keys),
    st.tuples(st.just("look"), st.none()),
)
edits_of_each = st.lists(st.lists(an_edit, max_size=3), min_size=1, max_size=6)


def edited(record: ProducerRecord, edits: Sequence[tuple[str, Any]]) -> ProducerRecord:
    for what, new in edits:
        if what == "add":
            record.headers.add(*new)
        elif what == "remove":
            record.headers.remove(new)
        elif what == "look":
            assert len(record.headers.to_tuple()) == len(list(record.headers))
        else:
            record = record.replace(**{what: new})
    return record


def as_expected(record: tuple[Any, Any, list[Any]], edits: Sequence[tuple[str, Any]]) -> tuple[Any, Any, list[Any]]:
    key, value, headers = record
    for what, new in edits:
        match what:
            case "key":
                key = new
            case "value":
                value = new
            case "headers":
                headers = new
            case "add":
                headers = [*headers, new]
            case "remove":
                headers = [pair for pair in headers if pair[0] != new]
    return key, value, list(headers)


@given(st.lists(a_record, min_size=1, max_size=6), edits_of_each, edits_of_each, st.sampled_from(Codec))
def test_after_any_edits_another_reader_finds_what_the_interceptors_left(
    records: list[tuple[Any, Any, Any]], first: list[Any], second: list[Any], codec: Codec
) -> None:
    new = [NewRecord(value, key, [Header(*pair) for pair in headers], 7) for key, value, headers in records]
    (batch,) = batches(
        build_batch(new, codec=codec, base_timestamp=NOW, producer_id=9, producer_epoch=1, base_sequence=4)
    )
    steps = [Edits(lambda record, by=by: edited(record, by[record.index % len(by)])) for by in (first, second)]  # type: ignore[misc]
    chain = Producers(tuple(Guard("it", one, Hints(), _Silent()) for one in steps))

    left = chain.send(Context(lambda: NOW), "orders", 3, batch.records())

    theirs = MemoryRecords(reseal(batch, left)).next_batch()
    assert theirs.validate_crc()
    expected = [
        as_expected(as_expected(record, first[at % len(first)]), second[at % len(second)])
        for at, record in enumerate(records)
    ]
    assert [(one.key, one.value, list(one.headers)) for one in theirs] == expected
    assert [(one.offset, one.timestamp) for one in MemoryRecords(reseal(batch, left)).next_batch()] == [
        (at, NOW + 7) for at in range(len(records))
    ]


@given(st.lists(a_record, max_size=5))
def test_a_chain_that_changes_nothing_gives_the_very_same_records_back(records: list[tuple[Any, Any, Any]]) -> None:
    def looks(record: ProducerRecord) -> ProducerRecord:
        assert record.headers.last_header("not there") is None
        record.headers.remove("not there")
        return record.replace() if record.key else record

    new = [NewRecord(value, key, [Header(*pair) for pair in headers]) for key, value, headers in records]
    (batch,) = batches(build_batch(new))
    chain = [Edits(looks), EditsWhole(), Edits(fails(ValueError(), adds("x"))), Edits(looks)]
    given_in = batch.records()
    guards = tuple(Guard("it", one, Hints(), _Silent()) for one in chain)
    assert Producers(guards).send(Context(lambda: NOW), "orders", 3, given_in) is given_in


def acknowledged(context: Context, count: int, **about: Any) -> AcknowledgedBatch:
    return AcknowledgedBatch("orders", 3, count, context, NOW, **about)


RECORDS = ({"key": b"kk", "value": b"vvv", "timestamp": NOW + 1}, {"key": None, "value": None, "timestamp": NOW + 2})


def test_metadata_is_complete_on_success(a_batch: Batches, chain: Any, context: Any) -> None:
    hears, own = Hears(), context()
    producers = chain(hears)
    producers.notify(acknowledged(own, 2, base_offset=40), producers.collect_details(a_batch(*RECORDS)), None)
    assert hears.heard == [
        (RecordMetadata("orders", 3, 40, NOW + 1, 2, 3, own), None),
        (RecordMetadata("orders", 3, 41, NOW + 2, -1, -1, own), None),
    ]


def test_the_time_is_the_brokers_where_it_sets_it(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = Hears()
    producers = chain(hears)
    answer = acknowledged(context(), 2, base_offset=40, log_append_time=NOW + 99)
    producers.notify(answer, producers.collect_details(a_batch(*RECORDS)), None)
    assert [metadata.timestamp for metadata, _ in hears.heard] == [NOW + 99] * 2


def test_with_acks_0_there_is_no_offset_but_all_else(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = Hears()
    producers = chain(hears)
    producers.notify(acknowledged(context(), 2), producers.collect_details(a_batch(*RECORDS)), None)
    assert [metadata[2:6] for metadata, _ in hears.heard] == [(-1, NOW + 1, 2, 3), (-1, NOW + 2, -1, -1)]


def test_on_error_metadata_is_never_none_and_tells_where_the_record_was_to_go(
    a_batch: Batches, chain: Any, context: Any
) -> None:
    hears, error = Hears(), SendError("no", 87)
    producers = chain(hears)
    producers.notify(acknowledged(context(), 2), producers.collect_details(a_batch(*RECORDS)), error)
    assert [(metadata[:6], exception) for metadata, exception in hears.heard] == [
        (("orders", 3, -1, -1, -1, -1), error)
    ] * 2


def test_sizes_are_those_that_were_sent(a_batch: Batches, chain: Any, context: Any) -> None:
    hears = Hears()
    producers = chain(Edits(appends(b"1234")), hears)
    left = producers.send(context(), "orders", 3, a_batch(*RECORDS))
    producers.notify(acknowledged(context(), 2, base_offset=0), producers.collect_details(left), None)
    assert [metadata.serialized_value_size for metadata, _ in hears.heard] == [7, 4]


def test_who_wants_to_know_headers_gets_them_read_only_as_they_were_sent(
    a_batch: Batches, chain: Any, context: Any
) -> None:
    hears = HearsHeaders()
    producers = chain(Edits(adds("x")), hears)
    left = producers.send(context(), "orders", 3, a_batch({"headers": [("h", b"1")]}, {}))
    for error in (None, SendError("no")):
        hears.headers = []
        producers.notify(acknowledged(context(), 2), producers.collect_details(left), error)
        assert [[header.key for header in headers] for headers in hears.headers] == [["h", "x"], ["x"]]
    for headers in hears.headers:
        with pytest.raises(ReadOnlyError):
            headers.add("late", b"")


def test_headers_are_kept_only_for_those_who_want_them(a_batch: Batches, chain: Any) -> None:
    records = a_batch(*RECORDS)
    assert chain(Hears()).collect_details(records).records is None
    assert chain(Hears(), HearsHeaders()).collect_details(records).records is records
    assert chain(HearsWhole()).collect_details(records) is None


def test_every_interceptor_is_told_in_configured_order_and_what_one_raises_is_ignored(
    chain: Any, context: Any, told: Any
) -> None:
    order: list[str] = []

    class Notes(ProducerInterceptor):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_acknowledgement(self, metadata: RecordMetadata, exception: Exception | None) -> None:
            order.append(f"{self.name}{metadata.offset}")
            raise SystemExit(self.name)

    whole = HearsWhole()
    producers = chain(Notes("a"), Notes("b"), whole, Notes("c"))
    producers.notify(acknowledged(context(), 2, base_offset=0), None, None)
    assert order == ["a0", "b0", "a1", "b1", "c0", "c1"]
    assert len(whole.heard) == 1
    assert [failure[:2] for failure in told.failures] == [(name, "on_acknowledgement") for name in "010133"]


def test_a_batch_as_a_whole_is_told_as_a_whole(chain: Any, context: Any) -> None:
    whole, error = HearsWhole(), SendError("no")
    batch = acknowledged(context(), 1000)
    chain(whole).notify(batch, None, error)
    assert whole.heard == [(batch, error)]


def test_who_wants_no_records_costs_no_decoding_and_still_hears_of_each(
    a_batch: Batches, chain: Any, context: Any
) -> None:
    hears = Hears(wants_records=False)
    producers = chain(hears)
    assert not producers.needs_records
    assert producers.wants_acknowledgements
    assert producers.collect_details(a_batch(*RECORDS)) is None
    producers.notify(acknowledged(context(), 2, base_offset=40, log_append_time=NOW), None, None)
    assert [metadata[2:6] for metadata, _ in hears.heard] == [(40, NOW, -1, -1), (41, NOW, -1, -1)]


def test_who_wants_no_records_gets_no_on_send(sent: Sent) -> None:
    class Refrains(Edits):
        def hints(self) -> Hints:
            return Hints(wants_records=False)

    assert sent([Refrains(appends(b"1"))], b"a") == [(b"a", ["h"])]


def test_interceptors_that_do_nothing_cost_nothing(chain: Any) -> None:
    producers = chain(ProducerInterceptor(), Interceptor())
    assert not producers.needs_records
    assert not producers.wants_acknowledgements


def test_of_a_batch_with_very_many_records_sizes_are_not_remembered(
    chain: Any, a_batch: Batches, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producing, "MAX_DETAILED_RECORDS", 2)
    hears = Hears()
    producers = chain(hears)
    assert producers.collect_details(a_batch({}, {})) is not None
    assert producers.collect_details(a_batch({}, {}, {})) is None
    producers.notify(acknowledged(context(), 3, base_offset=40), None, None)
    assert [metadata[2:6] for metadata, _ in hears.heard] == [(offset, -1, -1, -1) for offset in (40, 41, 42)]


def test_one_that_fails_again_and_again_is_left_out_and_the_others_go_on(
    chain: Any, context: Any, a_batch: Batches, told: Any
) -> None:
    bad, good = Edits(fails(ValueError())), Edits(appends(b"1"))
    producers = chain(bad, good, limits=Limits(failures=3))
    left = producers.send(context(), "orders", 3, a_batch(*[{"value": b"a"}] * 10))
    assert [record.value for record in left] == [b"a1"] * 10
    assert len(bad.seen) == 3
    assert told.out == [("0", 3)]
