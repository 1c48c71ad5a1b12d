"""The section ``audit``: names of li, what the auditor gets, and mistakes in one line."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.in_process import config

from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.logging_auditor import LoggingAuditor
from kafka_sidecar.proxy.config.loading import load
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.auditing.from_config import emitter_id, find_mistakes, open_auditor, writer
from kafka_sidecar.proxy.features.auditing.kafka_topic import KafkaTopic
from kafka_sidecar.proxy.features.compose import find_mistakes as of_features
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

LI = """\
auditor.class: {}
  auditor.reporting.interval.ms: 1000
  auditor.reporting.delay.ms: 100
  enable.auto.tick: false
  auditor.bucket.ms: 2000
"""


def from_file(folder: Path, section: str) -> Any:
    path = folder / "sidecar.yaml"
    path.write_text(f"bootstrap_servers: a:1\naudit:\n  {section}")
    return load(path, {}, {}, of_features)


def test_the_settings_of_li_have_the_names_of_li(tmp_path: Path) -> None:
    auditor: Any = open_auditor(from_file(tmp_path, LI.format("logging")))
    assert isinstance(auditor, LoggingAuditor)
    settings = auditor.settings
    assert (settings.interval_ms, settings.delay_ms, settings.auto_tick, settings.bucket_ms) == (1000, 100, False, 2000)


def test_variables_have_the_names_of_the_section() -> None:
    variables = {
        "KAFKA_SIDECAR__BOOTSTRAP_SERVERS": "a:1", "KAFKA_SIDECAR__AUDIT__TOPIC": "audit",
        "KAFKA_SIDECAR__AUDIT__AUDITOR_BUCKET_MS": "5000",
    }  # fmt: skip
    auditor: Any = open_auditor(load(None, variables, {}))
    assert isinstance(auditor, EventAuditor)
    assert auditor.settings.bucket_ms == 5000


def test_the_default_auditor_gets_labels_and_its_own_settings() -> None:
    labels = {"cluster": "c", "dc": "d", "app": "a"}
    configured = config("a:1", audit={"topic": "t", **labels, "settings": {"max_keys": 5}})
    auditor: Any = open_auditor(configured)
    settings = auditor.settings
    assert (settings.cluster, settings.dc, settings.app, settings.max_keys) == ("c", "d", "a", 5)
    assert settings.emitter_id == emitter_id(configured)
    assert emitter_id(configured).endswith(f"/{configured.listen}")
    assert emitter_id(config("a:1", audit={"emitter_id": "pod-1"})) == "pod-1"


def test_without_auditor_and_topic_nothing_is_audited() -> None:
    assert config("a:1").audit.type is None
    assert config("a:1", audit={"dc": "d"}).audit.type is None
    assert config("a:1", audit={"topic": "t"}).audit.type == "events"
    assert config("a:1", audit={"topic": "t", "auditor_class": "logging"}).audit.type == "logging"


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("auditor.class: events", "audit.topic: is missing: name the topic to which the events are sent"),
        ("auditor.class: loging", "unknown auditor 'loging': did you mean logging? set its type to module:Class"),
        ("{topic: t, settings: {max_key: 1}}", "audit.settings.max_key: is not a setting; did you mean max_keys?"),
        ("{topic: t, auditor.bucket.ms: 0}", "audit.auditor_bucket_ms: write 1 or more"),
        ("{topic: t, auditor.bucket.ms: 1, auditor_bucket_ms: 2}",
         "audit: auditor.bucket.ms is the same setting as auditor_bucket_ms; remove one of them"),
        ("{topic: t, auditor.buckets.ms: 1}", "audit.auditor.buckets.ms: is not a setting; did you mean"),
        ("topic: a/b", "audit.topic: write the name of a topic"),
        ("audited", "audit: must be a mapping of settings"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(section: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        open_auditor(from_file(tmp_path, section))
    (line,) = error.value.lines
    assert problem in line


def test_a_valid_section_has_no_mistakes() -> None:
    assert list(find_mistakes(config("a:1", audit={"topic": "t"}))) == []


async def test_the_topic_is_created_as_configured() -> None:
    topic = {"topic": "t", "partitions": 3, "cleanup_policy": "compact", "retention": "1d"}
    made = writer(config("a:1", audit=topic), BrokerAccess())()
    assert isinstance(made, KafkaTopic)
    assert (made._topic.name, made._topic.partitions, made._topic.replication_factor) == ("t", 3, -1)
    assert made._topic.configs == {"cleanup.policy": "compact", "retention.ms": "86400000"}
    assert logging.getLogger("aiokafka").level == logging.CRITICAL
