"""The first bytes of a TLS connection (RFC 8446, 4.1.2 and 5.1), looked at before any cryptography is done for it."""

from __future__ import annotations

from kafka_sidecar.proxy.relay.introduction import diagnose

HEADER = 5  # of a record: type, version, length
HANDSHAKE, MAJOR_VERSION, CLIENT_HELLO = 0x16, 3, 1
MAX_RECORD_BYTES = 1 << 14


class NotTlsError(Exception):
    """The bytes begin no handshake; the text says what they look like."""


def bytes_needed(start: bytes) -> int:
    """How many bytes there must be before the handshake may begin: a ClientHello must have arrived whole.

    Its computation is what a handshake costs, so a client could otherwise have thousands of them begin at once.

    Raises:
        NotTlsError: it is no ClientHello, or one in several records.
    """
    if start[:1] != bytes([HANDSHAKE]) or start[1:2] not in (b"", bytes([MAJOR_VERSION])):
        raise NotTlsError(f"the client does not speak TLS: {_likely(start)}")
    if len(start) < HEADER + 4:
        return HEADER + 4
    record = int.from_bytes(start[3:HEADER], "big")
    message = int.from_bytes(start[HEADER + 1 : HEADER + 4], "big")
    if start[HEADER] != CLIENT_HELLO or record > MAX_RECORD_BYTES or record < message + 4:
        raise NotTlsError("the client's first TLS record is not a whole ClientHello")
    return HEADER + record


def _likely(start: bytes) -> str:
    found = diagnose(start)
    return found.removeprefix("not Kafka: ") if found else "set its security.protocol to SSL or SASL_SSL"
