"""The limits of a configuration, and those of one client: from which buckets what it does is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import matcher
from kafka_sidecar.proxy.config.rate_limits import RATES, RateLimit
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS
from kafka_sidecar.proxy.features.rate_limits.buckets import Bucket, Buckets, key_of
from kafka_sidecar.proxy.relay.exchange import Client

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


@dataclass(frozen=True, slots=True)
class Whose:
    """A client, whose tanks these are."""

    buckets: Buckets
    client_id: str
    principal: str

    def tank(self, limit: Limit, rate: str, topic: str = "") -> Tank:
        """What one rate of a limit is taken from."""
        key = limit.bucket(rate, topic, self.client_id, self.principal)
        return Tank(limit, rate, Bucket(self.buckets, key, limit.rates[rate], limit.burst_s))

    def tanks(self, limits: Iterable[Limit], rate: str, topic: str) -> Tanks:
        """The same of those limits that have such a rate."""
        return tuple(self.tank(limit, rate, topic) for limit in limits if rate in limit.rates)


class TakenByTopic(Bounded[str | bytes, Taken]):
    """What records are taken from in one direction, by what frames have for their topic: found when it is read first.

    It refers to no `ClientLimits`: they would be garbage in circles.
    """

    __slots__ = ("_direction", "_limits", "_topic_of", "_whose")

    def __init__(
        self, limits: Sequence[Limit], direction: Direction, topic_of: Callable[[str | bytes], str], whose: Whose
    ) -> None:
        super().__init__(MAX_TOPICS)
        self._limits = limits
        self._direction = direction
        self._topic_of = topic_of
        self._whose = whose

    def __missing__(self, key: str | bytes) -> Taken:
        topic, whose = self._topic_of(key), self._whose
        mine = [limit for limit in self._limits if limit.covers(topic)]
        found = Taken(
            whose.tanks(mine, self._direction.bytes, topic),
            whose.tanks(mine, self._direction.records, topic),
            whose.tanks([limit for limit in mine if limit.names_topics], REQUESTS, topic),
        )
        if topic:
            self[key] = found
        return found


class ClientLimits:
    """The limits of one client id and principal, as a connection keeps them until one of these changes."""

    __slots__ = (
        "_topic_of", "consumed", "consumes", "last", "names_consumed_topics", "names_produced_topics", "owed_before_s",
        "produced", "produces", "rejected", "requests", "rules", "session_is_counted", "watches",
    )  # fmt: skip

    def __init__(
        self, rules: Sequence[Limit], client: Client, buckets: Buckets, topic_of: Callable[[str | bytes], str]
    ) -> None:
        """``topic_of``: the name of a topic that a frame names so; empty: it is not known yet."""
        self.rules = rules
        self._topic_of = topic_of
        whose = Whose(buckets, client.client_id or "", client.principal or ANONYMOUS)
        mine = [limit for limit in rules if limit.is_for(whose.client_id, whose.principal)]
        waiting = [limit for limit in mine if not limit.rejects]
        produce = [limit for limit in waiting if limit.has(PRODUCE)]
        consume = [limit for limit in waiting if limit.has(CONSUME)]
        self.produces, self.consumes = bool(produce), bool(consume)
        self.names_produced_topics = all(limit.has_topics for limit in produce)
        self.names_consumed_topics = all(limit.has_topics for limit in consume)
        self.requests = tuple(whose.tank(limit, REQUESTS) for limit in waiting if limit.counts_requests)
        # Of records that are sent to a topic, that the client gets, and of limits that reject.
        self.produced = TakenByTopic(produce, PRODUCE, topic_of, whose)
        self.consumed = TakenByTopic(consume, CONSUME, topic_of, whose)
        self.rejected = TakenByTopic([limit for limit in mine if limit.rejects], PRODUCE, topic_of, whose)
        self.watches: dict[int, Any] = {}  # what watches its requests, by API and version
        self.session_is_counted = True  # the fetch session, as far as it is not known
        self.owed_before_s = 0.0  # what others owed when its last request was counted, in seconds
        self.last: tuple[int, Taken] = (0, Taken())  # the last response with records: their bytes, and a topic's

    def knows(self, key: str | bytes) -> bool:
        """Whether it is known what a topic is called, and so which limits count it."""
        return bool(self._topic_of(key))
