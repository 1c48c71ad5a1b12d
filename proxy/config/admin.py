"""The section of the admin port."""

from __future__ import annotations

from pydantic import Field

from kafka_sidecar.proxy.config.sections import Section
from kafka_sidecar.proxy.config.tls import AdminTls, File
from kafka_sidecar.proxy.config.types import BindableAddress


class Admin(Section):
    listen: BindableAddress | None = None
    """Address of metrics, probes and pages for operators. Default: 127.0.0.1:9190, or a free port if it is in use."""
    allowed_hosts: list[str] = Field(default_factory=list)
    """Further names by which they may be requested, with `*` and `?`."""
    tls: AdminTls = Field(default_factory=AdminTls)
    """TLS of the admin port: with `certificate` it accepts nothing else."""
    token_file: File | None = None
    """File with a token that requests need, but for `/livez` and `/readyz`: `Authorization: Bearer TOKEN`."""
