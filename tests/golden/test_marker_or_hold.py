"""First requests of nine clients, relayed again: where slices are last each gets a marker, and kafka-go nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden.test_golden import HERE, exchanges, recorded
from support import oracle
from support.dialogue import Dialogue
from support.in_process import config
from support.oracle import frames_of

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import batches
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.plugins.effects import Work
from kafka_sidecar.proxy.exchanges.fetch import FetchExchanges
from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages
from kafka_sidecar.proxy.relay.exchange import Begin, TopicIds

# By client: the versions of its ApiVersions and Fetch requests, the name of its software, whether it gets a marker.
CLIENTS: dict[str, tuple[list[int], int, str | None, bool]] = {
    "java": ([4], 18, "apache-kafka-java", True),
    "librdkafka": ([3], 16, "confluent-kafka-python", True),
    "aiokafka": ([0], 11, None, True),
    "kafka-python": ([4], 12, "kafka-python", True),
    "franz-go": ([5, 4], 18, "kgo", True),
    "sarama": ([4], 12, "sarama", True),
    "kafka-go": ([0], 10, None, False),
    "kafkajs": ([2], 11, None, True),
    "platformatic": ([3], 17, "platformatic-kafka", True),
}
SHOWN_AT, END = 0, 4  # offsets: of the record that is shown, and after the slices


def in_front(client: str, **section: object) -> Dialogue:
    """A session of a sidecar that assembles this client's topic."""
    topic = f"large-{client}"
    large = LargeMessages(lambda topic_id: topic, lambda name: NO_ID)
    large.load(config("a:1", large_messages={"topics": [{"name": "large-*"}], **section}))()
    fetches = FetchExchanges(large.stages().fetch, lambda topic_id: topic)

    def exchange(key: int, version: int) -> Begin | None:
        return fetches.exchange(version) if key == ApiKey.FETCH else None

    return Dialogue(exchange=exchange)


def relayed(client: str, **section: object) -> bytes:
    """The response to Fetch, as the client gets it."""
    for conversation in recorded(f"fetches/{client}"):
        dialogue = in_front(client, **section)
        for said in exchanges(conversation):
            before = len(dialogue.to_broker)
            settle(dialogue.client(said.request))
            # The sidecar rejects a version of ApiVersions that it does not know, as the broker did.
            if len(dialogue.to_broker) > before and said.response is not None:
                settle(dialogue.broker(said.response))
        assert dialogue.session.closing is None, dialogue.detail
    return frames_of(dialogue.to_client)[-1]


def settle(dialogue: Dialogue) -> None:
    """Meet the needs of both directions."""
    while needs := dialogue.needs:
        need = needs[0]
        dialogue.meet({} if isinstance(need, TopicIds) else need.run() if isinstance(need, Work) else None)


def records_in(client: str, frame: bytes) -> tuple[bytes, int]:
    """And the high watermark."""
    _, response = oracle.read_response(ApiKey.FETCH, CLIENTS[client][1], frame)
    ((partition,),) = (topic.partitions for topic in response.responses)
    return bytes(partition.records), partition.high_watermark


def test_all_recordings_are_tested() -> None:
    assert sorted(path.stem for path in Path(HERE, "fetches").iterdir()) == sorted(CLIENTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_recordings_have_the_requests_that_are_listed(client: str) -> None:
    api_versions, fetch_version, software, _ = CLIENTS[client]
    said = [exchange for conversation in recorded(f"fetches/{client}") for exchange in exchanges(conversation)]
    asked = [exchange for exchange in said if exchange.key == ApiKey.API_VERSIONS]
    assert [exchange.version for exchange in asked] == api_versions
    assert [exchange.version for exchange in said if exchange.key == ApiKey.FETCH][-1] == fetch_version
    assert any((software or "").encode() in exchange.request for exchange in asked)
    (records, _) = records_in(client, said[-1].response or b"")
    assert [batch.header.is_control for batch in batches(records)] == [False] * 4  # one record, three slices


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_a_marker_in_place_of_slices_unless_it_would_show_it(client: str) -> None:
    records, high_watermark = records_in(client, relayed(client))
    first, *others = batches(records)
    assert (first.header.base_offset, [record.value for record in first.records()]) == (SHOWN_AT, [b"shown"])
    if CLIENTS[client][-1]:
        (marker,) = others
        assert marker.header.is_control
        assert marker.header.base_offset + marker.header.last_offset_delta + 1 == END == high_watermark
    else:
        assert others == []


@pytest.mark.parametrize("client", CLIENTS)
def test_none_gets_one_whose_client_id_is_configured(client: str) -> None:
    (first,) = batches(records_in(client, relayed(client, hold_for=["*"]))[0])
    assert not first.header.is_control
