"""Elements of DER (X.690): what certificates are read with, without a library for all of ASN.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET, OBJECT_IDENTIFIER, EXPLICIT_VERSION = 0x30, 0x31, 0x06, 0xA0


class Element(NamedTuple):
    """An element in some bytes: its tag, where it begins, and where its contents begin and end."""

    tag: int
    at: int
    start: int
    end: int


def element(data: bytes, at: int, expected: int | None = None) -> Element:
    """The element at a position. Raises ValueError where there is none, or one of another tag."""
    try:
        tag, length, start = data[at], data[at + 1], at + 2
    except IndexError:
        raise ValueError("not an X.509 certificate") from None
    if length & 0x80:  # the length has a length
        start += length & 0x7F
        length = int.from_bytes(data[at + 2 : start], "big")
    if start + length > len(data) or expected not in (None, tag):
        raise ValueError("not an X.509 certificate")
    return Element(tag, at, start, start + length)


def elements(data: bytes, within: Element) -> Iterator[Element]:
    """Those that the contents of one consist of. Raises ValueError."""
    at = within.start
    while at < within.end:
        found = element(data, at)
        yield found
        at = found.end


def validity_and_subject(certificate: bytes) -> tuple[Element, Element]:
    """Two parts of a certificate (RFC 5280, 4.1). Raises ValueError."""
    # Certificate      SEQUENCE of tbsCertificate, signatureAlgorithm, signatureValue
    # TBSCertificate   SEQUENCE of [0] version, serialNumber, signature, issuer, validity, subject, ...
    signed = element(certificate, element(certificate, 0, SEQUENCE).start, SEQUENCE)
    parts = [one for one, _ in zip(elements(certificate, signed), range(6), strict=False)]
    if parts and parts[0].tag == EXPLICIT_VERSION:
        del parts[0]
    if len(parts) < 5 or {parts[3].tag, parts[4].tag} != {SEQUENCE}:
        raise ValueError("not an X.509 certificate")
    return parts[3], parts[4]
