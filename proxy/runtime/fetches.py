"""What plug-ins have to wait for: fetched once for all that wait for the same, with a time limit (design D8)."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from kafka_sidecar.plugins.calls import Call, calls_plug_in
from kafka_sidecar.proxy.runtime.tasks import spawn

MAX_FETCH_S = 5.0  # below validation.timeout: that a fetch takes too long is the plug-in's failure
GRACE_S = 1.0  # in which a fetch that is over its limit may end by itself
log = logging.getLogger(__name__)


class Resolver(Protocol):
    """A plug-in that raises `Unresolved`."""

    async def resolve(self, key: object) -> None: ...


class PlugInFetches:
    """The fetches of one kind of plug-ins that are under way in a process."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        # By id() of the plug-in: two of one class may be equal, as dataclasses are, or not hashable.
        self._running: dict[tuple[int, object], asyncio.Task[None]] = {}

    async def resolve(self, name: str, plug_in: Resolver, key: object) -> None:
        """Let a plug-in fetch what it needs. Raises nothing: one that has not got it says so when it is asked."""
        fetch = id(plug_in), key
        if fetch not in self._running:
            self._running[fetch] = spawn(self._fetched(name, plug_in, key), f"fetch what a {self._kind} needs")
            self._running[fetch].add_done_callback(lambda _: self._running.pop(fetch, None))
        # The connection may end meanwhile: others wait for the same. A fetch may not listen to being cancelled.
        await asyncio.wait([self._running[fetch]], timeout=MAX_FETCH_S + GRACE_S)

    @calls_plug_in(lambda of: Call(of["self"]._kind, of["name"], "resolve"))
    async def _fetched(self, name: str, plug_in: Resolver, key: object) -> None:
        try:
            async with asyncio.timeout(MAX_FETCH_S):
                await plug_in.resolve(key)
        except (Exception, SystemExit):  # whatever a plug-in raises is its failure, not the session's
            of_policy, of_interceptor = (name if self._kind == kind else None for kind in ("policy", "interceptor"))
            log.exception("plug-in fetch failed", extra={"policy": of_policy, "interceptor": of_interceptor})
