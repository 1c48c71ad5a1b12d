"""Summaries of records: what is counted, that no order matters, and that nothing grows without an end."""

from __future__ import annotations

import pickle
from copy import deepcopy

import orjson
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.pipeline.suggest.shape import CAPS
from kafka_sidecar.pipeline.suggest.summary import MAX_HEADERS, MAX_IDS, MAX_PLACES_SHOWN, Place, Summary
from pipeline.records.logs import SENT_AT

VALUES = st.one_of(
    st.none(),
    st.binary(max_size=9),
    st.sampled_from(
        [b'{"a": 1}', b'{"b": [null, "x"]}', b"17", b"text", b"\0\0\0\0\7abc", b'\0\0\0\0\7{"a": 2}', b"Obj\1"]
    ),
    st.integers(1, 300).map(lambda number: b"\0" + number.to_bytes(4, "big") + b"x"),
)
NAMES = st.one_of(st.sampled_from(["trace-id", "__value_schema_id"]), st.integers(0, 300).map(str))
HEADERS = st.lists(st.builds(Header, NAMES, st.one_of(st.none(), st.binary(max_size=20))), max_size=4)
RECORDS = st.lists(
    st.builds(NewRecord, VALUES, VALUES, HEADERS.map(tuple), st.sampled_from([0, 5, -3_600_000, -SENT_AT - 1])),
    max_size=8,
)


def summary(records: list[NewRecord], partition: int = 0, append_time: int | None = None) -> Summary:
    found = Summary()
    if records:
        (batch,) = batches(build_batch(records, base_timestamp=SENT_AT))
        for record in batch.records():
            place = Place(partition, record.offset_delta)
            found.add(record, place, append_time, batch.header.max_timestamp)
    found.not_read("because", Place(partition, 7))
    found.settle()
    return found


@given(RECORDS, RECORDS, RECORDS)
def test_summaries_merge_in_any_order(one: list[NewRecord], two: list[NewRecord], three: list[NewRecord]) -> None:
    parts = [summary(one, 0), summary(two, 1, SENT_AT + 50), summary(three, 2)]
    found = []
    for a, b, c in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        left = deepcopy(parts[a]).merge(deepcopy(parts[b])).merge(deepcopy(parts[c]))
        right = deepcopy(parts[a]).merge(deepcopy(parts[b]).merge(deepcopy(parts[c])))
        found += [left, right]
    assert all(one == found[0] for one in found)
    assert found[0].records == len(one) + len(two) + len(three)


def test_a_summary_is_the_same_in_another_process() -> None:
    found = summary([NewRecord(b'{"a": [1]}', b"k", (Header("h", b"v"),))] * 30)
    assert pickle.loads(pickle.dumps(found)) == found


def test_many_ids_and_many_names_of_headers_are_given_up() -> None:
    by_id = [NewRecord(b"\0" + number.to_bytes(4, "big") + b"x", None) for number in range(1, MAX_IDS + 1)]
    assert len(summary(by_id).value.ids or ()) == MAX_IDS
    assert summary([*by_id, NewRecord(b"\0\1\1\1\1x", None)]).value.ids is None
    named = [NewRecord(None, None, (Header(str(number), b""),)) for number in range(MAX_HEADERS)]
    assert len(summary(named).headers or ()) == MAX_HEADERS
    assert summary([*named, NewRecord(None, None, (Header("one more", b""),))]).headers is None


def test_a_header_that_is_several_times_in_a_record_is_in_one_record() -> None:
    found = summary([NewRecord(None, None, (Header("h", b"a"), Header("h", None), Header("h", b"\xff")))])
    assert found.headers is not None
    about = found.headers[b"h"]
    assert (about.records, about.headers, about.nulls, about.not_text) == (1, 3, 1, 1)


def test_the_first_places_are_kept() -> None:
    found = summary([NewRecord(b"a", None)] * 20, 1).merge(summary([NewRecord(b"a", None)] * 2, 0))
    tally = found.value.forms["text"]
    assert [str(one) for one in tally.first] == ["0:0", "0:1", "1:0", "1:1", "1:2"]
    assert (tally.count, len(tally.first)) == (22, MAX_PLACES_SHOWN)


def test_lateness_is_that_of_the_append_if_the_broker_has_set_it() -> None:
    records = [NewRecord(b"a", None, (), delta) for delta in (0, 10)]
    assert summary(records).lateness.ends() == (0, 10)
    assert summary(records, 0, SENT_AT + 100).lateness.ends() == (90, 100)
    assert summary([NewRecord(b"a", None, (), -SENT_AT - 1)]).untimed.count == 1


def test_limits_are_looked_at_after_some_bytes() -> None:
    """Else a task would remember all places of hostile documents before it looks."""
    found = Summary()
    names = 0
    for number in range(12):
        content = {f"a{number}{one}": {f"b{two}": 1 for two in range(400)} for one in range(100)}
        (batch,) = batches(build_batch([NewRecord(orjson.dumps(content), None)]))
        found.add(batch.records()[0], Place(0, number), None, 0)
        names = max(names, found.value.documents["bare"].shape.places(1))
    assert found.value.documents["bare"].cap < CAPS[0]
    assert names < 12 * 100 * 400
