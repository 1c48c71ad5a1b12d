"""Which topics are audited, by name or by id; what is counted under an id before its name is known."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.proxy.features.auditing.stats import AuditingStats

MAX_KNOWN = 100_000
MAX_HELD = 10_000  # batches of topics whose names are being requested

Count = Callable[[str], None]  # calls the auditor with the topic's name


class AuditedTopics:
    """What is known of the topics that clients have named."""

    def __init__(
        self,
        name_of: Callable[[bytes], str | None],
        is_audited: Callable[[str], bool],
        request_name: Callable[[bytes, Callable[[], None]], None],
        stats: AuditingStats,
    ) -> None:
        """
        Args:
            name_of: the name of a topic id, if it is known.
            is_audited: whether a topic is not excluded.
            request_name: begins to request the name of an id, and calls back when that has ended, in any way.
        """
        self._name_of = name_of
        self._is_audited = is_audited
        self._request_name = request_name
        self._stats = stats
        self._known: dict[str | bytes, str | None] = {}
        self.get = self._known.get  # the name of an audited topic; None: excluded, or not looked up yet
        self._held: dict[bytes, list[Count]] = {}
        self._held_count = 0

    def find(self, key: str | bytes, count: Count) -> str | None:
        """The name of a topic; None: nothing is to be counted now. ``count`` is called later if the name comes late."""
        if key in self._known:
            return self._known[key]
        name = self._name_of(key) if isinstance(key, bytes) else key
        if name is None:
            assert isinstance(key, bytes)
            self._hold(key, count)
            return None
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        audited = name if self._is_audited(name) else None
        self._known[key] = audited
        return audited

    def _hold(self, topic_id: bytes, count: Count) -> None:
        if self._held_count >= MAX_HELD:
            self._stats.unnamed += 1
            return
        self._held_count += 1
        if topic_id in self._held:
            self._held[topic_id].append(count)
            return
        self._held[topic_id] = [count]
        self._request_name(topic_id, lambda: self._release(topic_id))

    def _release(self, topic_id: bytes) -> None:
        counts = self._held.pop(topic_id, [])
        self._held_count -= len(counts)
        name = self._name_of(topic_id)
        if name is None:
            self._stats.unnamed += len(counts)
            return
        for count in counts if self._is_audited(name) else ():
            try:
                count(name)
            except Exception as error:  # noqa: BLE001 - an auditor must not break what has requested the name
                self._stats.failed("Metadata", error)
