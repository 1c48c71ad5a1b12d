"""Who a client says it is, in the header of its requests and in ApiVersions; what it is if that is not Kafka."""

from __future__ import annotations

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.headers import decode_request_header
from kafka_sidecar.codec.message import decode
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest
from kafka_sidecar.proxy.relay.exchange import Client, RouteError
from kafka_sidecar.proxy.relay.routes import NEWEST_API_VERSIONS

HEADER_AT = 4  # after the length of a frame
WITH_SOFTWARE = range(3, NEWEST_API_VERSIONS + 1)  # ApiVersions: the client's software name and version (KIP-511)

MAX_SOFTWARE_CHARS = 512  # of what is kept with each connection


def introduce(client: Client, frame: bytes) -> None:
    """Remember who the client says it is; what is cut off by a chunk's end or unreadable stays unknown."""
    try:
        client.client_id = client_id_of(frame)
        software = software_of(frame)
        client.client_software = software[:MAX_SOFTWARE_CHARS] if software else client.client_software
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


MIN_REQUEST_BYTES = 8  # after the length: API, version, correlation id

# First bytes of a connection -> what speaks like that and what to do about it.
_OPENINGS = (
    (
        b"\x16\x03",
        "a TLS handshake came to a listener without TLS: set clients.tls, or the client's security.protocol=PLAINTEXT",
    ),
    (b"\x15\x03", "a TLS alert: the broker expects TLS at this port: set brokers.security_protocol to SSL"),
    (b"GET ", "an HTTP request came to a Kafka listener: /metrics and the health checks are at the admin port"),
    (b"HEAD ", "an HTTP request came to a Kafka listener"),
    (b"POST ", "an HTTP request came to a Kafka listener"),
    (b"PUT ", "an HTTP request came to a Kafka listener"),
    (b"OPTIONS ", "an HTTP request came to a Kafka listener"),
    (b"PRI * HTTP/2", "an HTTP/2 request came to a Kafka listener"),
    (b"HTTP/", "an HTTP answer: this is not a broker's Kafka listener"),
    (b"PROXY ", "a PROXY protocol header, which is not supported: switch it off in the load balancer"),
    (
        b"\r\n\r\n\x00\r\nQUIT\n",
        "a PROXY protocol (version 2) header, which is not supported: switch it off in the load balancer",
    ),
    (b"SSH-", "an SSH client"),
)


def diagnose(data: bytes) -> str | None:
    """A sentence if ``data`` begins like another protocol, else None.

    >>> diagnose(b"SSH-2.0-OpenSSH_9.2")
    'not Kafka: an SSH client'
    >>> diagnose(bytes.fromhex("00000012001200040000")) is None
    True
    """
    if len(data) < 2:
        return None
    for opening, sentence in _OPENINGS:
        if data[: len(opening)] == opening[: len(data)]:
            return f"not Kafka: {sentence}"
    return None


def check_length(length: int, max_frame: int) -> None:
    """Raises RouteError for a request that is longer than ``connections.max_frame``, or shorter than any."""
    if length > max_frame:
        raise RouteError("frame_too_large", f"a request of {length} bytes is over connections.max_frame ({max_frame})")
    if length < MIN_REQUEST_BYTES:
        raise RouteError("not_kafka", f"a request cannot be {length} bytes long")
