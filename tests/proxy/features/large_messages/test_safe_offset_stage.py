"""li's header `_so` in Fetch responses."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from support.client import FakeClient
from support.driven import Driven, Step
from support.fetches import VERSIONS, fetch_request, partitions_in
from support.interception import fetch_response
from support.produce_requests import batch, topic_id

from kafka_sidecar.codec.records import Codec, batches
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import TimeLimit, Work
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange
from kafka_sidecar.proxy.features.large_messages.offset_stage import MAX_INLINE_BYTES, SafeOffsetStage

NEWEST = VERSIONS[-1]
ONE = [("_so", b"\0\0\0\0\0\0\0\1")]
each_version = pytest.mark.parametrize("version", VERSIONS)


class Stage:
    """The stage of a sidecar that has read a large message of "orders" at 1 to 5."""

    def __init__(self, **of_topic: Any) -> None:
        self.intervals = Intervals()
        self.intervals.complete(topic_id("orders"), 0, b"m", 1, 5)
        settings = TopicSettings(**{"deliver_headers": True, **of_topic})
        self.stage = SafeOffsetStage(
            lambda topic: settings if topic == "orders" else None, self.intervals, topic_id, ["li-*"], 1 << 20,
            TimeLimit("large_messages", inf, inf),
        )  # fmt: skip

    def begin(self, version: int, client: FakeClient | None = None) -> Driven:
        run = self.stage.start(client or FakeClient(), version)
        names = {topic_id(name): name for name in ("orders", "free")}
        exchange = Driven(FetchExchange([run], names.get, version))
        exchange.request(fetch_request(version, {"orders": {0: 0}}))
        return exchange

    def fetch(self, version: int, records: bytes, topic: str = "orders", client: FakeClient | None = None) -> Step:
        return self.begin(version, client).response(fetch_response(version, {topic: {0: records}}))


def headers(version: int, step: Step) -> dict[int, list[tuple[str, bytes | None]]]:
    """The headers of each record, by offset."""
    (partition,) = partitions_in(version, step).values()
    return {
        one.header.base_offset + record.offset_delta: [(header.key, header.value) for header in record.headers]
        for one in batches(partition.records)
        for record in one.records()
    }


@each_version
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_records_after_which_a_message_is_incomplete_get_the_safe_offset(version: int, codec: Codec) -> None:
    records = batch("a", "b", "c", base_offset=0, codec=codec) + batch("d", "e", "f", base_offset=3, codec=codec)
    step = Stage().fetch(version, records)
    assert headers(version, step) == {0: [], 1: ONE, 2: ONE, 3: ONE, 4: ONE, 5: []}


@each_version
def test_a_response_without_such_records_is_the_brokers_frame(version: int) -> None:
    stage = Stage()
    for topic, records in (("orders", batch("f", "g", base_offset=5)), ("free", batch("b", base_offset=1))):
        frame = fetch_response(version, {topic: {0: records}})
        assert stage.begin(version).response(frame) is frame


def test_nothing_is_added_where_it_is_not_configured_or_for_a_client_of_li() -> None:
    records = batch("b", base_offset=1)
    assert headers(NEWEST, Stage(deliver_headers=False).fetch(NEWEST, records)) == {1: []}
    assert headers(NEWEST, Stage().fetch(NEWEST, records, client=FakeClient(client_id="li-1"))) == {1: []}


def test_long_records_are_looked_into_in_a_thread_and_stay_as_they_are_if_that_takes_too_long() -> None:
    frame = fetch_response(NEWEST, {"orders": {0: batch("b" * MAX_INLINE_BYTES, base_offset=1)}})
    exchange = Stage().begin(NEWEST)
    step = exchange.response(frame)
    assert isinstance(step, Work)
    assert headers(NEWEST, exchange.answer(step.run())) == {1: ONE}
    exchange = Stage().begin(NEWEST)
    exchange.response(frame)
    assert exchange.fail(TimeoutError()) is frame


@pytest.mark.parametrize("damaged", [b"\0" * 30, batch("b", base_offset=1, codec=Codec.GZIP)[:-5] + b"\0" * 5])
def test_records_that_cannot_be_read_are_left_to_the_client(damaged: bytes) -> None:
    frame = fetch_response(NEWEST, {"orders": {0: damaged}})
    assert Stage().begin(NEWEST).response(frame) is frame
