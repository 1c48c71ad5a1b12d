"""The limits of a configuration, and those of one client: what is taken from which bucket for what it does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafka_sidecar.plugins.bounded import Bounded
from kafka_sidecar.plugins.patterns import matcher
from kafka_sidecar.proxy.config.rate_limits import RATES, RateLimit
from kafka_sidecar.proxy.features.rate_limits.buckets import key_of
from kafka_sidecar.proxy.relay.exchange import Client

ANONYMOUS = "User:ANONYMOUS"  # a client that has not logged in, as in Kafka
MAX_KEYS = 1000  # of buckets that one client's connection remembers
PRODUCE, CONSUME = ("produce_bytes", "produce_records"), ("consume_bytes", "consume_records")
REQUESTS = "requests"


class Amount(NamedTuple):
    """What one request or response has of one topic, or of several."""

    bytes: int
    records: int


Amounts = Mapping[str, Amount]  # by topic; of one whose name is not known: ""


class Limit:
    """One entry of the configuration."""

    def __init__(self, entry: RateLimit) -> None:
        self.name = entry.name
        self.burst_s = entry.burst
        self.rejects = entry.action == "reject"
        self.rates = {name: float(rate) for name in RATES if (rate := getattr(entry, name)) is not None}
        self.per_topic = "topic" in entry.per
        self.names_topics = bool(entry.topics) or self.per_topic
        self.counts_requests = REQUESTS in self.rates and not self.names_topics  # of all APIs
        self._per = tuple(entry.per)
        self._covers_topic = matcher(entry.topics) if entry.topics else None
        self._covers_id = matcher(entry.client_ids) if entry.client_ids else None
        self._covers_principal = matcher(entry.principals) if entry.principals else None

    def is_for(self, client_id: str, principal: str) -> bool:
        """Whether a client is held to it."""
        return (self._covers_id is None or self._covers_id(client_id)) and (
            self._covers_principal is None or self._covers_principal(principal)
        )

    def counts(self, topic: str) -> bool:
        """Whether it counts what is for this topic; one whose name is not known is counted where no topic is named."""
        return self._covers_topic is None or self._covers_topic(topic)

    def parts(self, amounts: Amounts) -> Iterator[tuple[str, Amount]]:
        """What is counted, by the topic whose buckets it has; "" where topics have none of their own."""
        counted = [(topic, amount) for topic, amount in amounts.items() if self.counts(topic)]
        if self.per_topic or len(counted) <= 1:
            for topic, amount in counted:
                yield topic if self.per_topic else "", amount
        else:
            yield "", Amount(sum(one.bytes for _, one in counted), sum(one.records for _, one in counted))

    def bucket(self, rate: str, topic: str, client_id: str, principal: str) -> int:
        """The key of a bucket: another one once the limit has another rate."""
        named = {"topic": topic, "client_id": client_id, "principal": principal}
        return key_of((self.name, rate, self.rates[rate], self.burst_s, *((one, named[one]) for one in self._per)))


class Charge(NamedTuple):
    """What is taken from one bucket."""

    limit: Limit
    rate: str
    key: int
    amount: int

    @property
    def seconds(self) -> float:
        """In which so much comes in."""
        return self.amount / self.limit.rates[self.rate]


class ClientLimits:
    """The limits of one client id and principal, as a connection keeps them until one of these changes."""

    __slots__ = (
        "_client_id",
        "_keys",
        "_principal",
        "consume",
        "heads",
        "last",
        "produce",
        "rejecting",
        "requests",
        "rules",
    )

    def __init__(self, rules: Sequence[Limit], client: Client) -> None:
        self.rules = rules
        self._client_id, self._principal = client.client_id or "", client.principal or ANONYMOUS
        self._keys = Bounded[tuple[str, str, str], int](MAX_KEYS)
        self.heads: dict[int, bytes] = {}  # by version: how Produce requests begin that no limit counts
        self.last: Sequence[Charge] = ()  # for the last response with records
        mine = [limit for limit in rules if limit.is_for(self._client_id, self._principal)]
        waiting = [limit for limit in mine if not limit.rejects]
        self.rejecting = [limit for limit in mine if limit.rejects]
        self.requests = [limit for limit in waiting if limit.counts_requests]
        self.produce = [limit for limit in waiting if _counts(limit, PRODUCE)]
        self.consume = [limit for limit in waiting if _counts(limit, CONSUME)]

    def count_topic(self, topic: str) -> bool:
        """Whether a limit counts what the client produces to a topic."""
        return any(limit.counts(topic) for limit in self.produce)

    def of_request(self) -> list[Charge]:
        """What any request takes."""
        return [Charge(limit, REQUESTS, self._key(limit, REQUESTS, ""), 1) for limit in self.requests]

    def of_records(self, limits: Sequence[Limit], rates: tuple[str, str], amounts: Amounts) -> list[Charge]:
        """What a request or response with these records takes."""
        charges: list[Charge] = []
        for limit in limits:
            for topic, amount in limit.parts(amounts):
                taken = [*zip(rates, amount, strict=True)]
                if limit.names_topics:
                    taken.append((REQUESTS, 1))
                charges += [
                    Charge(limit, rate, self._key(limit, rate, topic), number)
                    for rate, number in taken
                    if rate in limit.rates
                ]
        return charges

    def _key(self, limit: Limit, rate: str, topic: str) -> int:
        known = (limit.name, rate, topic)
        if (key := self._keys.get(known)) is None:
            key = self._keys[known] = limit.bucket(rate, topic, self._client_id, self._principal)
        return key


def _counts(limit: Limit, rates: tuple[str, str]) -> bool:
    return any(rate in limit.rates for rate in rates) or (limit.names_topics and REQUESTS in limit.rates)
