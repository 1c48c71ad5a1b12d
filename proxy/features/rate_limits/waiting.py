"""Requests that wait because others owe something: what the connections that share a bucket send passes at its rate.

    request --> counted --> was something owed before it? --> it waits until that is paid, max_wait at most --> broker

A client alone is muted for what it owes, so nothing is owed when its next request comes, and none of its requests waits
here. Of many connections each would have one request at the broker at any time. What is owed before a request is known
once it is counted: a connection has the gate from its start on, and again each time a request came too early.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.glance import glance_fetch
from kafka_sidecar.plugins.effects import Need, Steps
from kafka_sidecar.proxy.features.rate_limits.limits import ClientLimits
from kafka_sidecar.proxy.features.rate_limits.meter import SOON_S, Meter
from kafka_sidecar.proxy.features.rate_limits.taps import MAX_GLANCED, NOT_COUNTED
from kafka_sidecar.proxy.relay.exchange import Client

SCARCE_PART = 2  # of the memory for frames: no request waits here while so much is in use
FETCHES = (ApiKey.FETCH, ApiKey.SHARE_FETCH)


@dataclass(frozen=True, slots=True)
class Delay(Need):
    """So many seconds."""

    seconds: float


class WaitingLine:
    """The `Gate` of one connection."""

    __slots__ = ("_client", "_is_known", "_meter")

    def __init__(self, meter: Meter, client: Client) -> None:
        self._meter = meter
        self._client = client
        self._is_known = False  # its first request, which has its client id, has come

    def holds(self, key: int, is_local: bool) -> bool:
        """As `Gate`: requests that a limit counts."""
        if is_local or key in NOT_COUNTED:
            return False
        is_first, self._is_known = not self._is_known, True
        return is_first or self._counts(key)

    def _counts(self, key: int) -> bool:
        limits = self._meter.limits_of(self._client)
        return bool(
            limits.requests or (limits.produces and key == ApiKey.PRODUCE) or (limits.consumes and key in FETCHES)
        )

    def enter(self, frame: bytes) -> Steps[None]:
        """As `Gate`. The request has been counted."""
        meter, client = self._meter, self._client
        key = int.from_bytes(frame[4:6], "big")
        if not self._counts(key):
            return
        limits = meter.limits_of(client)
        wait_s, limits.owed_before_s = limits.owed_before_s, 0.0
        if limits.consumes and key in FETCHES:
            wait_s = max(wait_s, self._owed_for_records(limits, frame))
        if wait_s > SOON_S:
            memory = client.account.budget
            if memory.spent * SCARCE_PART <= memory.limit:  # otherwise others would wait for what is held here
                yield Delay(wait_s)
        else:  # no other client owes anything
            client.gates = tuple(gate for gate in client.gates if gate is not self)

    def _owed_for_records(self, limits: ClientLimits, frame: bytes) -> float:
        """What is owed before a Fetch, for records that others have got."""
        now = self._meter.clock()
        _, taken = limits.last
        tanks = [*taken.bytes, *taken.records]
        if int.from_bytes(frame[4:6], "big") == ApiKey.FETCH:
            seen = glance_fetch(frame, 0, len(frame), int.from_bytes(frame[6:8], "big"), MAX_GLANCED)
            for key in seen.topics if seen is not None else ():
                taken = limits.consumed[key]
                tanks += [*taken.bytes, *taken.records]
        return max((min(tank.bucket.owed(now), tank.limit.max_wait_s) for tank in tanks), default=0.0)


def line_up(meter: Meter) -> None:
    """Have each client whose request came too early wait in line from its next one on."""

    def come_early(client: Client, seconds: float) -> None:
        limits = meter.limits_of(client)
        limits.owed_before_s = max(limits.owed_before_s, seconds)
        if not any(isinstance(gate, WaitingLine) for gate in client.gates):
            client.gates = (*client.gates, WaitingLine(meter, client))

    meter.come_early = come_early
