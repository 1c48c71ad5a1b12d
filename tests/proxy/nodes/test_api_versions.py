"""ApiVersions is an intersection: the client gets the versions that both the broker and the sidecar support."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.dialogue import Dialogue, request, response
from support.oracle import frames_of

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_response, encode_request, encode_response
from kafka_sidecar.codec.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.proxy.relay.routes import HIDDEN, versions

VERSIONS = range(5)
HEARTBEAT = request(ApiKey.HEARTBEAT, 3, 77)
UNSUPPORTED_VERSION, REBOOTSTRAP_REQUIRED = 35, 129


def api(key: int, oldest: int, newest: int) -> dict[str, int]:
    return {"api_key": key, "min_version": oldest, "max_version": newest}


# A broker of the future: more APIs, newer versions.
OFFERED = [api(key, 0, 99) for key in [*APIS, 95, 999, 32767]]


def asked(version: int, correlation_id: int = 1) -> bytes:
    entity = oracle.request(18, version, client_software_name="kio", client_software_version="1")
    return oracle.request_frame(entity, correlation_id)


def asked_of_a_node(correlation_id: int) -> bytes:
    """In version 5, which kio does not know: with the cluster and the node that the client means (KIP-1242)."""
    message = ApiVersionsRequest(
        client_software_name="kio", client_software_version="1", cluster_id="the-cluster", node_id=7
    )
    return encode_request(message, 5, correlation_id, "app")


def exchanged(version: int, *offered: dict[str, int], **values: Any) -> tuple[Any, Any]:
    """The response that the broker sent and the one that the client got, as kio reads it."""
    sent = oracle.response(18, version, api_keys=offered, **values)
    dialogue = Dialogue().client(asked(version)).broker(oracle.response_frame(sent, 1))
    assert dialogue.session.closing is None, dialogue.detail
    return sent, oracle.read_response(18, version, dialogue.to_client)[1]


def ranges(entity: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in entity.api_keys}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_versions_of_a_newer_broker_are_reduced_to_what_is_relayed(version: int) -> None:
    _, got = exchanged(version, *OFFERED)
    assert ranges(got) == {key: served for key in APIS if (served := versions(key)) is not None}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_broker_keeps_its_own_versions(version: int) -> None:
    sent, got = exchanged(version, api(0, 3, 9), api(1, 4, 11), api(3, 0, 9), api(18, 0, 2))
    assert got == sent


@pytest.mark.parametrize("version", VERSIONS)
def test_a_response_within_the_relayed_versions_is_the_same_bytes(version: int) -> None:
    sent = oracle.response_frame(oracle.response(18, version, api_keys=[api(0, 0, 9)]), 1)
    assert Dialogue().client(asked(version)).broker(sent).to_client == sent


def test_the_order_of_the_broker_is_kept() -> None:
    _, got = exchanged(3, api(18, 0, 4), api(999, 0, 1), api(3, 0, 12), api(0, 0, 11))
    assert [api.api_key for api in got.api_keys] == [18, 3, 0]


def test_produce_keeps_its_minimum_which_librdkafka_checks() -> None:
    assert ranges(exchanged(3, api(ApiKey.PRODUCE, 0, 13))[1]) == {0: (0, 13)}


HIDDEN_VERSIONS = {
    ApiKey.SASL_HANDSHAKE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
}


@pytest.mark.parametrize("key", HIDDEN_VERSIONS)
def test_versions_that_a_proxy_cannot_relay_correctly_are_hidden(key: ApiKey) -> None:
    assert ranges(exchanged(3, api(key, 0, 99))[1]) == {key: HIDDEN_VERSIONS[key]}


@pytest.mark.parametrize("key", sorted(HIDDEN))
def test_apis_between_brokers_and_controllers_are_hidden(key: int) -> None:
    assert ranges(exchanged(3, api(key, 0, 99))[1]) == {}


def test_an_api_whose_versions_do_not_overlap_is_hidden() -> None:
    assert ranges(exchanged(3, api(ApiKey.SASL_HANDSHAKE, 0, 0), api(ApiKey.PRODUCE, 90, 99))[1]) == {}


def test_an_early_access_share_fetch_is_hidden() -> None:
    assert ranges(exchanged(3, api(ApiKey.SHARE_FETCH, 0, 0), api(ApiKey.SHARE_ACKNOWLEDGE, 0, 0))[1]) == {}


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_forwarded(version: int) -> None:
    feature = {"name": "metadata.version", "min_version": 1, "max_version": 29}
    final = {"name": "metadata.version", "min_version_level": 7, "max_version_level": 29}
    sent, got = exchanged(
        version, api(0, 0, 13), api(999, 0, 0), supported_features=[feature], finalized_features=[final],
        finalized_features_epoch=4711, zk_migration_ready=True,
    )  # fmt: skip
    assert got.supported_features == sent.supported_features
    assert got.finalized_features == sent.finalized_features
    assert (got.finalized_features_epoch, got.zk_migration_ready) == (4711, True)


def test_unknown_tagged_fields_are_kept() -> None:
    plain = oracle.encoded(oracle.response(18, 3, api_keys=[api(999, 0, 1), api(0, 0, 13)]))
    assert plain.endswith(b"\x00")
    sent = response(1, plain[:-1] + b"\x01\x63\x07unknown")
    got = Dialogue().client(asked(3)).broker(sent).to_client
    assert got.endswith(b"\x01\x63\x07unknown")
    assert b"\x03\xe7" not in got


@pytest.mark.parametrize("version", [3, 4])
def test_a_broker_that_does_not_support_the_version_is_forwarded(version: int) -> None:
    sent = oracle.response_frame(oracle.response(18, 0, error_code=UNSUPPORTED_VERSION, api_keys=[api(18, 0, 2)]), 1)
    dialogue = Dialogue().client(asked(version)).broker(sent)
    assert dialogue.session.closing is None
    assert dialogue.to_client == sent


@pytest.mark.parametrize("version", [6, 7, 100, 32767])
def test_a_version_newer_than_relayed_gets_a_local_response_like_a_brokers(version: int) -> None:
    dialogue = Dialogue().client(request(18, version, 5, b"whatever the future has"))
    assert dialogue.to_broker == b""
    correlation_id, got = oracle.read_response(18, 0, dialogue.to_client)
    assert (correlation_id, got.error_code) == (5, UNSUPPORTED_VERSION)
    assert ranges(got) == {18: (0, 5)}


def test_a_local_response_is_sent_in_request_order() -> None:
    dialogue = Dialogue().client(HEARTBEAT, request(18, 6, 5, b"x"), HEARTBEAT, request(18, 6, 6, b"x"))
    assert (dialogue.to_broker, dialogue.to_client) == (HEARTBEAT * 2, b"")
    dialogue.broker(response(77, bytes(50))[:20])
    assert dialogue.to_client == response(77, bytes(50))[:20]
    dialogue.broker(response(77, bytes(50))[20:])
    assert [frame[4:8] for frame in frames_of(dialogue.to_client)] == [b"\0\0\0M", b"\0\0\0\5"]
    dialogue.broker(response(77))
    assert [frame[7] for frame in frames_of(dialogue.to_client)] == [77, 5, 77, 6]
    assert (dialogue.session.in_flight, dialogue.session.due) == (0, 0)


def test_a_local_response_is_sent_after_an_earlier_rewritten_one() -> None:
    brokers = [{"node_id": 1, "host": "broker-1.internal", "port": 9092}]
    metadata = oracle.response_frame(oracle.response(3, 12, brokers=brokers), 1)
    dialogue = Dialogue().client(oracle.request_frame(oracle.request(3, 12), 1) + request(18, 9, 5, b"x"))
    for at in range(len(metadata)):
        assert dialogue.to_client == b""
        dialogue.broker(metadata[at : at + 1])
    assert [frame[7] for frame in frames_of(dialogue.to_client)] == [1, 5]


def test_a_client_that_falls_back_to_an_older_version_is_served() -> None:
    dialogue = Dialogue().client(request(18, 6, 0, b"x"))
    falls_back_to = max(newest for _, newest in ranges(oracle.read_response(18, 0, dialogue.to_client)[1]).values())
    assert falls_back_to == 5
    named = asked_of_a_node(correlation_id=1)
    dialogue.client(named)
    assert dialogue.to_broker == named
    assert dialogue.session.client_software == "kio 1"


def test_what_a_client_believes_to_be_connected_to_reaches_the_broker_and_its_answer_the_client() -> None:
    refused = encode_response(ApiVersionsResponse(error_code=REBOOTSTRAP_REQUIRED), 5, 1)
    dialogue = Dialogue().client(asked_of_a_node(1)).broker(refused)
    assert (dialogue.to_broker, dialogue.to_client) == (asked_of_a_node(1), refused)
    answer = ApiVersionsResponse(api_keys=(ApiVersion(api_key=18, max_version=9), ApiVersion(api_key=999)))
    dialogue = Dialogue().client(asked_of_a_node(1)).broker(encode_response(answer, 5, 1))
    got = decode_response(ApiVersionsResponse, dialogue.to_client, 5).message
    assert got.api_keys == (ApiVersion(api_key=18, max_version=5),)


def test_an_older_broker_names_its_versions_to_a_client_that_names_a_node() -> None:
    sent = oracle.response_frame(oracle.response(18, 0, error_code=UNSUPPORTED_VERSION, api_keys=[api(18, 0, 4)]), 1)
    assert Dialogue().client(asked_of_a_node(1)).broker(sent).to_client == sent
