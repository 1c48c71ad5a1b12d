"""Facts about single messages, with bytes as brokers and clients send them."""

from __future__ import annotations

import importlib
import subprocess
import sys

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.message import TAGS, decode, encode, field_reader, field_writer, skipper, span
from kafka_sidecar.codec.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kafka_sidecar.codec.messages.metadata import MetadataResponse, MetadataResponseBroker
from kafka_sidecar.codec.messages.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse


def test_an_api_versions_request_has_the_name_and_version_of_the_client() -> None:
    body = b"\x0blibrdkafka\x072.10.0\0"
    request, end = decode(ApiVersionsRequest, body, 3)
    assert (request.client_software_name, request.client_software_version, end) == ("librdkafka", "2.10.0", len(body))


def test_the_response_to_an_unsupported_api_versions_version_is_version_0() -> None:
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),)
    )
    data = b"head" + encode(refusal, 0)
    assert data[4:] == bytes.fromhex("0023 00000001 0012 0000 0004")
    assert decode(ApiVersionsResponse, data, 0, 4) == (refusal, len(data))


def test_the_brokers_of_a_metadata_response_can_be_replaced_in_place() -> None:
    here = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=19093)
    for version in range(14):
        there = MetadataResponse(brokers=(MetadataResponseBroker(node_id=1, host="kafka-1", port=9092, rack="a"),))
        data = encode(there, version)
        start, end = span(MetadataResponse, "brokers", version)(data, 0)
        spliced = data[:start] + field_writer(MetadataResponse, "brokers", version)((here,)) + data[end:]
        value, size = decode(MetadataResponse, spliced, version)
        assert (value.brokers, size) == ((here,), len(spliced))


def test_the_endpoints_of_a_produce_response_are_the_payload_of_its_tag_0() -> None:
    endpoint = NodeEndpoint(node_id=2, host="b", port=9092, rack=None)
    data = encode(ProduceResponse(node_endpoints=(endpoint,)), 10)
    payload = bytes.fromhex("02 00000002 02 62 00002384 00 00")
    assert data == bytes.fromhex("01 00000000 01 00 0d") + payload
    assert span(ProduceResponse, TAGS, 10)(data, 0) == (5, len(data))
    assert field_reader(ProduceResponse, "node_endpoints", 10)(payload, 0) == ((endpoint,), len(payload))


def test_the_fields_before_and_after_the_records_of_a_fetched_partition_can_be_skipped() -> None:
    partition = PartitionData(partition_index=3, aborted_transactions=None, records=b"r" * 300)
    response = FetchResponse(responses=(FetchableTopicResponse(topic_id=bytes(16), partitions=(partition,)),))
    for version in range(12, 19):
        data = encode(response, version)
        at = skipper(FetchResponse, version, before="responses")(data, 0) + 1
        at = skipper(FetchableTopicResponse, version, before="partitions")(data, at) + 1
        records = skipper(PartitionData, version, before="records")(data, at)
        assert data[records : records + 5] == bytes.fromhex("ad02") + b"rrr"
        at = skipper(PartitionData, version, after="records")(data, records + 2 + 300)
        at = skipper(FetchableTopicResponse, version, after="partitions")(data, at)
        assert skipper(FetchResponse, version, after="responses")(data, at) == len(data)


def test_an_unknown_current_leader_is_not_encoded() -> None:
    assert LeaderIdAndEpoch() == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
    partitions = (PartitionData(partition_index=1),)
    data = encode(FetchResponse(responses=(FetchableTopicResponse(partitions=partitions),)), 12)
    assert data.endswith(bytes.fromhex("01 00 00 00"))  # no records, and three empty tag sections


def test_importing_the_headers_imports_no_message() -> None:
    code = "import sys, kafka_sidecar.codec.headers; print(*(m for m in sys.modules if '.messages' in m))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == ""
    assert importlib.import_module("kafka_sidecar.codec.messages").__doc__
