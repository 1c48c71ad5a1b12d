"""on_send: every record gets a header with its tenant, without a change of the application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_sidecar.interceptors.contract import ProducerInterceptor
from kafka_sidecar.interceptors.records import ProducerRecord


class Tenant(ProducerInterceptor):
    """Adds the header "tenant", by client id."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.tenants = {client_id: tenant.encode() for client_id, tenant in configs["tenants"].items()}

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        tenant = self.tenants.get(record.context.client_id or "")
        if tenant is not None:
            record.headers.remove("tenant")  # the application must not set it itself
            record.headers.add("tenant", tenant)
        return record
