"""The ways in which clients reach a sidecar, and a sidecar the brokers: columns of the compatibility tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import sasl
from harness.tls import BROKERS_CA, CLIENTS_CA, from_clients, ssl_listener, to_brokers
from integration.scenarios.security import PLAINTEXT, Login, Security

from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

Section = dict[str, Any]
MECHANISM = "SCRAM-SHA-512"
ALICE = Login(MECHANISM, "alice", "pw-of-alice")  # a user of the sidecar's own
APP = Login(MECHANISM, sasl.USER, sasl.PASSWORD)  # a user of the brokers
# Every client is a super user of the brokers, so that it may do what the plaintext columns do.
_SUPER_USERS = {"super.users": f"User:ANONYMOUS;User:{sasl.USER};User:CN=sidecar"}


@dataclass(frozen=True, slots=True)
class Front:
    """Broker properties, the sidecar's configuration and the client's settings; each may write files."""

    name: str  # the column
    about: str
    brokers: Callable[[Path], dict[str, object]] = lambda _: {}
    sidecar: Callable[[Path], Section] = lambda _: {}
    client: Callable[[Path], Security] = lambda _: PLAINTEXT

    def __str__(self) -> str:
        return self.name


def _tls_brokers(folder: Path) -> dict[str, object]:
    return {**ssl_listener(folder, "required"), **_SUPER_USERS}


def _sasl_ssl_brokers(folder: Path) -> dict[str, object]:
    return {**ssl_listener(folder), **sasl.sasl_properties("SASL_SSL"), **_SUPER_USERS}


def _logs_in(folder: Path) -> Section:
    """The section of a sidecar that logs in to the brokers."""
    (folder / "password").write_text(sasl.PASSWORD)
    login = {"mechanism": MECHANISM, "username": sasl.USER, "password_file": str(folder / "password")}
    return {"brokers": {"security_protocol": "SASL_SSL", "tls": _trusted_brokers(folder), "sasl": login}}


def _knows_users(folder: Path) -> Section:
    """The section of a sidecar to which clients log in."""
    verifier = create_verifier(MECHANISM, ALICE.password)
    (folder / "users").write_text(format_user(ALICE.user, MECHANISM, verifier))
    section = from_clients(folder)
    section["clients"]["sasl"] = {"mechanisms": [MECHANISM], "users_file": str(folder / "users")}
    return section


def _trusted_brokers(folder: Path) -> Section:
    return {"ca": str(BROKERS_CA.write(folder, "brokers-ca"))}


def _trusting(folder: Path, login: Login | None = None) -> Security:
    return Security(CLIENTS_CA.write(folder, "sidecar-ca"), login=login)


PLAIN = Front("plaintext", "")
SECURED = (
    Front(
        "TLS",
        "TLS on both sides, with client certificates on both",
        _tls_brokers,
        lambda folder: {**from_clients(folder, client_certificates="required"), **to_brokers(folder, own="sidecar")},
        lambda folder: Security(CLIENTS_CA.write(folder, "ca"), CLIENTS_CA.issue("app").write(folder, "app")),
    ),
    Front(
        "SASL_SSL",
        f"TLS on both sides; the client's login with {MECHANISM} is the brokers', passed through",
        _sasl_ssl_brokers,
        lambda folder: {
            **from_clients(folder),
            "brokers": {"security_protocol": "SSL", "tls": _trusted_brokers(folder)},
        },
        lambda folder: _trusting(folder, APP),
    ),
    Front(
        "sidecar logs in",
        f"the client speaks plaintext, the sidecar logs in to the brokers with SASL_SSL and {MECHANISM}",
        _sasl_ssl_brokers,
        _logs_in,
    ),
    Front(
        "both log in",
        f"the client logs in to the sidecar with SASL_SSL and {MECHANISM}, the sidecar to the brokers",
        _sasl_ssl_brokers,
        lambda folder: {**_knows_users(folder), **_logs_in(folder)},
        lambda folder: _trusting(folder, ALICE),
    ),
)
