"""Reasons of a failed connection: of a TLS handshake a short word for metrics; and a sentence with the remedy."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

CLOSED, TIMEOUT, OTHER = "closed", "timeout", "other"


@dataclass(frozen=True, slots=True)
class Failure:
    """``by_client``, ``by_broker``: what happened, seen from the sidecar, by the peer of the handshake."""

    reason: str  # a label value of kafka_sidecar_tls_handshake_failures_total
    by_client: str
    by_broker: str


_NOT_TLS = Failure(
    "not_tls",
    "the client does not speak TLS: set its security.protocol to SSL or SASL_SSL",
    "the broker does not speak TLS at this port: name its TLS listener, or set brokers.security_protocol to PLAINTEXT",
)
_NO_CERTIFICATE = Failure(
    "no_client_certificate",
    "the client presented no certificate (clients.tls.client_certificates: required): set its ssl.keystore.location",
    "the broker requires a client certificate of a CA that it trusts: set brokers.tls.certificate to one",
)
_NO_COMMON = Failure(
    "no_common_version",
    "the client supports no common TLS version or cipher suite: see clients.tls.protocols and clients.tls.ciphers",
    "the broker supports no common TLS version or cipher suite: see brokers.tls.protocols and brokers.tls.ciphers",
)
_REJECTED = Failure(
    "rejected_by_peer",
    "the client does not trust the certificate of clients.tls.certificate: give it the CA (ssl.truststore.location), "
    "and connect to a host that the certificate names",
    "the broker requires a client certificate of a CA that it trusts: set brokers.tls.certificate to one",
)
_PEER_EXPIRED = Failure(
    "rejected_by_peer",
    "the client says that the certificate of clients.tls.certificate has expired: renew it",
    "the broker says that the certificate of brokers.tls.certificate has expired: renew it",
)
_UNTRUSTED = Failure(
    "untrusted_certificate",
    "the client's certificate is not from a CA in clients.tls.ca: use another certificate, or add its CA",
    "the broker's certificate is not from a trusted CA: set brokers.tls.ca to the CA of the brokers",
)
_EXPIRED = Failure(
    "expired_certificate",
    "the client's certificate is not valid at this time: renew it, or correct the clock",
    "the broker's certificate is not valid at this time: renew it, or correct the clock",
)
_HOST = Failure(
    "wrong_hostname",
    "the client's certificate is for another host",
    "the broker's certificate is for another host: add this one to it, or connect by a name that it has",
)
_CLOSED = Failure(
    CLOSED,
    "the client closed the connection in the handshake; its log says why: it may not trust clients.tls.certificate",
    "the broker closed the connection in the handshake: does it speak TLS at this port?",
)
_TIMEOUT = Failure(
    TIMEOUT,
    "the client did not end the handshake in time (clients.tls.handshake_timeout)",
    "the broker did not end the handshake in time: does it speak TLS at this port?",
)
# By OpenSSL's reason.
_REASONS = {
    "BAD_RECORD_TYPE": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _NO_CERTIFICATE,
    "NO_PROTOCOLS_AVAILABLE": _NO_COMMON,
    "NO_SHARED_CIPHER": _NO_COMMON,
    "NO_SHARED_SIGNATURE_ALGORITHMS": _NO_COMMON,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": _NO_COMMON,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _NO_COMMON,
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": _NO_COMMON,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_COMMON,
    "UNSUPPORTED_PROTOCOL": _NO_COMMON,
    "VERSION_TOO_LOW": _NO_COMMON,
    "SSLV3_ALERT_BAD_CERTIFICATE": _REJECTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _REJECTED,
    "TLSV1_ALERT_ACCESS_DENIED": _REJECTED,
    "TLSV1_ALERT_DECRYPT_ERROR": _REJECTED,
    "TLSV1_ALERT_UNKNOWN_CA": _REJECTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _PEER_EXPIRED,
    "SSLV3_ALERT_CERTIFICATE_REVOKED": _REJECTED,
    "UNEXPECTED_EOF_WHILE_READING": _CLOSED,
}
# X.509's codes of verification (X509_V_ERR_*): not yet valid, expired, host and address.
_CODES = {9: _EXPIRED, 10: _EXPIRED, 62: _HOST, 64: _HOST}


def find(error: Exception) -> Failure | None:
    """What a failure of a handshake means; None where only OpenSSL's own words say."""
    match error:
        case ssl.SSLCertVerificationError():
            return _CODES.get(error.verify_code, _UNTRUSTED)
        case ssl.SSLEOFError() | ConnectionError():
            return _CLOSED
        case ssl.SSLError():
            return _REASONS.get(getattr(error, "reason", None) or "")
        case TimeoutError():
            return _TIMEOUT
    return None


def reason_of(error: Exception) -> str:
    """The label of a failure."""
    found = find(error)
    return found.reason if found is not None else OTHER


def explain_to(side: str, error: Exception) -> str:
    """The sentence for the log: of a handshake with a "client", or with a "broker"."""
    found = find(error)
    if found is None:
        return f"TLS failed: {getattr(error, 'reason', None) or error}"
    text = found.by_client if side == "client" else found.by_broker
    verified = getattr(error, "verify_message", "")
    return f"{text} ({verified})" if verified else text


def describe_failure(error: Exception) -> str:
    """What happened, without the address.

    >>> describe_failure(ConnectionRefusedError(111, "Connection refused"))
    'refused the connection'
    """
    match error:
        case ssl.SSLError():
            return explain_to("broker", error)
        case ConnectionRefusedError():
            return "refused the connection"
        case EOFError():
            return "closed the connection without a response"
        case TimeoutError():
            return "timed out"
        case OSError():
            return error.strerror or str(error)
        case _:
            return str(error)
