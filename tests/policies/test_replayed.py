"""Replays of all built-in policies, without Spark: `make spark` has the same with it, and with more records."""

from __future__ import annotations

import asyncio
from collections import Counter

from pipeline.records.logs import sent_batches, stored
from pipeline.replay.compared import (
    POLICY_SETTINGS,
    TOPIC_POLICIES,
    rejected_by_proxy,
    rejected_by_replay,
    settings,
)

from kafka_sidecar.codec.records import batches
from kafka_sidecar.pipeline.records.slices import Slice
from kafka_sidecar.pipeline.replay.job import Job
from kafka_sidecar.pipeline.replay.validation import Replay, find_applied, open_rules
from kafka_sidecar.policies.registry import POLICIES

RECORDS = 500


def test_replays_are_compared_for_all_built_in_policies() -> None:
    used = {one.partition(":")[0].strip() for text in TOPIC_POLICIES.values() for one in text.split(",")}
    assert set(POLICIES.built_in) <= used | {one["type"] for one in POLICY_SETTINGS.values()}


def test_each_policy_rejects_in_a_replay_what_it_rejects_in_the_proxy() -> None:
    log, job = stored(sent_batches(RECORDS)), Job(settings())
    rules, found = open_rules(job), batches(b"".join(log))
    ours = rejected_by_replay(
        row
        for topic in TOPIC_POLICIES
        for row in Replay(job, topic, find_applied(rules, topic)).rows(Slice(topic, 0, 0, RECORDS), found)
    )
    theirs = asyncio.run(rejected_by_proxy(TOPIC_POLICIES, log))
    assert ours - theirs == theirs - ours == Counter()
    assert {topic for topic, *_ in ours} == set(TOPIC_POLICIES)
    signed = {reason for topic, _, _, _, reason, *_ in ours if topic == "signed"}
    assert signed == {"no_signature", "wrong_signature", "malformed"}
    assert sum(topic == "signed" for topic, *_ in ours) < RECORDS
