"""on_consume: the readers of a tenant get only its own records, and no internal headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, Hints
from kafka_sidecar.interceptors.records import ConsumerRecord, ConsumerRecords


class OwnRecords(ConsumerInterceptor):
    """Removes records of other tenants, and the header "internal"; clients without a tenant get everything."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.tenants = {client_id: tenant.encode() for client_id, tenant in configs["tenants"].items()}

    def hints(self) -> Hints:
        return Hints(fail_closed=True)  # it hides records: consumers must not get batches that it cannot read

    def on_consume(self, records: ConsumerRecords) -> list[ConsumerRecord]:
        reader = self.tenants.get(records.context.client_id or "")
        if reader is None:
            return list(records)
        own = [record for record in records if owner(record) == reader]
        for record in own:
            record.headers.remove("internal")
        return own


def owner(record: ConsumerRecord) -> bytes | None:
    header = record.headers.last_header("tenant")
    return header.value if header is not None else None
