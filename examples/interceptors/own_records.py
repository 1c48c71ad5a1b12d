"""on_consume: a tenant's readers get their own records, and no header that is none of their business."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords


class OwnRecords(ConsumerInterceptor):
    """Leaves out what belongs to other tenants; those who are no tenant's readers see everything."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.tenants = {client_id: tenant.encode() for client_id, tenant in configs["tenants"].items()}

    def hints(self) -> Hints:
        return Hints(fail_closed=True)  # it hides something: what it cannot look into is not shown

    def on_consume(self, records: ConsumerRecords) -> list[ConsumerRecord]:
        reader = self.tenants.get(records.context.client_id or "")
        if reader is None:
            return list(records)
        return [record for record in records if owner(record) == reader]


def owner(record: ConsumerRecord) -> bytes | None:
    header = record.headers.last_header("tenant")
    record.headers.remove("internal")
    return header.value if header is not None else None
