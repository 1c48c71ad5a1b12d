"""What the taps of all APIs share: one auditor for all connections of a process."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka_sidecar.audit.contract import BatchAuditor
from kafka_sidecar.proxy.auditing.groups import Groups
from kafka_sidecar.proxy.auditing.stats import AuditingStats
from kafka_sidecar.proxy.auditing.topics import AuditedTopics


class Counting:
    """How taps call the auditor."""

    def __init__(
        self,
        auditor: BatchAuditor,
        name_of: Callable[[bytes], str | None],
        is_audited: Callable[[str], bool],
        request_name: Callable[[bytes, Callable[[], None]], None],
        *,
        bucket_ms: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """
        Args:
            auditor: is called for each batch.
            name_of: the name of a topic id, if it is known.
            is_audited: whether a topic is not excluded. The audit topic must be.
            request_name: begins to request the name of an id, and calls back when that has ended, in any way.
            bucket_ms: the auditor's buckets of event time: fetched batches that follow each other in one bucket, with
                the same latency within 2 %, are one call. 0: one call for each.
            clock: seconds since 1970.
        """
        self.stats = AuditingStats()
        self.topics = AuditedTopics(name_of, is_audited, request_name, self.stats)
        self.groups = Groups(clock)
        self.bucket_ms = bucket_ms
        self.clock = clock
        self.produced, self.delivered, self.committed = auditor.produced, auditor.delivered, auditor.committed
