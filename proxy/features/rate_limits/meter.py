"""Takes from buckets what clients do, mutes those that are over a limit, and counts and logs it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

from kafka_sidecar.proxy.config.rate_limits import RateLimit
from kafka_sidecar.proxy.features.rate_limits.buckets import Bucket, Buckets
from kafka_sidecar.proxy.features.rate_limits.limits import ClientLimits, Counts, Limit, Taken, Tank, Tanks
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

SOON_S = 0.005  # less is not worth a wait: timers are not exact
LOG_EVERY_S = 10.0  # a line for each limit and client

NOTHING = Taken()

# A topic as a frame has it, bytes and records of one or more batches.
Row = tuple[str | bytes, int, int]


class Meter:
    """All limits of one process."""

    def __init__(
        self,
        buckets: Buckets,
        clock: Callable[[], float],
        name_of: Callable[[bytes], str | None],
        request_name: Callable[[bytes], None] = lambda topic_id: None,
        shows_buckets: bool = True,
        come_early: Callable[[Client, float], None] = lambda client, seconds: None,
    ) -> None:
        """
        Args:
            clock: that of the sessions, in seconds.
            name_of: of a topic, by its id.
            request_name: asks for one that is not known, for later requests.
            shows_buckets: whether this process says how many there are; all workers have the same.
            come_early: is called with a client whose request came while others owed something, and for how long.
        """
        self.rules: Sequence[Limit] = ()
        self.clock = clock
        self._buckets = buckets
        self._name_of = name_of
        self._request_name = request_name
        self._shows_buckets = shows_buckets
        self.come_early = come_early
        self._lines = LogLimiter(LOG_EVERY_S, clock)
        self._muted: WeakSet[Client] = WeakSet()  # those that are, and some that were
        self._counts: dict[str, Counts] = {}  # by the limit's name, of all since the start

    def load(self, entries: Iterable[RateLimit]) -> Sequence[Limit]:
        """Limits that may become the `rules`; what is counted goes on."""
        return tuple(Limit(entry, self._counts.setdefault(entry.name, Counts())) for entry in entries)

    def limits_of(self, client: Client) -> ClientLimits:
        """The limits of a client, by its current names and the current configuration."""
        known = client.limited
        if not isinstance(known, ClientLimits) or known.rules is not self.rules:
            known = client.limited = ClientLimits(self.rules, client, self._buckets, self._topic_of)
        return known

    def _topic_of(self, key: str | bytes) -> str:
        if isinstance(key, str):
            return key
        if (name := self._name_of(key)) is None:
            self._request_name(key)
        return name or ""

    def requested(self, client: Client, limits: ClientLimits, now: float) -> None:
        """The client has sent a request, whatever it is."""
        for tank in limits.requests:
            if (owed := tank.bucket.take(1, now)) > 0:
                self._mute(client, tank, owed, now, 1)

    def produced(self, client: Client, limits: ClientLimits, rows: Sequence[Row], now: float) -> None:
        """The client has sent these records."""
        asked: set[int] | None = None
        for key, size, records in rows:
            of_bytes, of_records, of_requests = limits.produced[key]
            for tank in of_bytes:
                limit, _, bucket = tank
                limit.counts.produce_bytes += size
                if (owed := bucket.take(size, now)) > 0:
                    self._mute(client, tank, owed, now, size)
            if of_records or of_requests:
                asked = self._take(client, of_records, of_requests, records, now, asked)

    def consumed(self, client: Client, rows: Sequence[Row], now: float) -> None:
        """The client gets these records."""
        limits = self.limits_of(client)
        asked: set[int] | None = None
        total, largest, last = 0, 0, NOTHING
        for key, size, records in rows:
            taken = limits.consumed[key]
            of_bytes, of_records, of_requests = taken
            for tank in of_bytes:
                limit, _, bucket = tank
                limit.counts.consume_bytes += size
                if (owed := bucket.take(size, now)) > 0:
                    self._mute(client, tank, owed, now, size)
            if of_records or of_requests:
                asked = self._take(client, of_records, of_requests, records, now, asked)
            if of_bytes:
                total += size
                if size > largest:
                    largest, last = size, taken
        limits.last = total, last

    def expect(self, client: Client, limits: ClientLimits, size: int) -> None:
        """A response of so many bytes begins, which says for how long its client is muted, before it is known.

        It is taken to be of the same topics as the last one.
        """
        total, taken = limits.last
        if total:
            now = self.clock()
            for tank in taken.bytes:
                if (owed := tank.bucket.owed(now, size)) > 0:
                    self._mute(client, tank, owed, now, size)

    def admit(self, client: Client, topic: str, size: int, records: int) -> str | None:
        """Take what a batch needs; the name of the limit that rejects it, of which nothing is taken then.

        A batch is admitted where nothing is owed, however large it is.
        """
        taken, now = self.limits_of(client).rejected[topic], self.clock()
        for tank in (*taken.bytes, *taken.records):
            if tank.bucket.owed(now) > 0:
                self._reject(client, tank.limit, topic)
                return tank.limit.name
        for tank in taken.bytes:
            tank.bucket.take(size, now)
            tank.limit.counts.produce_bytes += size
        for tank in taken.records:
            tank.bucket.take(records, now)
        return None

    def _take(
        self, client: Client, of_records: Tanks, of_requests: Tanks, records: int, now: float, asked: set[int] | None
    ) -> set[int]:
        """``asked``: limits that have counted the request already, for another of its topics; so do those returned."""
        asked = set() if asked is None else asked
        for tank in of_records:
            if (owed := tank.bucket.take(records, now)) > 0:
                self._mute(client, tank, owed, now, records)
        for tank in of_requests:
            if tank.limit.per_topic or id(tank.limit) not in asked:
                asked.add(id(tank.limit))
                if (owed := tank.bucket.take(1, now)) > 0:
                    self._mute(client, tank, owed, now, 1)
        return asked

    def _mute(self, client: Client, tank: Tank, owed_s: float, now: float, amount: float) -> None:
        """Mute the client until nothing is owed, but not for ever: the rest is owed when it sends the next request.

        Args:
            amount: its own part of it.
        """
        limit, before = tank.limit, client.muted_until
        until = now + min(owed_s, limit.max_wait_s)
        others_s = owed_s - tank.bucket.seconds_of(amount)
        if others_s > SOON_S and before < now + others_s - SOON_S:  # it has not been muted for that
            self.come_early(client, min(others_s, limit.max_wait_s))
        if until > before:
            limit.counts.throttled += 1
            limit.counts.throttled_s += until - max(before, now)
            self._muted.add(client)
            client.mute(until, limit.name)
            if (suppressed := self._due("throttled", client, limit)) is not None:
                log.info(
                    "client throttled",
                    extra={
                        **keys_of(client, limit, suppressed),
                        "detail": tank.rate,
                        "throttle_s": round(owed_s, 3),
                    },
                )

    def _reject(self, client: Client, limit: Limit, topic: str) -> None:
        limit.counts.rejected += 1
        if (suppressed := self._due("rejected", client, limit)) is not None:
            log.warning(
                "batch over a rate limit rejected", extra={**keys_of(client, limit, suppressed), "topic": topic}
            )

    def _due(self, what: str, client: Client, limit: Limit) -> int | None:
        """How many lines were suppressed, if one is due."""
        return self._lines.due((what, limit.name, client.principal or "", client.client_id or ""))

    def _forget_read(self, now: float) -> None:
        self._muted = WeakSet(client for client in self._muted if client.muted_until > now)

    def describe(self) -> list[dict[str, Any]]:
        """Each rate of the current limits, with the share of its bucket that is used: above 1 clients owe something.

        Where each client or topic has a bucket for itself it is None: there may be very many.
        """
        now = self.clock()
        return [
            {
                "limit": limit.name,
                "rate": rate,
                "a_second": amount,
                "each": ", ".join(limit.per) or None,
                "action": "reject" if limit.rejects else "throttle",
                "used": self._used(limit, rate, now) if not limit.per else None,
                "throttled": limit.counts.throttled,
                "rejected": limit.counts.rejected,
            }
            for limit in self.rules
            for rate, amount in limit.rates.items()
        ]

    def _used(self, limit: Limit, rate: str, now: float) -> float:
        bucket = Bucket(self._buckets, limit.bucket(rate, "", "", ""), limit.rates[rate], limit.burst_s)
        return round(1 + bucket.owed(now) / limit.burst_s, 3)

    def families(self) -> Iterator[Family]:
        """The metrics of rate limits; those of this configuration are there from the start."""
        now, counts = self.clock(), self._counts
        self._forget_read(now)
        of = {(name, "produce"): one.produce_bytes for name, one in counts.items()}
        of |= {(name, "consume"): one.consume_bytes for name, one in counts.items()}
        yield counter("rate_limit_bytes", "Bytes of batches that a limit has counted", of, "limit", "direction")
        throttled = {name: one.throttled for name, one in counts.items()}
        yield counter("rate_limit_throttled", "Requests and responses over a limit", throttled, "limit")
        seconds = {name: one.throttled_s for name, one in counts.items()}
        yield counter("rate_limit_throttled_seconds", "For how long clients were not read", seconds, "limit")
        rejected = {name: one.rejected for name, one in counts.items()}
        yield counter("rate_limit_rejected_batches", "Batches that were rejected", rejected, "limit")
        yield gauge("rate_limit_muted_connections", "Client connections that are not read now", len(self._muted))
        in_use = self._buckets.in_use(now) if self._shows_buckets else 0
        yield gauge("rate_limit_buckets", "Buckets that are not full", in_use)


def keys_of(client: Client, limit: Limit, suppressed: int) -> dict[str, object]:
    """Of a log line: whose requests, and of which limit."""
    return {
        "session": client.number,
        "client_id": client.client_id,
        "principal": client.principal,
        "limit": limit.name,
        "suppressed": suppressed,
    }
