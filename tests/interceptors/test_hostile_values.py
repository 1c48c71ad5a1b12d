"""What a client makes invalid is no failure of an interceptor: texts that are no UTF-8, numbers out of range."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.interceptors import testing
from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    OffsetAndMetadata,
    Offsets,
    TopicPartition,
)
from kafka_sidecar.interceptors.records import ConsumerRecord, ProducerRecord
from kafka_sidecar.interceptors.registry import INTERCEPTORS

SETTINGS: dict[str, dict[str, Any]] = {
    "add_header": {"headers": {"who": "{client_id}"}},
    "counting": {"keys": True},
    "mask_fields": {"fields": ["$.card"]},
    "remove_header": {"keys": ["internal*"], "hooks": ["on_send", "on_consume"]},
    "trace_context": {"start": True},
}
MEASURES = {"latency"}  # measures alone

any_bytes = st.binary(max_size=12) | st.sampled_from(
    [b"\xff", b"\xed\xa0\x80", b"\0", b"traceparent", b"_t", b"{", b""]
)
texts = any_bytes.map(lambda data: data.decode("utf-8", "surrogateescape"))
longs = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-1, 0, 2**63 - 1])
contexts = st.builds(
    Context,
    session=st.just(7),
    client_id=st.none() | texts,
    host=st.just("127.0.0.1"),
    clock=st.just(lambda: 1_700_000_000_000),
)
headers = st.lists(st.tuples(texts, st.none() | any_bytes), max_size=4)


def configured(name: str) -> Any:
    one = INTERCEPTORS.by_name(name)()
    one.configure(SETTINGS.get(name, {}))
    return one


@pytest.mark.parametrize("name", sorted(set(INTERCEPTORS.built_in) - MEASURES))
@given(data=st.data())
def test_records_with_any_bytes_are_no_failure(name: str, data: st.DataObject) -> None:
    common: dict[str, Any] = {
        "key": data.draw(st.none() | any_bytes), "value": data.draw(st.none() | any_bytes),
        "headers": data.draw(headers), "timestamp": data.draw(st.integers(-1, 2**53)), "context": data.draw(contexts),
    }  # fmt: skip
    testing.send(configured(name), [ProducerRecord("orders", 0, **common)])
    testing.consume(configured(name), [ConsumerRecord("orders", 0, data.draw(st.integers(0, 2**60)), **common)])


places = st.builds(TopicPartition, texts | st.just("orders"), st.integers(-(2**31), 2**31 - 1))
given_offsets = st.builds(OffsetAndMetadata, longs, texts, st.integers(-(2**31), 2**31 - 1))


class Marks(ConsumerInterceptor):
    """Changes what it may change."""

    def pre_commit(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            place: OffsetAndMetadata(one.offset, one.metadata + "!", one.leader_epoch) for place, one in offsets.items()
        }


@pytest.mark.parametrize("name", ["commit_metadata", "skip_identical_commits", "Marks"])
@given(asked=st.dictionaries(places, given_offsets, max_size=4), context=contexts)
def test_commits_with_any_values_are_no_failure(
    name: str, asked: dict[TopicPartition, OffsetAndMetadata], context: Context
) -> None:
    one = Marks() if name == "Marks" else configured(name)
    left = testing.commit(one, Offsets(asked, context))
    assert left.keys() <= asked.keys()
    for place, offset in left.items():
        assert (offset.offset, offset.leader_epoch) == (asked[place].offset, asked[place].leader_epoch)
