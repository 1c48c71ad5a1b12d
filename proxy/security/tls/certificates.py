"""Dates of X.509 certificates: the few bytes of DER that say how long one is valid (RFC 5280, 4.1)."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_sidecar.proxy.security.tls.der import elements, validity_and_subject

UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
TIME_FORMATS = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


def not_after(certificate: bytes) -> float:
    """When a DER certificate expires, in seconds since 1970. Raises ValueError if it is no certificate."""
    validity, _ = validity_and_subject(certificate)
    times = list(elements(certificate, validity))  # notBefore, notAfter
    if len(times) < 2 or times[1].tag not in TIME_FORMATS:
        raise ValueError("not an X.509 certificate")
    _, _, start, end = times[1]
    text = certificate[start:end].decode("ascii")
    return datetime.strptime(text, TIME_FORMATS[times[1].tag]).replace(tzinfo=UTC).timestamp()
