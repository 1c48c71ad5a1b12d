"""Topics of which brokers keep only the last record of each key: what a group has not got there may have been deleted.

The cluster that events are read from is asked for `cleanup.policy`; topics of other clusters, and of events in files,
are those that the configuration names.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from kafka_sidecar.pipeline.brokers import REACH_S, admin_of, reason
from kafka_sidecar.plugins.patterns import matcher

log = logging.getLogger(__name__)

MAX_AGE_S = 300.0
CLEANUP, COMPACT = "cleanup.policy", "compact"
ClusterTopic = tuple[str, str]
# Of topics: the id of their cluster, and the policy of each that it knows. Raises OSError.
Ask = Callable[[Collection[str]], tuple[str, Mapping[str, str]]]


@dataclass(slots=True)
class CompactedTopics:
    """Remembers what brokers have said, also of topics that have been deleted since."""

    patterns: Sequence[str] = ()
    ask: Ask | None = None
    clock: Callable[[], float] = time.monotonic  # seconds
    _known: set[ClusterTopic] = field(default_factory=set)
    _asked_at: dict[str, float] = field(default_factory=dict)

    def of(self, topics: Collection[ClusterTopic]) -> set[ClusterTopic]:
        """Those of these topics that are compacted."""
        self._learn({topic for _, topic in topics})
        is_named = matcher(self.patterns)
        named = {one for one in topics if is_named(one[1])}
        return named | self._known.intersection(topics)

    def _learn(self, names: set[str]) -> None:
        now = self.clock()
        due = sorted(name for name in names if now - self._asked_at.get(name, -MAX_AGE_S) >= MAX_AGE_S)
        if self.ask is None or not due:
            return
        try:
            cluster, policies = self.ask(due)
        except (OSError, Py4JError, TypeError) as error:
            log.warning("cleanup.policy of topics is not known: %s", error)
            return
        self._asked_at.update(dict.fromkeys(due, now))
        for name, policy in policies.items():
            # A sidecar that does not report its cluster is taken for one of this cluster.
            both = {(cluster, name), ("", name)}
            self._known = self._known | both if COMPACT in policy.split(",") else self._known - both


def cluster_policies(spark: SparkSession, servers: Sequence[str], kafka: Mapping[str, str]) -> Ask:
    """What asks brokers, with the client and settings of Spark's source."""

    def ask(names: Collection[str]) -> tuple[str, Mapping[str, str]]:
        java = spark.sparkContext._jvm
        assert java is not None
        kind = java.org.apache.kafka.common.config.ConfigResource.Type.TOPIC
        resources = {name: java.org.apache.kafka.common.config.ConfigResource(kind, name) for name in names}
        asked = java.java.util.ArrayList()
        for resource in resources.values():
            asked.add(resource)
        options = java.org.apache.kafka.clients.admin.DescribeConfigsOptions().timeoutMs(1000 * REACH_S)
        try:
            with admin_of(spark, servers, kafka) as admin:
                found = admin.describeConfigs(asked, options).values()
                cluster = admin.describeCluster().clusterId().get()
                policies = {name: _policy(found.get(resource)) for name, resource in resources.items()}
        except Py4JJavaError as error:
            raise OSError(reason(error)) from error
        return str(cluster), {name: policy for name, policy in policies.items() if policy is not None}

    return ask


def _policy(future: Any) -> str | None:
    """None: there is no such topic, or it may not be described."""
    try:
        return str(future.get().get(CLEANUP).value())
    except Py4JJavaError as error:
        log.info("%s of a topic is not known: %s", CLEANUP, reason(error))
        return None
