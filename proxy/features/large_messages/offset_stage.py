"""The stage of a commit that stores offsets as li-apache-kafka-clients does, for its consumers in the same group.

It is the last one: interceptors see what the client commits, before and after (KIP-547, KIP-42).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.interceptors.contract import OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.large_messages.intervals import Intervals
from kafka_sidecar.large_messages.offsets import Committed, store
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.proxy.exchanges.commits import Stage


class OffsetStage(Stage):
    """Stores (S, "C,metadata") where a large message reaches over what a client commits."""

    counts: Counter[str] | None = None  # it counts what it stores itself
    wants_result = False

    def __init__(
        self,
        find: Callable[[str], TopicSettings | None],
        intervals: Intervals,
        id_of: Callable[[str], bytes],
        stored: Counter[str],
        li_clients: Sequence[str] = (),
        max_metadata: int = 4096,
    ) -> None:
        """
        Args:
            find: the settings of a topic; None: it has no large messages.
            id_of: the id of a topic, zeros if it is not known or the cluster has none.
            stored: of offsets by the form in which they are stored.
            li_clients: patterns of client ids: these clients store offsets as li does themselves.
            max_metadata: characters that the broker takes.
        """
        self._find = find
        self._intervals = intervals
        self._id_of = id_of
        self._stored = stored
        self._li_clients = li_clients
        self._max_metadata = max_metadata

    def pre_commit(self, offsets: Offsets) -> Offsets:
        if is_li_client(offsets.context.client_id, self._li_clients):
            return offsets
        stored = {
            place: new
            for place, offset in offsets.items()
            if (new := self._stored_form(place, offset)) is not None and new != offset
        }
        return Offsets({**offsets, **stored}, offsets.context) if stored else offsets

    def on_commit(self, offsets: Offsets) -> None:
        pass

    def _stored_form(self, place: TopicPartition, offset: OffsetAndMetadata) -> OffsetAndMetadata | None:
        """None: large messages of the topic do not change what is stored."""
        settings = self._find(place.topic)
        if settings is None or settings.offsets == "plain" or offset.offset < 0:
            return None
        topic_id = self._id_of(place.topic)
        topic = place.topic if topic_id == NO_ID else topic_id
        safe = self._intervals.safe_offset(topic, place.partition, offset.offset, settings.look_back)
        new = store(
            Committed(offset.offset, offset.metadata), safe, self._max_metadata, settings.offsets == "strict-li"
        )
        is_wrapped = new.metadata != offset.metadata
        self._stored["wrapped" if is_wrapped else "plain" if safe == offset.offset else "too_long"] += 1
        return OffsetAndMetadata(new.offset, new.metadata, offset.leader_epoch)


def is_li_client(client_id: str | None, patterns: Sequence[str]) -> bool:
    """Whether a client stores and reads offsets as li does: it must get them as they are stored."""
    return any(fnmatchcase(client_id or "", pattern) for pattern in patterns)
