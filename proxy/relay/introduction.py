"""Who a client says it is, in the header of its requests and in ApiVersions."""

from __future__ import annotations

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.routes import NEWEST_API_VERSIONS, PrefixMemo

HEADER_AT = 4  # after the length of a frame
WITH_SOFTWARE = range(3, NEWEST_API_VERSIONS + 1)  # ApiVersions: the client's software name and version (KIP-511)


class Identity:
    """Who a client is, as far as it has said so. `tap_state` is None again after a change, `memo` empty."""

    __slots__ = ("_client_id", "_principal", "memo", "tap_state")

    def __init__(self) -> None:
        self.memo = PrefixMemo()
        self._client_id: str | None = None
        self._principal: str | None = None
        self.tap_state: object | None = None

    @property
    def client_id(self) -> str | None:
        return self._client_id

    @client_id.setter
    def client_id(self, client_id: str | None) -> None:
        if client_id != self._client_id:
            self._client_id, self.tap_state = client_id, None

    @property
    def principal(self) -> str | None:
        return self._principal

    @principal.setter
    def principal(self, principal: str | None) -> None:
        if principal != self._principal:
            self._principal, self.tap_state = principal, None
            self.memo.clear()  # what a principal may do is remembered there


def introduce(client: Client, frame: bytes) -> None:
    """Remember who the client says it is; what is cut off by a chunk's end or unreadable stays unknown."""
    try:
        client.client_id = client_id_of(frame)
        client.client_software = software_of(frame) or client.client_software
    except CodecError:
        return


def client_id_of(frame: bytes) -> str | None:
    """The client id of a request. Raises CodecError."""
    return decode_request_header(frame, HEADER_AT)[0].client_id


def software_of(frame: bytes) -> str | None:
    """Name and version of the client's software, if the request is an ApiVersions that has them. Raises CodecError."""
    header, at = decode_request_header(frame, HEADER_AT)
    if header.api_key != ApiKey.API_VERSIONS or header.api_version not in WITH_SOFTWARE:
        return None
    request, _ = decode(ApiVersionsRequest, frame, header.api_version, at)
    return f"{request.client_software_name} {request.client_software_version}"
