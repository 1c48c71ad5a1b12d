"""The stages of a consumer: `on_consume` for each batch that it fetches, `pre_commit` and `on_commit` for its commits.

`pre_commit` is called before a commit is sent (KIP-547), `on_commit` once it has succeeded (KIP-42).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from math import inf

from kafka_sidecar.codec.records import Batch, Records
from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.consuming import Consumers, FailClosedError
from kafka_sidecar.interceptors.contract import Context, Interceptor, Offsets
from kafka_sidecar.interceptors.guard import ResolveRequired
from kafka_sidecar.plugins.effects import Need, TimeLeft, TimeLimit
from kafka_sidecar.proxy.exchanges.commits import Stage as CommitApiStage
from kafka_sidecar.proxy.exchanges.fetched_records import Key, WaitRequired, check_crc
from kafka_sidecar.proxy.exchanges.fetched_stages import FetchedStage, Looks, SharedStage, Show
from kafka_sidecar.proxy.exchanges.limits import MAX_INLINE_CONSUMED_BYTES
from kafka_sidecar.proxy.features.interception.send_stage import Services
from kafka_sidecar.proxy.relay.exchange import Client

NO_LIMIT = TimeLimit("interception", inf, inf)

Chains = Callable[[str], Consumers | None]  # by topic


class ConsumeStage(FetchedStage):
    """The interceptors of consumers that are current, in Fetch requests."""

    def __init__(self, chains: Chains, fail_closed: bool, services: Services) -> None:
        super().__init__(ChainLooks(chains, fail_closed, services), services)


class ShareStage(SharedStage):
    """The same in ShareFetch requests."""

    def __init__(self, chains: Chains, services: Services) -> None:
        super().__init__(ChainLooks(chains, False, services), services)


@dataclass(frozen=True, slots=True)
class InterceptorFetch(Need):
    """Call ``interceptor.resolve(key)``, once for all that ask for the same. Answered with nothing: call it again."""

    name: str
    interceptor: Interceptor
    key: object
    limit: TimeLeft | None = None


class ChainLooks(Looks):
    """The interceptors of each topic."""

    def __init__(self, chains: Chains, fail_closed: bool, services: Services) -> None:
        self._chains = chains
        self._fail_closed = fail_closed
        self._services = services

    @property
    def fail_closed(self) -> bool:
        return self._fail_closed

    def wants(self, topic: str) -> bool:
        return self._chains(topic) is not None

    def hides(self, topic: str) -> bool:
        chain = self._chains(topic)
        return chain is not None and chain.fail_closed

    def begin(self, client: Client, version: int, api: str) -> Show:
        context, chains = self._services.context(client, version), self._chains

        def show(topic: str, index: int) -> ChainLook:
            chain = chains(topic)
            assert chain is not None
            return ChainLook(chain, context, topic, index)

        return show


class ChainLook:
    """The interceptors of one partition's consumers."""

    bytes_at_once = MAX_INLINE_CONSUMED_BYTES

    __slots__ = ("_chain", "_context", "_index", "_topic", "hides", "withholds")

    def __init__(self, chain: Consumers, context: Context, topic: str, index: int) -> None:
        self._chain = chain
        self._context = context
        self._topic = topic
        self._index = index
        self.hides = self.withholds = chain.fail_closed

    @property
    def records_at_once(self) -> int:
        return self._chain.pace.records_at_once

    @property
    def records_per_turn(self) -> int:
        return self._chain.pace.records_per_turn

    def left_of(self, batch: Batch, records: Records, asked: Collection[Key]) -> Records | None:
        check_crc(batch)
        try:
            return self._chain.consume(self._context, self._topic, self._index, batch.header, records, asked)
        except FailClosedError:  # its failure has been reported
            return None
        except ResolveRequired as error:
            need = partial(InterceptorFetch, error.name, error.interceptor, error.key)
            raise WaitRequired((error.name, error.key), need) from None


class CommitStage(CommitApiStage):
    """The interceptors of commits that are current."""

    def __init__(self, committers: Committers, counts: Counter[str], time_limit: TimeLimit = NO_LIMIT) -> None:
        self._committers = committers
        self._time_limit = time_limit
        self._counts = counts

    @property
    def counts(self) -> Counter[str]:
        return self._counts

    @property
    def wants_result(self) -> bool:
        return bool(self._committers.on_commit_guards)

    def pre_commit(self, offsets: Offsets) -> Offsets:
        return self._committers.pre_commit(offsets)

    def on_commit(self, offsets: Offsets) -> None:
        self._committers.on_commit(offsets)

    def takes_long(self, partitions: int) -> bool:
        return partitions > self._committers.pace.records_at_once or self._committers.pace.needs_thread

    def time_left(self) -> TimeLeft:
        return self._time_limit.start()
