"""Where the classes of policies come from."""

from __future__ import annotations

from kafka_sidecar.plugins.loading import Kind
from kafka_sidecar.policies.contract import RecordValidationPolicy

POLICIES = Kind(
    "policy",
    RecordValidationPolicy,
    "kafka_sidecar.policies",
    {
        "cel": "kafka_sidecar.policies.cel:Cel",
        "headers": "kafka_sidecar.policies.headers:Headers",
        "json": "kafka_sidecar.policies.well_formed_json:WellFormedJson",
        "key": "kafka_sidecar.policies.key:Key",
        "limits": "kafka_sidecar.policies.limits:Limits",
        "require_header": "kafka_sidecar.policies.require_header:RequireHeader",
        "timestamp": "kafka_sidecar.policies.timestamp:Timestamp",
    },
    "acme.policies:Orders",
)
