"""Certificates as far as the sidecar reads them, from their DER (X.690), without a library for all of ASN.1.

Read are the dates between which one is valid (RFC 5280, 4.1), and a client's subject as Java names it
(`X500Principal.getName`, RFC 2253), and with it Kafka. Kinds of names that RFC 2253 has no keyword for, such as e-mail
addresses, are numbers with the bytes of their value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import NamedTuple

SEQUENCE, SET, OBJECT_IDENTIFIER, EXPLICIT_VERSION = 0x30, 0x31, 0x06, 0xA0
BOOLEAN = 0x01
UTC_TIME, GENERALIZED_TIME = 0x17, 0x18
TIME_FORMATS = {UTC_TIME: "%y%m%d%H%M%SZ", GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}


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


def not_after(certificate: bytes) -> float:
    """When a DER certificate expires, in seconds since 1970. Raises ValueError if it is no certificate."""
    validity, _ = validity_and_subject(certificate)
    times = list(elements(certificate, validity))  # notBefore, notAfter
    if len(times) < 2 or times[1].tag not in TIME_FORMATS:
        raise ValueError("not an X.509 certificate")
    _, _, start, end = times[1]
    text = certificate[start:end].decode("ascii")
    return datetime.strptime(text, TIME_FORMATS[times[1].tag]).replace(tzinfo=UTC).timestamp()


KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# Printable, T61, IA5, General, BMP and UTF8String; Java reads all of them as UTF-8.
_TEXTS = frozenset({0x13, 0x14, 0x16, 0x1B, 0x1E, 0x0C})
_SPECIAL = re.compile(r'([,=+<>#;"\\]|^ +| +$)')


def subject_of(certificate: bytes | None) -> str | None:
    """The distinguished name in a DER certificate; None without one, or where it has none. Raises ValueError."""
    return name_of(certificate, validity_and_subject(certificate)[1]) or None if certificate else None


def name_of(data: bytes, name: Element) -> str:
    """An X.501 name, its last part first. Raises ValueError."""
    parts = [
        "+".join(_attribute(data, one) for one in elements(data, element(data, part.at, SET)))
        for part in elements(data, element(data, name.at, SEQUENCE))
    ]
    return ",".join(reversed(parts))


ALTERNATIVE_NAMES = bytes.fromhex("0603551d11")  # the object identifier 2.5.29.17
DNS_NAME, IP_ADDRESS = 0x82, 0x87


def names_of(certificate: bytes) -> list[str]:
    """The hosts and addresses that a certificate names as its subject's (RFC 5280, 4.2.1.6). Raises ValueError."""
    at = certificate.find(ALTERNATIVE_NAMES)
    if at < 0:
        return []
    value = element(certificate, at + len(ALTERNATIVE_NAMES))
    if value.tag == BOOLEAN:  # whether it is critical
        value = element(certificate, value.end)
    found = []
    for one in elements(certificate, element(certificate, value.start, SEQUENCE)):
        content = certificate[one.start : one.end]
        if one.tag == DNS_NAME:
            found.append(content.decode("ascii", "replace"))
        elif one.tag == IP_ADDRESS and len(content) in (4, 16):
            found.append(str(ip_address(content)))
    return found


def is_named(host: str, names: list[str]) -> bool:
    """Whether one of these is the host, as clients compare them.

    >>> is_named("a.example.com", ["*.example.com"]), is_named("a.b.example.com", ["*.example.com"])
    (True, False)
    """
    wanted = host.lower().strip("[]")
    _, dot, domain = wanted.partition(".")
    return any(name.lower() in (wanted, f"*{dot}{domain}" if dot else wanted) for name in names)


def _attribute(data: bytes, one: Element) -> str:
    kind, value = list(elements(data, element(data, one.at, SEQUENCE)))[:2]
    number = _number(data[kind.start : kind.end])
    if kind.tag != OBJECT_IDENTIFIER or not number:
        raise ValueError("not an X.509 certificate")
    if number not in KEYWORDS or value.tag not in _TEXTS:
        return f"{KEYWORDS.get(number, number)}=#{data[value.at : value.end].hex()}"
    text = data[value.start : value.end].decode(errors="replace")
    return f"{KEYWORDS[number]}={_SPECIAL.sub(_escaped, text)}".replace("\0", "\\00")


def _number(data: bytes) -> str:
    """An object identifier, as 2.5.4.3."""
    arcs, arc = [], 0
    for byte in data:
        arc = arc << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    if not arcs:
        return ""
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\{character}" for character in found[0])
