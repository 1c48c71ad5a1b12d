"""Tagged fields that a later version of Kafka may add: they survive where large messages are split and assembled."""

from __future__ import annotations

import os

import pytest
from support import oracle
from support.fetches import VERSIONS as FETCH_VERSIONS
from support.interception import fetch_response
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log, shown
from support.large_messages import LogBroker, Splitting
from support.produce_requests import VERSIONS as PRODUCE_VERSIONS
from support.produce_requests import produce_request, results

from kafka_sidecar.codec.envelope import decode_response, encode_response, open_request
from kafka_sidecar.codec.message import decode, encode, replace_fields
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.records import NewRecord, build_batch

VALUE = os.urandom(10_000)
OF_PARTITION, OF_OTHER, OF_TOPIC, OF_MESSAGE = ((5, b"five"),), ((8, b"eight"),), ((6, b"six"),), ((700, b"seven"),)


@pytest.mark.parametrize("version", [one for one in PRODUCE_VERSIONS if one >= 9])
def test_those_of_a_request_reach_the_broker_with_the_carrier(version: int) -> None:
    plain = produce_request(version, {"large": {0: build_batch([NewRecord(VALUE)])}})
    at = open_request(plain).body_at
    request, _ = decode(ProduceRequest, plain, version, at)
    (topic,) = request.topic_data
    (one,) = topic.partition_data
    topic = replace_fields(
        topic, partition_data=(replace_fields(one, unknown_tags=OF_PARTITION),), unknown_tags=OF_TOPIC
    )
    body = encode(replace_fields(request, topic_data=(topic,), unknown_tags=OF_MESSAGE), version)
    broker = LogBroker()
    assert results(version, Splitting(broker).send(oracle.framed(plain[4:at] + body))) == [("large", 0, 0, 3)]
    carrier = broker.requests[-1]
    assert carrier.unknown_tags == OF_MESSAGE
    assert carrier.topic_data[0].unknown_tags == OF_TOPIC
    assert carrier.topic_data[0].partition_data[0].unknown_tags == OF_PARTITION


@pytest.mark.parametrize("version", [one for one in FETCH_VERSIONS if one >= 12])
def test_those_of_a_response_reach_the_client(version: int) -> None:
    log = Log()
    log.add_large(VALUE, 11, 1, topic_id=ORDERS)
    cluster, data = Cluster({0: log}), log.fetch(0, 1 << 20)
    plain = decode_response(FetchResponse, fetch_response(version, {"orders": {0: data, 1: b""}}), version).message

    def tagged(records: bytes | memoryview | None) -> bytes:
        (topic,) = plain.responses
        one, other = topic.partitions
        one = replace_fields(one, records=records, unknown_tags=OF_PARTITION)
        other = replace_fields(other, unknown_tags=OF_OTHER)
        topic = replace_fields(topic, partitions=(one, other), unknown_tags=OF_TOPIC)
        return encode_response(replace_fields(plain, responses=(topic,), unknown_tags=OF_MESSAGE), version, 7)

    begun = cluster.begin(version)
    begun.request(cluster.request(version, {0: 0}))
    response = cluster.settle(version, begun, begun.response(tagged(data)))
    assert isinstance(response, bytes)
    found = decode_response(FetchResponse, response, version).message.responses[0].partitions[0].records
    assert response == tagged(found)
    assert shown(found) == [(10, VALUE)]
