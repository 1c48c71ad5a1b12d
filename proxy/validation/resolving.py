"""What a policy has to wait for (`Unresolved`, design D8) is fetched once for all that wait, and not for ever."""

from __future__ import annotations

import asyncio
import logging

from kafka_sidecar.policies.contract import RecordValidationPolicy
from kafka_sidecar.policies.plans import Rule
from kafka_sidecar.proxy.tasks import spawn

log = logging.getLogger(__name__)

LIMIT_S = 10.0  # below the 30 s after which producers give a request up


class Resolving:
    """The fetches of one process that are under way."""

    def __init__(self) -> None:
        self._running: dict[tuple[RecordValidationPolicy, object], asyncio.Task[None]] = {}

    async def resolve(self, rule: Rule, key: object) -> None:
        """Let the policy fetch what it needs. Raises nothing: a policy that has not got it says so when it is asked."""
        fetch = rule.policy, key
        if fetch not in self._running:
            self._running[fetch] = spawn(self._fetched(rule, key), "fetch what a policy needs")
            self._running[fetch].add_done_callback(lambda _: self._running.pop(fetch, None))
        await asyncio.wait([self._running[fetch]])  # the connection may end meanwhile: others wait for the same

    async def _fetched(self, rule: Rule, key: object) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                await rule.policy.resolve(key)
        except Exception:  # whatever a policy raises is its failure, not the session's
            log.exception("a policy cannot fetch what it needs", extra={"policy": rule.name})
