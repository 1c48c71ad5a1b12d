"""Policies of every type over the same records, in a replay and in the proxy. None of it needs Spark."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.in_process import config
from support.pages import ROOT
from support.produce_requests import Validating, produce_request, read

from kafka_sidecar.pipeline.replay.job import Job, Outcome, Row
from kafka_sidecar.pipeline.replay.validation import find_applied, open_rules
from kafka_sidecar.policies.contract import WHOLE_BATCH, TopicMetadata
from kafka_sidecar.policies.plans import PolicyFailedError, Rejection
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.validation.stage import UNKNOWN, Origin
from kafka_sidecar.proxy.features.validation.stats import ValidationStats
from pipeline.records.logs import APPENDED_AT

VERSION = 9  # of Produce: with names of topics, and errors of records
POLICY_SETTINGS: dict[str, Any] = {
    "small": {
        "type": "limits",
        "max_record_bytes": 2000,
        "max_key_bytes": 100,
        "max_headers": 5,
        "max_header_bytes": 500,
    },
    "few": {"type": "limits", "max_records": 20},
    "recent": {"type": "timestamp", "before_max": "1h", "required": True},
    "web": {"type": "headers", "required": ["trace-id"], "values": {"source": "web|app"}},
    "unique": {"type": "json", "allow_null": False, "part": "both", "unique_keys": True},
    "items": {"type": "json_schema", "file": str(Path(__file__).with_name("items.json"))},
    "nothing": {"type": "avro", "file": str(Path(__file__).with_name("nothing.avsc")), "part": "key"},
    "message": {"type": "protobuf", "file": str(Path(__file__).with_name("message.proto"))},
    "identified": {"type": "schema", "require": "id"},
    "signed": {"type": "jws", "jwks_file": str(Path(__file__).with_name("keys.json"))},
    "stub": {"type": "support.policies:Stub", "class_path": str(ROOT / "tests"), "refused": "{broken"},
}  # fmt: skip
# By topic. Every built-in, in its forms; then several together, of which the first one is reported.
TOPIC_POLICIES = {
    "cel": 'cel:"size(key) < 10"', "headers": "web", "json": "json", "unique": "unique", "key": "key:order-[0-9]+",
    "few": "few", "small": "small", "require": "require_header:trace-id", "recent": "recent", "stub": "stub",
    "items": "items", "nothing": "nothing", "message": "message", "identified": "identified",
    "signed": "signed",
    "all": "few, small, web, recent, require_header:trace-id, json, key",
}  # fmt: skip
Found = Counter[tuple[str, int, int, str, str, int, str]]  # topic, batch offset, index, policy, reason, code, message


def settings() -> Config:
    topics = [{"name": topic, "policy": policy} for topic, policy in TOPIC_POLICIES.items()]
    return config("a:1", policies=POLICY_SETTINGS, topics=topics)


@dataclass
class Collected(ValidationStats):
    """What the proxy's stage reports of one request."""

    found: list[Rejection] = field(default_factory=list)

    def rejected(
        self, topic: TopicMetadata, rejections: list[Rejection], enforced: bool, origin: Origin = UNKNOWN
    ) -> str:
        self.found = rejections
        return ""

    def failed(self, topic: TopicMetadata, error: PolicyFailedError, enforced: bool, origin: Origin = UNKNOWN) -> str:
        text = f"the policy {error.policy} failed: {type(error.error).__name__}"
        self.found = [Rejection(WHOLE_BATCH, text, error.policy, "failed")]
        return ""


async def rejected_by_proxy(topics: Mapping[str, str], log: list[bytes]) -> Found:
    """What a proxy with these policies answers to a producer that sends each batch."""
    proxy = Validating()
    proxy.rules = open_rules(Job(settings()))
    proxy.max_record_errors = 10**6
    found: Found = Counter()
    for topic in topics:
        for rule in find_applied(proxy.rules, topic).plan.rules:
            if hasattr(rule.policy, "clock"):
                rule.policy.clock = lambda: APPENDED_AT / 1000
        for batch in log:
            proxy.stats = stats = Collected(lambda: 0.0)
            proxy.needs.clear()
            request = produce_request(VERSION, {topic: {0: batch}})
            driven = proxy.exchange(VERSION)
            step = await driven.finish(driven.request(request), proxy.perform)
            assert (step is request) == (not stats.found)
            if not stats.found:
                continue
            ((answer,),) = (one.partition_responses for one in read(VERSION, answered(step)).responses)
            indexes = [one.index for one in stats.found if one.index != WHOLE_BATCH]
            assert [one.batch_index for one in answer.record_errors] == indexes
            offset = struct.unpack_from(">q", batch)[0]
            for one in stats.found:
                code = int(answer.error_code)
                found[topic, offset, one.index, one.policy, one.reason, code, one.message] += 1
    return found


def answered(step: object) -> bytes:
    frame = getattr(step, "frame", step)
    assert isinstance(frame, bytes)
    return frame


def rejected_by_replay(rows: Iterable[Row]) -> Found:
    found: Found = Counter()
    for row in rows:
        if row.outcome == Outcome.REJECTED.value:
            index = WHOLE_BATCH if row.offset is None else row.offset - row.batch_offset
            assert row.policy is not None
            assert row.reason is not None
            assert row.message is not None
            found[row.topic, row.batch_offset, index, row.policy, row.reason, row.error_code, row.message] += 1
    return found
