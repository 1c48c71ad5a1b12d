"""What a policy has to wait for (`Unresolved`, design D8) is fetched once for all that wait, with a time limit."""

from __future__ import annotations

import asyncio
import logging

from kafka_sidecar.policies.plans import Rule
from kafka_sidecar.proxy.runtime.tasks import spawn

log = logging.getLogger(__name__)

MAX_FETCH_S = 5.0  # below validation.timeout: that a fetch takes too long is the policy's failure
GRACE_S = 1.0  # in which a fetch that is over its limit may end by itself


class PolicyFetches:
    """The fetches of one process that are under way."""

    def __init__(self) -> None:
        # By id() of the policy: two of one class may be equal, as dataclasses are, or not hashable.
        self._running: dict[tuple[int, object], asyncio.Task[None]] = {}

    async def resolve(self, rule: Rule, key: object) -> None:
        """Let the policy fetch what it needs. Raises nothing: a policy that has not got it says so when it is asked."""
        fetch = id(rule.policy), key
        if fetch not in self._running:
            self._running[fetch] = spawn(self._fetched(rule, key), "fetch what a policy needs")
            self._running[fetch].add_done_callback(lambda _: self._running.pop(fetch, None))
        # The connection may end meanwhile: others wait for the same. A fetch may not listen to being cancelled.
        await asyncio.wait([self._running[fetch]], timeout=MAX_FETCH_S + GRACE_S)

    async def _fetched(self, rule: Rule, key: object) -> None:
        try:
            async with asyncio.timeout(MAX_FETCH_S):
                await rule.policy.resolve(key)
        except (Exception, SystemExit):  # whatever a policy raises is its failure, not the session's
            log.exception("policy fetch failed", extra={"policy": rule.name})
