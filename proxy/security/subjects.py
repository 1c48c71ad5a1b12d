"""The subject of a client's certificate, as Kafka names the principal of such a client (RFC 2253)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_SPECIAL = re.compile(r'([,+"\\<>;]|^[# ]| $)')


def subject_of(certificate: Mapping[str, Any] | None) -> str | None:
    r"""The distinguished name in what `ssl.SSLSocket.getpeercert` returns; None without a verified certificate.

    >>> subject_of({"subject": ((("countryName", "SE"),), (("commonName", "orders, eu"),))})
    'CN=orders\\, eu,C=SE'
    """
    if not certificate:
        return None
    names = ("+".join(f"{SHORT.get(kind, kind)}={_SPECIAL.sub(_escaped, text)}" for kind, text in one)
             for one in reversed(certificate["subject"]))  # fmt: skip
    return ",".join(names)


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
