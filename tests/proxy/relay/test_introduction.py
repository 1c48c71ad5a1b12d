"""Who a client says it is."""

from __future__ import annotations

import pytest
from support import oracle
from support.dialogue import Dialogue, request

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.proxy.relay.exchange import Pass
from kafka_sidecar.proxy.relay.introduction import client_id_of, software_of
from kafka_sidecar.proxy.relay.routes import Known

SOFTWARE = {"client_software_name": "librdkafka", "client_software_version": "2.16"}


@pytest.mark.parametrize("client_id", [None, "", "orders"])
def test_the_client_id_is_in_the_header_of_every_request(client_id: str | None) -> None:
    frame = oracle.request_frame(oracle.request(ApiKey.METADATA, 12), 1, client_id=client_id)
    assert client_id_of(frame) == client_id


@pytest.mark.parametrize("version", [3, 4])
def test_the_software_is_in_api_versions(version: int) -> None:
    frame = oracle.request_frame(oracle.request(ApiKey.API_VERSIONS, version, **SOFTWARE), 1)
    assert software_of(frame) == "librdkafka 2.16"


@pytest.mark.parametrize(("key", "version"), [(ApiKey.API_VERSIONS, 2), (ApiKey.METADATA, 12)])
def test_no_other_request_has_the_software(key: int, version: int) -> None:
    assert software_of(oracle.request_frame(oracle.request(key, version), 1)) is None


def test_a_request_that_ends_in_its_header_is_an_error() -> None:
    with pytest.raises(CodecError):
        client_id_of(request(ApiKey.METADATA, 12, 1)[:15])


def test_what_was_allowed_to_other_software_is_forgotten() -> None:
    session = Dialogue().session
    route = session.routes.add(9)
    session.client_software = "librdkafka 2.16"
    session.memo.note(9, Known(route, Pass(b"head"), None))
    frame = bytes(12) + b"head and more"
    session.client_software = "librdkafka 2.16"
    assert session.memo.find(route, 9, frame, 0, len(frame)) is not None
    session.client_software = "librdkafka 1.9"
    assert session.memo.find(route, 9, frame, 0, len(frame)) is None
