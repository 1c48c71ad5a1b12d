"""The kind of plug-in that auditors are: built-ins, entry points, base classes and methods."""

from __future__ import annotations

from kafka_sidecar.audit.abstract import AbstractAuditor
from kafka_sidecar.audit.contract import Auditor, BatchAuditor
from kafka_sidecar.plugins.registry import Kind, hooks_of

AUDITORS = Kind(
    "auditor",
    Auditor,
    "kafka_sidecar.auditors",
    {
        "events": "kafka_sidecar.audit.event_auditor:EventAuditor",
        "logging": "kafka_sidecar.audit.logging_auditor:LoggingAuditor",
    },
    "acme.auditors:Ledger",
    hooks_of(AbstractAuditor) | hooks_of(BatchAuditor) | hooks_of(Auditor),
)
