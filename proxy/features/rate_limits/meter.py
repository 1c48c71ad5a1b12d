"""Takes from buckets what clients do, mutes those that are over a limit, and counts and logs it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kafka_sidecar.proxy.features.rate_limits.buckets import Buckets
from kafka_sidecar.proxy.features.rate_limits.limits import (
    CONSUME,
    PRODUCE,
    Amount,
    Amounts,
    Charge,
    ClientLimits,
    Limit,
)
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

# A client is muted for no longer at a time: Kafka's window of byte quotas (11 samples of a second, one of which has not
# ended), and what a request that is not read meanwhile waits has to be below the clients' request timeouts.
MAX_MUTE_S = 10.0
LOG_EVERY_S = 10.0  # a line for each limit and client
MAX_MUTED = 10_000  # connections that are remembered before those that are read again are forgotten
DIRECTIONS = {PRODUCE[0]: "produce", CONSUME[0]: "consume"}


class Meter:
    """All limits of one process."""

    def __init__(
        self,
        buckets: Buckets,
        clock: Callable[[], float],
        name_of: Callable[[bytes], str | None],
        request_name: Callable[[bytes], None] = lambda topic_id: None,
    ) -> None:
        """
        Args:
            clock: that of the sessions, in seconds.
            name_of: of a topic, by its id.
            request_name: asks for one that is not known, for later requests.
        """
        self.rules: Sequence[Limit] = ()
        self._buckets = buckets
        self.clock = clock
        self._name_of = name_of
        self._request_name = request_name
        self._lines = LogLimiter(LOG_EVERY_S, clock)
        self._muted: dict[int, float] = {}  # until when, by the connection's number
        self._bytes: Counter[tuple[str, str]] = Counter()  # by limit and direction
        self._throttled: Counter[str] = Counter()  # requests, by limit
        self._throttled_s: dict[str, float] = {}
        self._rejected: Counter[str] = Counter()  # batches, by limit

    def limits_of(self, client: Client) -> ClientLimits:
        """The limits of a client, by its current names and the current configuration."""
        known = client.limited
        if not isinstance(known, ClientLimits) or known.rules is not self.rules:
            known = client.limited = ClientLimits(self.rules, client)
        return known

    def topic_of(self, key: str | bytes) -> str:
        """The name of a topic that a request names so; empty: it is not known yet."""
        if isinstance(key, str):
            return key
        if (name := self._name_of(key)) is None:
            self._request_name(key)
        return name or ""

    def requested(self, client: Client, limits: ClientLimits) -> None:
        """The client has sent a request, whatever it is."""
        self._charge(client, limits.of_request())

    def produced(self, client: Client, amounts: Amounts) -> None:
        """The client has sent these records."""
        limits = self.limits_of(client)
        self._charge(client, limits.of_records(limits.produce, PRODUCE, amounts))

    def consumed(self, client: Client, amounts: Amounts) -> None:
        """The client gets these records."""
        limits = self.limits_of(client)
        limits.last = charges = limits.of_records(limits.consume, CONSUME, amounts)
        self._charge(client, charges)

    def expect(self, client: Client, limits: ClientLimits, size: int) -> None:
        """A response of so many bytes begins, which says for how long its client is muted, before it is known.

        It is taken to be of the same topics as the last one.
        """
        last = sum(one.amount for one in limits.last if one.rate == CONSUME[0])
        if last:
            now, share = self.clock(), size / last
            owed = [
                (self._buckets.owed(one.key, one.limit.burst_s, now) + one.seconds * share, one) for one in limits.last
            ]
            self._mute(client, owed, now)

    def admit(self, client: Client, topic: str, amount: Amount) -> str | None:
        """Take what a batch needs; the name of the limit that rejects it, of which nothing is taken then.

        A batch is admitted where nothing is owed, however large it is.
        """
        limits, now = self.limits_of(client), self.clock()
        charges = limits.of_records(limits.rejecting, PRODUCE, {topic: amount})
        for one in charges:
            if self._buckets.owed(one.key, one.limit.burst_s, now) > 0:
                self._reject(client, one.limit, topic)
                return one.limit.name
        for one in charges:
            self._take(one, now)
        return None

    def _charge(self, client: Client, charges: Sequence[Charge]) -> None:
        if charges:
            now = self.clock()
            self._mute(client, [(self._take(one, now), one) for one in charges], now)

    def _take(self, one: Charge, now: float) -> float:
        if (direction := DIRECTIONS.get(one.rate)) is not None:
            self._bytes[one.limit.name, direction] += one.amount
        return self._buckets.charge(one.key, one.seconds, one.limit.burst_s, now)

    def _mute(self, client: Client, owed: Sequence[tuple[float, Charge]], now: float) -> None:
        """Mute the client until nothing is owed, but not for ever: the rest is owed when it sends the next request."""
        seconds, charge = max(owed, key=_seconds)
        if seconds <= 0:
            return
        name, until, before = charge.limit.name, now + min(seconds, MAX_MUTE_S), self._muted.get(client.number, 0.0)
        if until > before:
            self._throttled[name] += 1
            self._throttled_s[name] = self._throttled_s.get(name, 0.0) + until - max(before, now)
            self._muted[client.number] = until
            client.mute(until, name)
            if len(self._muted) >= MAX_MUTED:
                self._forget_read(now)
            self._log(
                logging.INFO, "client throttled", client, charge.limit, detail=charge.rate, throttle_s=round(seconds, 3)
            )

    def _reject(self, client: Client, limit: Limit, topic: str) -> None:
        self._rejected[limit.name] += 1
        self._log(logging.WARNING, "batch rejected by a rate limit", client, limit, topic=topic)

    def _log(self, level: int, line: str, client: Client, limit: Limit, **keys: object) -> None:
        suppressed = self._lines.due((line, limit.name, client.principal or "", client.client_id or ""))
        if suppressed is not None:
            who = {"session": client.number, "client_id": client.client_id, "principal": client.principal}
            log.log(level, line, extra={**who, "limit": limit.name, "suppressed": suppressed, **keys})

    def _forget_read(self, now: float) -> None:
        self._muted = {number: until for number, until in self._muted.items() if until > now}

    def families(self) -> Iterator[Family]:
        """The metrics of rate limits; those of this configuration are there from the start."""
        now, names = self.clock(), [limit.name for limit in self.rules]
        self._forget_read(now)
        none = dict.fromkeys(names, 0)
        bytes_of = {(name, one): 0 for name in names for one in DIRECTIONS.values()} | dict(self._bytes)
        yield counter("rate_limit_bytes", "Bytes of batches that a limit has counted", bytes_of, "limit", "direction")
        throttled, seconds = none | dict(self._throttled), none | self._throttled_s
        yield counter("rate_limit_throttled", "Requests and responses over a limit", throttled, "limit")
        yield counter("rate_limit_throttled_seconds", "For how long clients were not read", seconds, "limit")
        rejected = none | dict(self._rejected)
        yield counter("rate_limit_rejected_batches", "Batches that were rejected", rejected, "limit")
        yield gauge("rate_limit_muted_connections", "Client connections that are not read now", len(self._muted))
        yield gauge("rate_limit_buckets", "Buckets of all workers that are not full", self._buckets.in_use(now))


def _seconds(owed: tuple[float, Charge]) -> float:
    return owed[0]
