"""on_send: every record says whose it is, without the application's help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_sidecar.interceptors.contract import ProducerInterceptor
from kafka_sidecar.interceptors.records import ProducerRecord


class Tenant(ProducerInterceptor):
    """Adds the header "tenant": that of the client's id."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.tenants = {client_id: tenant.encode() for client_id, tenant in configs["tenants"].items()}

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        tenant = self.tenants.get(record.context.client_id or "")
        if tenant is not None:
            record.headers.remove("tenant")  # what the application says of itself does not count
            record.headers.add("tenant", tenant)
        return record
