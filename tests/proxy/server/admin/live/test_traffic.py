"""Records and bytes by topic, of what passes while a reader wants to know."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from struct import pack
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.admin import get_json, pages
from support.dialogue import Dialogue, pieces, request
from support.fake_broker import FakeBroker
from support.fetches import fetch_request
from support.in_process import until
from support.interception import fetch_response
from support.produce_requests import batch, produce_request, produce_response, topic_id
from support.share_fetches import partition, share_request, share_response

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Forward
from kafka_sidecar.proxy.server.admin.live import looking as looking_module
from kafka_sidecar.proxy.server.admin.live.traffic import MAX_BATCHES, MAX_TOPICS, OTHERS, SLICE_BYTES, Traffic
from kafka_sidecar.proxy.server.admin.waiting_frames import MAX_FRAMES
from kafka_sidecar.proxy.server.server import Server

ONE, TWO = batch("a", "b"), batch("a", "b", "c")
TOPICS = {"orders": {0: ONE + TWO, 1: ONE}, "clicks": {3: TWO}}
OF_TOPICS = {"orders": (7, len(ONE + TWO + ONE)), "clicks": (3, len(TWO))}
CUTS = st.lists(st.integers(0, 600), max_size=6)


class Sidecar:
    """What the counts know of a server."""

    def __init__(self, topics: TopicNameCache) -> None:
        self.topics = topics


def watched() -> tuple[Traffic, Dialogue]:
    found: list[Traffic] = []
    talk = Dialogue(tap=lambda key, version: found[0].tap(key, version))
    talk.topics.remember((topic_id(name), name) for name in TOPICS)
    found.append(Traffic(cast(Server, Sidecar(talk.topics))))
    return found[0], talk


def counted(traffic: Traffic, api: str) -> dict[str, tuple[float, float]]:
    """Records and bytes by topic."""
    records, sizes = (family.samples for family in traffic.families())
    return {topic: (records[topic, of], sizes[topic, of]) for topic, of in records if of == api}  # type: ignore[misc]


@pytest.mark.parametrize("version", [3, 9, 12, 13])
@pytest.mark.parametrize("acks", [-1, 0])
def test_what_a_client_sends_is_counted_by_topic_whatever_names_it(version: int, acks: int) -> None:
    traffic, talk = watched()
    asked = produce_request(version, TOPICS, acks, 1)
    talk.client(asked)
    assert talk.to_broker == asked
    assert counted(traffic, "Produce") == OF_TOPICS
    assert traffic.topics == ["orders", "clicks"]


@given(cuts=CUTS)
def test_requests_and_responses_in_pieces_are_counted_once_and_relayed_unchanged(cuts: list[int]) -> None:
    traffic, talk = watched()
    sent, stored = produce_request(9, TOPICS, -1, 1), produce_response(9, {"orders": {0: 5}}, 1)
    fetched = fetch_response(12, {"orders": {0: ONE + TWO}})
    asked = fetch_request(12, {"orders": {0: 0}})
    talk.client(*pieces(sent + asked, cuts)).broker(*pieces(stored + fetched, cuts))
    assert (talk.to_broker, talk.to_client) == (sent + asked, stored + fetched)
    assert counted(traffic, "Produce") == OF_TOPICS
    assert counted(traffic, "Fetch") == {"orders": (5, len(ONE + TWO))}


def test_what_share_groups_get_is_counted() -> None:
    traffic, talk = watched()
    talk.client(share_request(1)).broker(
        share_response(1, {"orders": [partition(ONE, (0, 1)), partition(TWO, (0, 2))]})
    )
    assert counted(traffic, "ShareFetch") == {"orders": (5, len(ONE + TWO))}


def test_no_more_requests_wait_to_be_counted_than_a_few() -> None:
    traffic, talk = watched()
    for number in range(MAX_FRAMES + 1):
        talk.client(produce_request(9, TOPICS, -1, number))
    assert {key: total[0] for key, total in traffic._counts[ApiKey.PRODUCE].items()} == {
        topic: MAX_FRAMES * records for topic, (records, _) in OF_TOPICS.items()
    }
    assert counted(traffic, "Produce")["orders"] == tuple((MAX_FRAMES + 1) * of for of in OF_TOPICS["orders"])


def test_a_request_that_an_exchange_looks_into_is_counted_as_it_came() -> None:
    class Cuts:
        def request(self, frame: bytes):  # type: ignore[no-untyped-def]
            return Forward(frame, wants_response=False)
            yield

        def large_messages(self) -> dict[object, object]:
            return {}

    found: list[Traffic] = []
    talk = Dialogue(
        exchange=lambda key, version: (lambda *_: Cuts()) if key == ApiKey.PRODUCE else None,  # type: ignore[arg-type, return-value]
        tap=lambda key, version: found[0].tap(key, version),
    )
    found.append(Traffic(cast(Server, Sidecar(talk.topics))))
    talk.client(produce_request(9, TOPICS, -1, 1)).broker(produce_response(9, {"orders": {0: 5}}, 1))
    assert counted(found[0], "Produce") == OF_TOPICS


def test_names_are_bounded_and_what_is_no_topic_is_not_one() -> None:
    traffic, talk = watched()
    talk.client(produce_request(9, {f"t{at}": {0: ONE} for at in range(MAX_TOPICS + 5)}, -1, 1))
    talk.client(produce_request(9, {"<b>no topic</b>": {0: ONE}, "x" * 300: {0: ONE}}, -1, 2))
    found = counted(traffic, "Produce")
    assert len(found) == MAX_TOPICS + 1
    assert found[OTHERS] == (2 * 7, len(ONE) * 7)


def test_a_request_of_very_many_batches_is_not_read_to_its_end() -> None:
    traffic, talk = watched()
    talk.client(produce_request(9, {"orders": {0: ONE * (20 * MAX_BATCHES)}}, -1, 1))
    ((records, _),) = counted(traffic, "Produce").values()
    assert 2 * MAX_BATCHES < records <= 2 * (MAX_BATCHES + SLICE_BYTES // len(ONE) + 2)


@pytest.mark.parametrize("body", [b"", b"\xff" * 40, pack(">hhi", 0, 0, -1) + b"\x7f\xff\xff\xff" * 4])
def test_hostile_bytes_are_relayed_and_count_nothing(body: bytes) -> None:
    traffic, talk = watched()
    asked = request(ApiKey.PRODUCE, 8, 1, b"\xff\xff\xff\xff\x00\x00\x00\x01" + body)
    talk.client(asked, request(ApiKey.FETCH, 11, 2, body)).broker(b"\0\0\0\x0c" + pack(">i", 1) + b"\xff" * 8)
    assert talk.to_broker.startswith(asked)
    assert sum(records for records, _ in counted(traffic, "Produce").values()) == 0


async def test_requests_are_watched_only_while_a_reader_wants_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking_module, "LEASE_S", 0.2)
    async with FakeBroker(1) as broker, pages(broker) as (server, port):
        assert server._tap_of(ApiKey.PRODUCE, 9) is None
        await get_json(port, "/snapshot")
        assert server._tap_of(ApiKey.PRODUCE, 9) is None
        found = await get_json(port, "/snapshot?with=traffic,connections")
        assert [one["name"] for one in found["metrics"]["traffic"]] == ["records", "record_bytes"]
        assert server._tap_of(ApiKey.PRODUCE, 9) is not None
        assert server._tap_of(ApiKey.HEARTBEAT, 4) is not None
        assert server._tap_of(ApiKey.METADATA, 9) is None
        await until(lambda: server._tap_of(ApiKey.PRODUCE, 9) is None and server._tap_of(ApiKey.HEARTBEAT, 4) is None)
        assert "traffic" not in (await get_json(port, "/snapshot"))["metrics"]


async def test_names_of_ids_are_requested_once_a_sample_is_taken_and_may_stay_unknown() -> None:
    requested: list[list[bytes]] = []

    async def names(ids: Collection[bytes]) -> Mapping[bytes, str]:
        requested.append(sorted(ids))
        if len(requested) == 1:
            raise CodecError("no response")
        return {topic_id("late"): "late"}

    traffic, talk = watched()
    talk.topics._request_names = names
    talk.client(produce_request(13, {"late": {0: ONE}, "gone": {0: TWO}}, -1, 1))
    both = sorted([topic_id("late"), topic_id("gone")])
    for count in (1, 2):
        assert counted(traffic, "Produce") == {OTHERS: (5, len(ONE + TWO))}
        await until(lambda count=count: len(requested) == count)  # type: ignore[misc]
        await asyncio.sleep(0.05)
    assert requested == [both, both]
    assert counted(traffic, "Produce") == {"late": (2, len(ONE)), OTHERS: (3, len(TWO))}
