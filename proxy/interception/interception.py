"""Whether a request has to be intercepted at all, and by whom: what a running sidecar asks first."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import array_count
from kafka_sidecar.codec.glance import NO_SESSION, FetchGlance, glance_fetch, glance_produce
from kafka_sidecar.codec.messages.fetch import FetchRequest
from kafka_sidecar.interceptors.catalog import InterceptorCatalog
from kafka_sidecar.proxy.config.loading import Config, ConfigError
from kafka_sidecar.proxy.interception.commits import SHAPES, InterceptedCommit, Shape
from kafka_sidecar.proxy.interception.fetch import OLDEST, InterceptedFetch
from kafka_sidecar.proxy.interception.from_config import catalog
from kafka_sidecar.proxy.interception.hidden_offsets import Progress
from kafka_sidecar.proxy.interception.passing import Passing, passes
from kafka_sidecar.proxy.interception.produce import InterceptedProduce
from kafka_sidecar.proxy.interception.services import Surroundings
from kafka_sidecar.proxy.interception.stats import Observed
from kafka_sidecar.proxy.nodes.topic_names import TopicNames
from kafka_sidecar.proxy.relay.acks import CLIENT_ID
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Exchange, Passes, RouteError
from kafka_sidecar.proxy.runtime.threads import drain

# Notes about a client.
FETCH = "a Fetch that passes"
SESSION = "fetch session"  # which interceptors were asked, and whether any of them wants one of its topics

TopicIds = Callable[[Collection[str]], Awaitable[Mapping[str, bytes]]]  # raises OSError, CodecError


def _now() -> int:
    return time.time_ns() // 1_000_000


LONGEST_TELLING_S = 1.0  # that is waited for when the sidecar stops: what became of records may be told in threads


class Interception:
    """The interceptors in force. A request that has begun is intercepted by those that were in force then."""

    def __init__(self, topics: TopicNames, topic_ids: TopicIds) -> None:
        self.observed = Observed(time.monotonic)
        self.catalog = InterceptorCatalog((), self.observed)
        self._generation = 0  # of the interceptors in force: a note must not keep old ones
        self._around = Surroundings(topics.known, topics.ask, topic_ids, self.observed, _now, 0, 0)

    def loaded(self, config: Config) -> Callable[[], None]:
        """Load the interceptors of a configuration; what is given back puts them in force.

        Raises ConfigError where one is wrong.
        """
        try:
            new = catalog(config, self.observed, self.catalog)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        return partial(self._put_in_force, new, config)

    def _put_in_force(self, new: InterceptorCatalog, config: Config) -> None:
        stay = new.guards == self.catalog.guards
        self.catalog, self._generation = new, self._generation + 1
        self.observed.guards = new.guards
        self._around = replace(
            self._around,
            limit=config.validation.max_batch,
            message_max_bytes=config.interception.message_max_bytes,
            hold_for=tuple(config.interception.hold_for),
            progress=self._around.progress if stay else Progress(),  # others may hide other records
        )

    async def close(self) -> None:
        """Close the interceptors in their order: nothing passes any more."""
        await drain(LONGEST_TELLING_S)
        for guard in self.catalog.guards:
            guard.close()

    def exchange(self, key: int, version: int, inner: Begin | None) -> Begin | None:
        """Who takes requests of this kind in hand; ``inner``: who does so already, to validate them.

        Asked anew whenever other interceptors are put in force.
        """
        catalog = self.catalog
        if key == ApiKey.PRODUCE and catalog.intercept_producers:
            return partial(self._produce, version, inner)
        if key == ApiKey.FETCH and catalog.intercept_consumers:
            return partial(self._fetch, version)
        if key in SHAPES and version >= SHAPES[ApiKey(key)].oldest and catalog.intercept_commits:
            return partial(self._commit, SHAPES[ApiKey(key)], version)
        return inner

    def _produce(
        self, version: int, inner: Begin | None, data: bytes, at: int, size: int, client: Client
    ) -> Exchange | Passes | None:
        validated = inner(data, at, size, client) if inner is not None else None
        catalog, name_of = self.catalog, self._around.name_of
        topics, end = glance_produce(data, at, size, version)
        names = [name_of(topic) if isinstance(topic, bytes) else topic for topic in topics]
        if names and all(name is not None and catalog.producers(name) is None for name in names):
            # Of several topics the records of the first would have to be kept.
            return Passes(data[at + CLIENT_ID : end]) if inner is None and len(names) == 1 else validated
        own = None if isinstance(validated, Passes) else validated
        return InterceptedProduce(catalog.producers, self._around, client, version, own)

    def _fetch(self, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | Passes | None:
        if version < OLDEST:
            raise RouteError(
                "unsupported_version", f"Fetch version {version} is not relayed where interceptors look at what is read"
            )
        stamp = self._generation << 16 | version
        if passes(client, FETCH, stamp, data, at):
            return None
        seen = glance_fetch(data, at, size, version)
        if not self._may_be_wanted(seen, client):
            return None if seen is None else self._passes(seen, stamp, data, at, client)
        client.notes.pop(FETCH, None)
        return InterceptedFetch(self.catalog.consumers, self._around, client, version)

    def _may_be_wanted(self, seen: FetchGlance | None, client: Client) -> bool:
        """Whether the response may hold records of a topic that is intercepted; if not, it need not be collected."""
        if seen is None:
            client.notes.pop(SESSION, None)  # it may be a session's beginning
            return True
        names = (self._around.name_of(one) if isinstance(one, bytes) else one for one in seen.topics)
        hit = any(name is None or self.catalog.consumers(name) is not None for name in names)
        if seen.session_epoch == 0 or hit:
            client.notes[SESSION] = (self._generation, hit)
        # Where something is hidden no note counts: another session may go on here, or this one in another connection.
        is_noted = not self.catalog.fail_closed and client.notes.get(SESSION) == (self._generation, False)
        return hit or (seen.goes_on and not is_noted)

    def _passes(self, seen: FetchGlance, stamp: int, data: bytes, at: int, client: Client) -> Passes | None:
        start = at + CLIENT_ID
        if seen.session_epoch == NO_SESSION and len(seen.topics) == 1:
            return Passes(data[start : seen.named_to])
        if seen.goes_on and not seen.topics:
            no_topics = array_count(0, FetchRequest.declaration_.is_flexible(stamp & 0xFFFF))
            client.notes[FETCH] = Passing(stamp, data[start : seen.epoch_at], no_topics)
        return None

    def _commit(self, shape: Shape, version: int, data: bytes, at: int, size: int, client: Client) -> Exchange | None:
        return InterceptedCommit(shape, self.catalog.committers, self._around, client, version)
