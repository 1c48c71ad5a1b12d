"""The kind of plug-in that interceptors are: built-ins, entry points, base classes and hooks."""

from __future__ import annotations

from kafka_sidecar.interceptors.contract import (
    AcknowledgesBatches,
    ConsumerInterceptor,
    ConsumesBatches,
    Interceptor,
    ProducerInterceptor,
    SendsBatches,
)
from kafka_sidecar.plugins.registry import Kind, hooks_of

INTERCEPTORS = Kind(
    "interceptor",
    Interceptor,
    "kafka_sidecar.interceptors",
    {
        "add_header": "kafka_sidecar.interceptors.builtin.add_header:AddHeader",
        "commit_metadata": "kafka_sidecar.interceptors.builtin.commit_metadata:CommitMetadata",
        "counting": "kafka_sidecar.interceptors.builtin.counting:Counting",
        "create_timestamp": "kafka_sidecar.interceptors.builtin.create_timestamp:CreateTimestamp",
        "latency": "kafka_sidecar.interceptors.builtin.latency:Latency",
        "mask_fields": "kafka_sidecar.interceptors.builtin.mask_fields:MaskFields",
        "remove_header": "kafka_sidecar.interceptors.builtin.remove_header:RemoveHeader",
        "skip_identical_commits": "kafka_sidecar.interceptors.builtin.skip_identical_commits:SkipIdenticalCommits",
        "trace_context": "kafka_sidecar.interceptors.builtin.trace_context:TraceContext",
    },
    "acme.interceptors:Tenant",
    hooks_of(Interceptor)
    | hooks_of(ProducerInterceptor, SendsBatches, AcknowledgesBatches)
    | hooks_of(ConsumerInterceptor, ConsumesBatches),
)
