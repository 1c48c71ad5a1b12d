"""The table of APIs and the header versions that follow from it."""

from __future__ import annotations

import pytest
from harness.definitions import Definition, definitions
from support.examples import for_each

from kafka_sidecar.codec.apis import APIS, Api, ApiKey, request_header_version, response_header_version
from kafka_sidecar.codec.errors import CodecError, TruncatedError, UnsupportedVersionError
from kafka_sidecar.codec.headers import RequestHeader, ResponseHeader, decode_request_header
from kafka_sidecar.codec.message import decode, encode
from kafka_sidecar.codec.schema.fields import Versions, parse_versions

APIS_IN_KAFKA = [definition for definition in definitions().values() if "apiKey" in definition]


def test_every_api_of_kafka_is_in_the_table() -> None:
    assert set(APIS) == set(ApiKey) == {definition["apiKey"] for definition in APIS_IN_KAFKA}


@for_each(APIS_IN_KAFKA, lambda definition: definition["name"])
def test_the_table_agrees_with_kafkas_definitions(definition: Definition) -> None:
    versions = parse_versions(definition["validVersions"])
    flexible = parse_versions(definition.get("flexibleVersions", "none"))
    api = APIS[definition["apiKey"]]
    assert definition["name"] in (f"{api.name}Request", f"{api.name}Response")
    assert (api.min_version, api.max_version) == (versions.low, versions.high)
    assert api.flexible_from == (flexible.low if flexible.low <= flexible.high else None)


@for_each(APIS.values(), lambda api: api.name)
def test_header_versions_follow_the_first_flexible_version(api: Api) -> None:
    for version in range(20):
        flexible = api.flexible_from is not None and version >= api.flexible_from
        assert request_header_version(api.key, version) == (2 if flexible else 1)
        assert response_header_version(api.key, version) == (1 if flexible and api.key != ApiKey.API_VERSIONS else 0)


@pytest.mark.parametrize(("key", "version"), [(95, 0), (-1, 0), (1000, 3), (0, -1), (18, -32768)])
def test_an_unknown_api_or_a_negative_version_has_no_header(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersionError):
        request_header_version(key, version)
    with pytest.raises(UnsupportedVersionError):
        response_header_version(key, version)


def test_a_request_header_is_read_in_the_header_version_of_its_api() -> None:
    plain = bytes.fromhex("0003 0008 0000002a 0003 617070")
    flexible = bytes.fromhex("0003 000c 0000002a ffff 01 05 02 abcd")
    header, at = decode_request_header(b"..." + plain + b"body", 3)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, 8, 42, "app")
    assert at == 3 + len(plain)
    header, at = decode_request_header(flexible + b"body")
    assert (header.client_id, header.unknown_tags, at) == (None, ((5, b"\xab\xcd"),), len(flexible))
    assert encode(header, 2) == flexible


def test_the_client_id_is_not_compact_in_a_flexible_header() -> None:
    header = RequestHeader(api_key=18, api_version=3, correlation_id=1, client_id="ab")
    assert encode(header, 2) == bytes.fromhex("0012 0003 00000001 0002 6162 00")


def test_a_response_header_has_tagged_fields_from_version_1_on() -> None:
    assert decode(ResponseHeader, b"\0\0\0\7\0", 0) == (ResponseHeader(correlation_id=7), 4)
    assert decode(ResponseHeader, b"\0\0\0\7\0", 1) == (ResponseHeader(correlation_id=7), 5)


@pytest.mark.parametrize("size", range(13))
def test_a_truncated_request_header_is_rejected(size: int) -> None:
    whole = bytes.fromhex("0003 000c 0000002a 0003 617070 00")
    with pytest.raises(TruncatedError):
        decode_request_header(whole[:size])


def test_bytes_of_another_protocol_are_rejected_as_a_request_header() -> None:
    for data in (b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("16030100f4010000f0030300"), b"\xff" * 40):
        with pytest.raises(CodecError):
            decode_request_header(data)


@pytest.mark.parametrize("text", ["none", "0", "7", "0+", "3+", "0-13", "12-18"])
def test_version_ranges_are_formatted_as_in_kafka(text: str) -> None:
    assert str(parse_versions(text)) == text


def test_a_range_of_versions_includes_both_ends() -> None:
    assert [version for version in range(6) if version in Versions(2, 4)] == [2, 3, 4]
    assert 32767 in parse_versions("3+")
    assert 0 not in parse_versions("none")
