"""The sections of who connects: clients to the sidecar, the sidecar to brokers, operators to the admin port."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from kafka_sidecar.proxy.config.sasl import BrokerSasl, ClientSasl, PrincipalLogin
from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.tls import AdminTls, BrokerTls, ClientTls, File
from kafka_sidecar.proxy.config.types import BindableAddress


class Clients(Section):
    tls: ClientTls = Field(default_factory=ClientTls)
    sasl: ClientSasl = Field(default_factory=ClientSasl)

    @property
    def uses_tls(self) -> bool:
        return self.tls.is_used


class Brokers(Section):
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How brokers are connected to; with `SASL_*` the sidecar logs in. Kafka: `security.protocol`."""
    tls: BrokerTls = Field(default_factory=BrokerTls)
    sasl: BrokerSasl = Field(default_factory=BrokerSasl)
    logins: list[PrincipalLogin] = []  # noqa: RUF012 - pydantic copies it
    """Users of the brokers for clients that the sidecar knows; all others are the user of `sasl`."""

    @model_validator(mode="after")
    def _check_protocol(self) -> Brokers:
        if self.sasl.mechanism is not None and not self.uses_sasl:
            raise ValueError(
                "sasl is set, but not used: set security_protocol to SASL_PLAINTEXT or SASL_SSL, or remove sasl"
            )
        if self.sasl.mechanism is None and self.uses_sasl:
            without = self.security_protocol.replace("SASL_PLAINTEXT", "PLAINTEXT").removeprefix("SASL_")
            raise ValueError(
                f"security_protocol is {self.security_protocol}, but sasl is not set: set sasl.mechanism and its "
                f"credentials, or write {without} where clients log in themselves"
            )
        if self.logins and not self.uses_sasl:
            raise ValueError(
                "logins is set, but not used: set security_protocol to SASL_PLAINTEXT or SASL_SSL, and sasl to the "
                "sidecar's own login, or remove logins"
            )
        return self

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether the sidecar logs in."""
        return self.security_protocol.startswith("SASL")


class Admin(Section):
    listen: BindableAddress | None = None
    """Address of metrics, probes and pages for operators. Default: 127.0.0.1:9190, or a free port if it is in use."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Further names by which they may be requested, with `*` and `?`."""
    tls: AdminTls = Field(default_factory=AdminTls)
    """TLS of the admin port: with `certificate` it accepts nothing else."""
    token_file: File | None = None
    """File with a token that requests need, but for `/livez` and `/readyz`: `Authorization: Bearer TOKEN`."""
