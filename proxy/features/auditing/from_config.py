"""From the section ``audit`` of the configuration to an auditor and its topic."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

from kafka_sidecar.audit.contract import Auditor
from kafka_sidecar.audit.event_auditor import EventAuditor
from kafka_sidecar.audit.registry import AUDITORS
from kafka_sidecar.plugins.settings import SettingsError
from kafka_sidecar.proxy.config.audit import EVENTS, LI_NAMES, Audit
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Location, Mistake, explain_plugin
from kafka_sidecar.proxy.features.auditing.sender import Writer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess

NOUN = "auditor audit"


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """What is wrong with the auditor and its settings."""
    try:
        _open(config)
    except ValueError as error:
        for mistake in explain_plugin(error, NOUN, ("audit",)):
            yield Mistake(_location(config.audit, mistake.location), mistake.text)


def open_auditor(config: Config) -> Auditor:
    """The configured auditor. Raises ConfigError."""
    try:
        return _open(config)
    except ValueError as error:
        raise config.error(list(find_mistakes(config))) from error


def emitter_id(config: Config) -> str:
    """Stable over restarts: a pod of a StatefulSet keeps its name, and so do a host and a worker."""
    return config.own_name(config.audit.emitter_id or f"{socket.gethostname()}/{config.listen}")


def writer(config: Config, access: BrokerAccess) -> Callable[[], Writer]:
    """What makes the writer of the audit topic."""
    assert config.audit.topic is not None  # see _open
    return topic_writer(config, config.audit.topic, access)


def topic_writer(config: Config, name: str, access: BrokerAccess) -> Callable[[], Writer]:
    """What makes the writer of a topic; aiokafka is imported by the first event, in a thread before."""

    def make() -> Writer:
        from kafka_sidecar.proxy.features.auditing.kafka_topic import AuditTopic, KafkaTopic

        audit = config.audit
        topic = AuditTopic(name, audit.partitions, audit.replication_factor, audit.topic_configs)
        return KafkaTopic(config.bootstrap_servers, topic, access)

    return make


def _open(config: Config) -> Auditor:
    audit = config.audit
    auditor, _ = AUDITORS.open("audit", audit.type or EVENTS, audit.class_path, _settings(config))
    if isinstance(auditor, EventAuditor) and audit.topic is None:
        raise SettingsError([(("topic",), "is missing: name the topic to which the events are sent")])
    return auditor


def _settings(config: Config) -> dict[str, Any]:
    """What `configure` gets: li's settings by li's names, and the auditor's own."""
    audit = config.audit
    settings = {li_name: getattr(audit, name) for name, li_name in LI_NAMES.items() if name != "auditor_class"}
    labels = {"emitter_id": emitter_id(config), "cluster": audit.cluster, "dc": audit.dc, "app": audit.app}
    return {**settings, **labels, **audit.settings}


def _location(audit: Audit, location: Location) -> Location:
    """Of a setting that the auditor rejects: its own ones are in ``audit.settings``."""
    section, *inside = location
    if inside and inside[0] in audit.settings:
        return (section, "settings", *inside)
    return location
