"""The limits of a configuration, and those of one client: from which buckets what it does is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import matcher
from kafka_sidecar.proxy.config.rate_limits import RATES, RateLimit
from kafka_sidecar.proxy.features.rate_limits.buckets import Bucket, Buckets, key_of
from kafka_sidecar.proxy.relay.exchange import Client

ANONYMOUS = "User:ANONYMOUS"  # a client that has not logged in, as in Kafka
MAX_TOPICS = 1000  # of which one client's connection remembers the buckets
REQUESTS = "requests"


class Direction(NamedTuple):
    """The rates of what a client sends, or of what it gets."""

    name: str  # a label value of kafka_sidecar_rate_limit_bytes_total
    bytes: str  # the rate of bytes, and that of records
    records: str


PRODUCE = Direction("produce", "produce_bytes", "produce_records")
CONSUME = Direction("consume", "consume_bytes", "consume_records")


@dataclass(slots=True)
class Counts:
    """Counters of one limit since the start."""

    produce_bytes: int = 0
    consume_bytes: int = 0
    throttled: int = 0  # requests and responses
    throttled_s: float = 0.0
    rejected: int = 0  # batches


class Limit:
    """One entry of the configuration."""

    def __init__(self, entry: RateLimit, counts: Counts | None = None) -> None:
        self.name = entry.name
        self.burst_s = entry.burst
        self.max_wait_s = entry.max_wait
        self.rejects = entry.action == "reject"
        self.rates = {name: float(rate) for name in RATES if (rate := getattr(entry, name)) is not None}
        self.per_topic = "topic" in entry.per
        self.has_topics = bool(entry.topics)
        self.names_topics = self.has_topics or self.per_topic
        self.counts_requests = REQUESTS in self.rates and not self.names_topics  # of all APIs
        self.counts = counts or Counts()
        self.per = tuple(entry.per)
        self._covers_topic = matcher(entry.topics) if entry.topics else None
        self._covers_id = matcher(entry.client_ids) if entry.client_ids else None
        self._covers_principal = matcher(entry.principals) if entry.principals else None

    def is_for(self, client_id: str, principal: str) -> bool:
        """Whether a client is held to it."""
        return (self._covers_id is None or self._covers_id(client_id)) and (
            self._covers_principal is None or self._covers_principal(principal)
        )

    def covers(self, topic: str) -> bool:
        """Whether it counts what is for this topic; one whose name is not known is counted where no topic is named."""
        return self._covers_topic is None or self._covers_topic(topic)

    def counts_topic(self, topic: str) -> bool:
        """Whether it counts what some clients send to this topic or get of it."""
        return (self.has(PRODUCE) or self.has(CONSUME)) and self.covers(topic)

    def has(self, direction: Direction) -> bool:
        """Whether it counts what clients send or get."""
        rates = (direction.bytes, direction.records, *((REQUESTS,) if self.names_topics else ()))
        return any(rate in self.rates for rate in rates)

    def bucket(self, rate: str, topic: str, client_id: str, principal: str) -> int:
        """The key of a bucket: another one once the limit has another rate."""
        named = {"topic": topic, "client_id": client_id, "principal": principal}
        return key_of((self.name, rate, self.rates[rate], self.burst_s, *((one, named[one]) for one in self.per)))


class Tank(NamedTuple):
    """One bucket of a limit."""

    limit: Limit
    rate: str
    bucket: Bucket


Tanks = tuple[Tank, ...]


class Taken(NamedTuple):
    """From which buckets records of one topic are taken."""

    bytes: Tanks = ()
    records: Tanks = ()
    requests: Tanks = ()

    @property
    def is_counted(self) -> bool:
        return bool(self.bytes or self.records or self.requests)


class ClientLimits:
    """The limits of one client id and principal, as a connection keeps them until one of these changes."""

    __slots__ = (
        "_buckets", "_client_id", "_consume", "_consumed", "_principal", "_produce", "_produced", "_rejected",
        "_rejecting", "_topic_of", "consumes", "last", "names_consumed_topics",
        "names_produced_topics", "owed_before_s", "produces", "requests",
        "rules", "session_is_counted", "watches",
    )  # fmt: skip

    def __init__(
        self, rules: Sequence[Limit], client: Client, buckets: Buckets, topic_of: Callable[[str | bytes], str]
    ) -> None:
        """``topic_of``: the name of a topic that a frame names so; empty: it is not known yet."""
        self.rules = rules
        self._buckets = buckets
        self._topic_of = topic_of
        self._client_id, self._principal = client.client_id or "", client.principal or ANONYMOUS
        mine = [limit for limit in rules if limit.is_for(self._client_id, self._principal)]
        waiting = [limit for limit in mine if not limit.rejects]
        self._rejecting = [limit for limit in mine if limit.rejects]
        self._produce = [limit for limit in waiting if limit.has(PRODUCE)]
        self._consume = [limit for limit in waiting if limit.has(CONSUME)]
        self.produces, self.consumes = bool(self._produce), bool(self._consume)
        self.names_produced_topics = all(limit.has_topics for limit in self._produce)
        self.names_consumed_topics = all(limit.has_topics for limit in self._consume)
        self.requests = tuple(self._tank(limit, REQUESTS, "") for limit in waiting if limit.counts_requests)
        # By what frames have for a topic.
        self._produced = Bounded[str | bytes, Taken](MAX_TOPICS)
        self._consumed = Bounded[str | bytes, Taken](MAX_TOPICS)
        self._rejected = Bounded[str | bytes, Taken](MAX_TOPICS)
        self.watches: dict[int, Any] = {}  # what watches its requests, by API and version
        self.session_is_counted = True  # the fetch session, as far as it is not known
        self.owed_before_s = 0.0  # what others owed when its last request was counted, in seconds
        self.last: tuple[int, Taken] = (0, Taken())  # the last response with records: their bytes, and a topic's

    def knows(self, key: str | bytes) -> bool:
        """Whether it is known what a topic is called, and so which limits count it."""
        return bool(self._topic_of(key))

    def produced(self, key: str | bytes) -> Taken:
        """What records are taken from that are sent to a topic."""
        return self._produced.get(key) or self._taken(self._produced, self._produce, PRODUCE, key)

    def consumed(self, key: str | bytes) -> Taken:
        """The same of records that the client gets."""
        return self._consumed.get(key) or self._taken(self._consumed, self._consume, CONSUME, key)

    def rejected(self, topic: str) -> Taken:
        """The same of limits that reject."""
        return self._rejected.get(topic) or self._taken(self._rejected, self._rejecting, PRODUCE, topic)

    def _taken(
        self, known: Bounded[str | bytes, Taken], limits: Iterable[Limit], direction: Direction, key: str | bytes
    ) -> Taken:
        topic = self._topic_of(key)
        mine = [limit for limit in limits if limit.covers(topic)]
        found = Taken(
            self._tanks(mine, direction.bytes, topic),
            self._tanks(mine, direction.records, topic),
            self._tanks([limit for limit in mine if limit.names_topics], REQUESTS, topic),
        )
        if topic:
            known[key] = found
        return found

    def _tanks(self, limits: Iterable[Limit], rate: str, topic: str) -> Tanks:
        return tuple(self._tank(limit, rate, topic) for limit in limits if rate in limit.rates)

    def _tank(self, limit: Limit, rate: str, topic: str) -> Tank:
        key = limit.bucket(rate, topic, self._client_id, self._principal)
        return Tank(limit, rate, Bucket(self._buckets, key, limit.rates[rate], limit.burst_s))
