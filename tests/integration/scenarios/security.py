"""How clients connect and log in, in the words of each library."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.sasl import MODULES


@dataclass(frozen=True, slots=True)
class Login:
    """With PLAIN or SCRAM."""

    mechanism: str
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Security:
    """A client's CA and its own certificate, as files, and its login; None: without."""

    ca: Path | None = None
    own: tuple[Path, Path] | None = None
    login: Login | None = None

    @property
    def protocol(self) -> str:
        transport = "PLAINTEXT" if self.ca is None else "SSL"
        return transport if self.login is None else f"SASL_{transport}"

    @property
    def context(self) -> ssl.SSLContext | None:
        if self.ca is None:
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.own is not None:
            context.load_cert_chain(*self.own)
        return context

    @property
    def java(self) -> dict[str, str]:
        found = {"security.protocol": self.protocol}
        if self.ca is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if self.own is not None:
            both = self.own[0].with_suffix(".both")
            if not both.exists():  # clients of other threads may read it
                part = both.with_suffix(f".part{threading.get_ident()}")
                part.write_text(self.own[1].read_text() + self.own[0].read_text())
                part.replace(both)
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
        if (login := self.login) is not None:
            jaas = f'{MODULES[login.mechanism]} username="{login.user}" password="{login.password}";'
            found |= {"sasl.mechanism": login.mechanism, "sasl.jaas.config": jaas}
        return found

    @property
    def librdkafka(self) -> dict[str, Any]:
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if self.ca is not None:
            found["ssl.ca.location"] = str(self.ca)
        if self.own is not None:
            found |= {"ssl.certificate.location": str(self.own[0]), "ssl.key.location": str(self.own[1])}
        if (login := self.login) is not None:
            found |= {
                "sasl.mechanism": login.mechanism, "sasl.username": login.user, "sasl.password": login.password,
            }  # fmt: skip
        return found

    @property
    def python(self) -> dict[str, Any]:
        """For aiokafka and kafka-python, which share their words."""
        found: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.context}
        if (login := self.login) is not None:
            found |= {
                "sasl_mechanism": login.mechanism, "sasl_plain_username": login.user,
                "sasl_plain_password": login.password,
            }  # fmt: skip
        return found


PLAINTEXT = Security()


def properties_file(folder: Path, settings: Mapping[str, str]) -> Path:
    """Settings for Kafka's tools."""
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
