"""A replay as plain values."""

from __future__ import annotations

from support.in_process import config

from kafka_sidecar.pipeline.replay.job import SCHEMA, Job, Row

TOPICS = [{"name": "orders", "policy": "json", "mode": "shadow"}, {"name": "*", "policy": "key"}]


def test_the_policies_are_those_of_the_configuration_unless_one_is_given() -> None:
    settings = config("a:1", topics=TOPICS)
    assert [(rule.name, rule.policy) for rule in Job(settings).topic_rules()] == [("orders", "json"), ("*", "key")]
    assert [(rule.name, rule.policy) for rule in Job(settings, "limits").topic_rules()] == [("*", "limits")]


def test_each_job_has_an_id_of_its_own() -> None:
    assert Job(config("a:1")).id != Job(config("a:1")).id


def test_a_row_has_the_columns_of_its_schema() -> None:
    assert [column.split()[0] for column in SCHEMA.split(", ")] == list(Row._fields)
