"""Dates of X.509 certificates: the few bytes of DER that say how long one is valid (RFC 5280, 4.1)."""

from __future__ import annotations

from datetime import UTC, datetime

SEQUENCE, EXPLICIT_VERSION, UTC_TIME, GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
TIME_FORMATS = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


def not_after(certificate: bytes) -> float:
    """When a DER certificate expires, in seconds since 1970. Raises ValueError if it is no certificate."""
    # Certificate      SEQUENCE of tbsCertificate, signatureAlgorithm, signatureValue
    # TBSCertificate   SEQUENCE of [0] version, serialNumber, signature, issuer, validity, ...
    # Validity         SEQUENCE of notBefore, notAfter
    try:
        _, at, _ = _element(certificate, 0)
        _, at, _ = _element(certificate, at)
        tag, _, end = _element(certificate, at)
        if tag == EXPLICIT_VERSION:
            at = end
        for _ in range(3):
            at = _element(certificate, at)[2]
        _, at, _ = _element(certificate, at, SEQUENCE)
        at = _element(certificate, at)[2]
        tag, start, end = _element(certificate, at)
        return (
            datetime.strptime(certificate[start:end].decode("ascii"), TIME_FORMATS[tag]).replace(tzinfo=UTC).timestamp()
        )
    except (IndexError, KeyError) as error:
        raise ValueError("not an X.509 certificate") from error


def _element(data: bytes, at: int, expected: int | None = None) -> tuple[int, int, int]:
    """The element at a position: its tag, and where its contents begin and end."""
    tag, length, start = data[at], data[at + 1], at + 2
    if length & 0x80:  # the length has a length
        start += length & 0x7F
        length = int.from_bytes(data[at + 2 : start], "big")
    if start + length > len(data) or expected not in (None, tag):
        raise ValueError("not an X.509 certificate")
    return tag, start, start + length
