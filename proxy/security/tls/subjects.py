"""The subject of a client's certificate as Java names it (`X500Principal.getName`, RFC 2253), and with it Kafka.

Kinds of names that RFC 2253 has no keyword for, such as e-mail addresses, are numbers with the bytes of their value.
"""

from __future__ import annotations

import re

from kafka_sidecar.proxy.security.tls.der import (
    OBJECT_IDENTIFIER,
    SEQUENCE,
    SET,
    Element,
    element,
    elements,
    validity_and_subject,
)

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
