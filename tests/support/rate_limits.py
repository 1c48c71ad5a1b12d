"""Rate limits of a sidecar whose clients are played by the test, with a clock that it sets."""

from __future__ import annotations

from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.rate_limits import RateLimit
from kafka_sidecar.proxy.exchanges.limits import DEFAULT_LIMITS
from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges
from kafka_sidecar.proxy.features.rate_limits.buckets import Buckets
from kafka_sidecar.proxy.features.rate_limits.limits import Limit
from kafka_sidecar.proxy.features.rate_limits.meter import Meter
from kafka_sidecar.proxy.features.rate_limits.reject_stage import RejectStage
from kafka_sidecar.proxy.features.rate_limits.taps import tap
from kafka_sidecar.proxy.features.rate_limits.waiting import WaitingLine, line_up
from kafka_sidecar.proxy.relay.exchange import Begin
from kafka_sidecar.proxy.relay.watch import Tap
from support import oracle
from support.dialogue import Dialogue
from support.in_process import config
from support.produce_requests import topic_id

NAMES = ("orders", "payments", "free")


def entries(*given: dict[str, Any]) -> list[RateLimit]:
    """As a configuration has them; a name is given where it is missing."""
    whole = [{"name": f"limit{at}", **entry} for at, entry in enumerate(given)]
    return config("a:1", rate_limits=whole).rate_limits


def limits(*given: dict[str, Any]) -> tuple[Limit, ...]:
    """The same, loaded."""
    return tuple(map(Limit, entries(*given)))


class Limited(Dialogue):
    """A dialogue in which limits apply. A topic has the id that `topic_id` makes of its name."""

    def __init__(self, *given: dict[str, Any], buckets: Buckets | None = None) -> None:
        super().__init__(exchange=self._exchange, tap=self._tap)
        self.now = 1000.0
        self.topics.remember((topic_id(name), name) for name in NAMES)
        self.requested: list[bytes] = []
        self.meter = Meter(buckets or Buckets(), lambda: self.now, self.topics.name_of, self.requested.append)
        line_up(self.meter)
        self.load(*given)
        self.session.principal = "User:alice"

    def load(self, *given: dict[str, Any]) -> None:
        """Apply a configuration."""
        self.meter.rules = self.meter.load(entries(*given))
        self.routes.forget()

    def begin(self) -> Limited:
        """The connection begins with this configuration."""
        self.session.gates = (WaitingLine(self.meter, self.session),)
        return self

    def _tap(self, key: int, version: int) -> Tap | None:
        return tap(self.meter, key, version)

    def _exchange(self, key: int, version: int) -> Begin | None:
        rejecting = [limit for limit in self.meter.rules if limit.rejects]
        if key != ApiKey.PRODUCE or not rejecting:
            return None
        stage = RejectStage(rejecting, self.meter.admit)
        return ProduceExchanges([stage], self.topics.name_of, DEFAULT_LIMITS).exchange(version)

    @property
    def muted_s(self) -> float:
        """For how long the client is not read from now on."""
        return round(self.session.muted_until - self.now, 6) if self.mutes else 0.0

    def counted(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a metric that are not 0."""
        (family,) = [one for one in self.meter.families() if one.name == name]
        return {labels: value for labels, value in family.samples.items() if isinstance(value, int | float) and value}


def throttle_ms(key: int, version: int, frame: bytes) -> int:
    """What a response says, by an independent implementation of the protocol."""
    seconds: float = oracle.read_response(key, version, frame)[1].throttle_time.total_seconds()
    return round(seconds * 1000)
