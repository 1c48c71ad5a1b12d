"""The kind of plug-in that policies are: built-ins, entry points, base class and hooks."""

from __future__ import annotations

from kafka_sidecar.plugins.registry import Kind, hooks_of
from kafka_sidecar.policies.contract import BatchPolicy, HeaderPolicy, RecordValidationPolicy

POLICIES = Kind(
    "policy",
    RecordValidationPolicy,
    "kafka_sidecar.policies",
    {
        "avro": "kafka_sidecar.policies.builtin.avro:Avro",
        "cel": "kafka_sidecar.policies.builtin.cel:Cel",
        "headers": "kafka_sidecar.policies.builtin.headers:Headers",
        "json": "kafka_sidecar.policies.builtin.json:WellFormedJson",
        "json_schema": "kafka_sidecar.policies.builtin.json_schema:JsonSchemaPolicy",
        "jws": "kafka_sidecar.policies.builtin.jws:Jws",
        "key": "kafka_sidecar.policies.builtin.key:Key",
        "limits": "kafka_sidecar.policies.builtin.limits:Limits",
        "protobuf": "kafka_sidecar.policies.builtin.protobuf:Protobuf",
        "require_header": "kafka_sidecar.policies.builtin.require_header:RequireHeader",
        "schema": "kafka_sidecar.policies.builtin.schema:SchemaPolicy",
        "timestamp": "kafka_sidecar.policies.builtin.timestamp:Timestamp",
    },
    "acme.policies:Orders",
    hooks_of(RecordValidationPolicy, BatchPolicy, HeaderPolicy),
)
