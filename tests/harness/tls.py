"""Certificates and configurations of brokers and sidecars with TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.certificates import Authority, authority

BROKERS_CA, CLIENTS_CA = authority("Brokers CA"), authority("Clients CA")
PROTOCOLS = "SIDECAR:{},DIRECT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"


def ssl_listener(folder: Path, client_auth: str = "none") -> dict[str, object]:
    """Properties of brokers whose listener for sidecars has TLS; clients' certificates are from their own CA."""
    keystore = BROKERS_CA.issue("broker").write_both(folder, "broker")
    trusted = CLIENTS_CA.write(folder, "clients-ca")
    at = "listener.name.sidecar.ssl."
    return {
        "listener.security.protocol.map": PROTOCOLS.format("SSL"),
        f"{at}keystore.type": "PEM", f"{at}keystore.location": keystore,
        f"{at}truststore.type": "PEM", f"{at}truststore.location": trusted,
        f"{at}client.auth": client_auth,
    }  # fmt: skip


def to_brokers(folder: Path, ca: Authority = BROKERS_CA, own: str | None = None, **more: Any) -> dict[str, Any]:
    """The section of a sidecar that connects to brokers with TLS; ``own``: the name in its certificate."""
    tls: dict[str, Any] = {"ca": str(ca.write(folder, "brokers-ca")), **more}
    if own is not None:
        chain, key = CLIENTS_CA.issue(own).write(folder, own)
        tls |= {"certificate": str(chain), "key": str(key)}
    return {"brokers": {"security_protocol": "SSL", "tls": tls}}


def from_clients(folder: Path, **more: Any) -> dict[str, Any]:
    """The section of a sidecar whose listeners have TLS."""
    chain, key = CLIENTS_CA.issue("sidecar").write(folder, "sidecar")
    tls = {"certificate": str(chain), "key": str(key), "ca": str(CLIENTS_CA.write(folder, "clients-ca")), **more}
    return {"clients": {"tls": tls}}
