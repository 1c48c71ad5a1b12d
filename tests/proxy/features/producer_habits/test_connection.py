"""A connection whose requests differ: what is remembered of one holds only for those that begin alike."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.dialogue import Dialogue
from support.features import started
from support.produce_requests import batch

from kafka_sidecar.codec.apis import ApiKey

POLICY_VIOLATION = 44
HEAD: dict[str, Any] = {"topics": ["orders"], "report": False}


def talk(**habits: Any) -> Dialogue:
    features = started({"type": "latency", "topics": ["other"]}, producers=[{**HEAD, **habits}])
    return Dialogue(exchange=features.exchange)


def produce(acks: int = -1, client_id: str = "app", transactional_id: str | None = None, number: int = 7) -> bytes:
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch("one")}]}]
    entity = oracle.request(ApiKey.PRODUCE, 12, acks=acks, transactional_id=transactional_id, topic_data=data)
    return oracle.request_frame(entity, number, client_id)


def api_versions(version: str) -> bytes:
    names = {"client_software_name": "librdkafka", "client_software_version": version}
    return oracle.request_frame(oracle.request(ApiKey.API_VERSIONS, 3, **names), 5)


@pytest.mark.parametrize(
    "other",
    [produce(acks=1), produce(client_id="App"), produce(transactional_id="tx")],
    ids=["acks", "client id", "transactional id"],
)
def test_what_is_looked_at_is_each_request_of_a_connection(other: bytes) -> None:
    dialogue = talk(acks="all", client_id="[a-z]+", transactions="forbidden")
    good = produce()
    dialogue.client(good, good)
    assert dialogue.to_broker == good * 2
    dialogue.client(other, good)
    assert dialogue.to_broker == good * 3  # the other one is answered here


def test_a_request_that_arrives_in_pieces_is_relayed_as_it_comes() -> None:
    dialogue, good = talk(acks="all"), produce()
    half = len(good) - 20
    dialogue.client(good)
    dialogue.client(good[:half])
    assert dialogue.to_broker == good + good[:half]


def test_other_software_on_the_same_connection_is_looked_at_again() -> None:
    dialogue, good = talk(software={"librdkafka": ">=2.0"}), produce()
    dialogue.client(api_versions("2.3"), good)
    assert dialogue.to_broker.endswith(good)
    sent = len(dialogue.to_broker)
    dialogue.client(api_versions("1.9"), good)
    assert good not in dialogue.to_broker[sent:]
