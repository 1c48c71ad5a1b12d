"""The topic configs that the sidecar keeps itself, as the rest of the program uses them.

configs = TopicConfigs(store, cluster.topic_ids, check)
configs.register(performer)
await configs.start_up()
configs.policy_of("orders", None)
MessageExchanges([configs.stages().messages[ApiKey.CREATE_TOPICS]])
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.wire import NO_ID
from kafka_sidecar.policies.contract import NO_POLICY, TopicPolicy
from kafka_sidecar.proxy.exchanges.messages import ANONYMOUS, Rejection
from kafka_sidecar.proxy.features.feature import Feature, Site, Stages
from kafka_sidecar.proxy.features.topic_configs.entries import (
    RECORD_VALIDATION_POLICY,
    Change,
    Check,
    Entries,
    Entry,
    ForgetConfigs,
    StoreConfigs,
    entry_of,
    id_of,
    own_configs,
    record_of,
    schema_argument,
)
from kafka_sidecar.proxy.features.topic_configs.kafka_store import Store, StoreError, TopicIds
from kafka_sidecar.proxy.features.topic_configs.stages import stages_of
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.tasks import spawn, stop
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter
from kafka_sidecar.proxy.telemetry.metrics import Family, counter, gauge

log = logging.getLogger(__name__)

REFRESH_S = 5.0  # how often the cluster is asked whether a topic with own configs was created again
MAX_WRITE_S = 10.0  # for all that one request changes; clients wait 30 s and longer
FIRST_RETRY_S, MAX_RETRY_S = 0.05, 0.5  # until a topic that was just created has an id at all brokers
LOG_INTERVAL_S = 10.0  # for one principal and topic
MAX_NAMED = 20  # refusals of one request that are written; all are counted
MAX_NAME_CHARS = 249  # of what clients choose
INVALID, FAILED = "invalid", "failed"


class TopicConfigs(Feature):
    """Reads what is set for each topic, and sets it for clients."""

    def __init__(
        self,
        store: Store,
        topic_ids: TopicIds,
        check: Check,
        clock: Callable[[], float] = time.monotonic,
        schema_policy: str | None = None,
    ) -> None:
        self.own = own_configs(check, schema_policy)
        self._schema_policy = schema_policy
        self.entries = Entries()
        self.changes = Changes(self.own, time.monotonic)
        self.changed, self.refused = self.changes.note, self.changes.refuse
        self.unreadable = 0  # records that are no entries, or newer than this program
        self._store = store
        self._topic_ids = topic_ids
        self._clock = clock  # seconds
        self._unrestored: dict[bytes, Entry] = {}  # that apply and are not in the log
        self._reading = self.entries  # another one while the log is read again from its beginning
        self._caught_up = asyncio.Event()
        self._ready = asyncio.Event()
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def register(self, performer: Performer) -> None:
        """Perform what the exchanges need."""
        performer.add(StoreConfigs, lambda need: self.store(need.changes))
        performer.add(ForgetConfigs, lambda need: self.forget(need.entries))

    async def start_up(self) -> None:
        """Begin to read; `wait_ready` returns once all is known."""
        await self._store.start(self)
        self._task = spawn(self._keep_ids_current(), "topic configs")

    async def shut_down(self, within_s: float = 0.0) -> None:
        if self._task is not None:
            await stop(self._task)
        await self._store.stop()

    @property
    def ready(self) -> bool:
        """Whether all that was set before the start is known. It stays so while the store is away."""
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        await self._ready.wait()

    @property
    def trouble(self) -> str | None:
        """Why it is not known now what is set; None where it is."""
        if (why := self._store.trouble) is not None:
            return f"the sidecar cannot read its topic configs: {why}"
        return None if self.ready else "the sidecar has not read its topic configs yet"

    @property
    def lost(self) -> str | None:
        """Why the log does not hold what applies; None where it does."""
        if (why := self._store.lost) is not None:
            return f"the sidecar's topic configs are lost: {why}"
        if self._unrestored:
            return f"{len(self._unrestored)} topic configs are not written back yet"
        return None

    @property
    def unready(self) -> str | None:
        """Why clients should be sent to another sidecar; None: they need not."""
        return self.lost or (None if self.ready else self.trouble)

    def recover(self) -> None:
        """Take the log as it is now, and write back what applies and is not in it: for an operator to decide."""
        if self._store.lost is not None:
            self._unrestored = {entry.topic_id: entry for entry in self.entries.all()}
            self._store.accept()

    def policy_of(self, topic: str, topic_id: bytes | None = None) -> TopicPolicy:
        """What is set on the topic.

        ``topic_id``: 16 bytes, zeros or None where only the name is known.
        """
        configs = self.entries.configs(topic, topic_id or NO_ID)
        if not configs:
            return NO_POLICY
        argument = schema_argument(configs) if self._schema_policy is not None else ""
        added = f"{self._schema_policy}:{argument}" if argument else None
        return TopicPolicy(configs.get(RECORD_VALIDATION_POLICY), added)

    def families(self) -> Iterator[Family]:
        yield gauge("topic_configs_entries", "Topics with stored configs that apply", len(self.entries))
        yield gauge(
            "topic_configs_trouble",
            "1 while the topic of topic configs cannot be read, or is lost; 0 otherwise",
            {"unreadable": int(self.trouble is not None and self.lost is None), "lost": int(self.lost is not None)},
            "reason",
        )
        yield from self.changes.families()
        about = "Records of the topic that are no topic configs"
        yield counter("topic_configs_unreadable_records", about, self.unreadable)

    def stages(self) -> Stages:
        return Stages(messages=stages_of(self))

    def seen(self, topics: Iterable[tuple[bytes, str]]) -> None:
        """(id, name) of topics as the cluster has them now, from a Metadata response."""
        self.entries.update_ids(topics, self._clock())

    # The store's reader

    def began(self) -> None:
        self._caught_up.clear()
        # What is written back applies meanwhile, unless the log says otherwise.
        self._reading = Entries() if self.ready and not self._unrestored else self.entries

    def read(self, key: bytes, value: bytes | None) -> None:
        try:
            topic_id = id_of(key)
            entry = None if value is None else entry_of(topic_id, value)
        except (ValueError, RecursionError) as error:
            # The previous entry, if any, stays applied.
            self.unreadable += 1
            log.error("topic config unreadable", extra={"detail": str(error)})
            return
        self._unrestored.pop(topic_id, None)
        if entry is None:
            self._reading.remove(topic_id)
        else:
            self._reading.set(entry, self._clock())

    def caught_up(self) -> None:
        self.entries = self._reading
        self._caught_up.set()

    # What the exchanges need

    async def store(self, changes: Sequence[Change]) -> Mapping[str, str]:
        """Returns once all sidecars can read the changes: topic -> why, for those that could not be stored."""
        try:
            async with asyncio.timeout(MAX_WRITE_S), self._writing:
                ids = await self._ids_of(changes)
                reasons = await asyncio.gather(*(self._apply(change, ids.get(change.topic)) for change in changes))
        except TimeoutError:
            reasons = [f"it took longer than {MAX_WRITE_S:g} s" for _ in changes]
        return {
            change.topic: f"The broker has done its part, but {', '.join(self.own)} could not be stored: {why}"
            for change, why in zip(changes, reasons, strict=True)
            if why is not None
        }

    async def forget(self, entries: Iterable[Entry]) -> None:
        """Returns once the entries of topics that no longer exist are removed, or it was tried."""
        reasons = await asyncio.gather(*(self._write(Entry(entry.topic, entry.topic_id, {})) for entry in entries))
        for why in filter(None, reasons):
            log.warning("configs of a deleted topic not removed", extra={"detail": why})

    async def _write_back(self) -> None:
        """Write what the log lacks; a failure is tried again with the next refresh."""
        async with self._writing:
            for entry in list(self._unrestored.values()):
                if (why := await self._write(entry)) is not None:
                    log.warning("topic configs not written back", extra={"detail": why})
                    return
        log.info("topic configs written back", extra={"topics": len(self.entries)})

    async def _apply(self, change: Change, topic_id: bytes | None) -> str | None:
        """Why the change could not be stored; None where it is."""
        if topic_id is None:
            return "the brokers do not know the topic"
        before = self.entries.configs(change.topic, topic_id)
        after = change.apply(before)
        if change.topic_id is not None:  # created just now: others had its name before
            await self.forget(entry for entry in self.entries.of(change.topic, topic_id) if entry.topic_id != topic_id)
        return await self._write(Entry(change.topic, topic_id, after)) if before or after else None

    async def _write(self, entry: Entry) -> str | None:
        try:
            async with asyncio.timeout(MAX_WRITE_S):
                await self._store.write(*record_of(entry))
        except TimeoutError:
            return f"it took longer than {MAX_WRITE_S:g} s"
        except StoreError as error:
            return str(error)
        return None

    async def _ids_of(self, changes: Sequence[Change]) -> dict[str, bytes]:
        """The ids of the topics, as many as can be found in half of the time."""
        ids = {change.topic: change.topic_id for change in changes if change.topic_id is not None}
        pause, give_up_at = FIRST_RETRY_S, asyncio.get_running_loop().time() + MAX_WRITE_S / 2
        while missing := [change.topic for change in changes if change.topic not in ids]:
            try:
                ids |= await self._topic_ids(missing)
            except (OSError, CodecError) as error:
                log.debug("topic id request failed", extra={"detail": str(error)})
            if all(topic in ids for topic in missing) or asyncio.get_running_loop().time() > give_up_at:
                break
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_S)
        return ids

    async def _keep_ids_current(self) -> None:
        """Notice topics that were deleted and created again by others."""
        await self._caught_up.wait()
        while True:
            if topics := list(self.entries.topics()):
                try:
                    ids = await self._topic_ids(topics)
                    self.seen((topic_id, name) for name, topic_id in ids.items())
                except (OSError, CodecError) as error:
                    log.debug("topic id request failed", extra={"detail": str(error)})
            self._ready.set()
            if self._unrestored and self._store.trouble is None:
                await self._write_back()
            await asyncio.sleep(REFRESH_S)


def feature(site: Site) -> Feature:
    """As `compose.FEATURES` says. The topic is that of the start: it is read from then on."""
    from kafka_sidecar.proxy.features.topic_configs.kafka_clients import KafkaClients
    from kafka_sidecar.proxy.features.topic_configs.kafka_store import KafkaStore

    topic, factor = site.config.topic_configs.topic, site.config.topic_configs.replication_factor
    servers, topic_ids = site.config.bootstrap_servers, site.cluster.topic_ids
    assert topic is not None
    store = KafkaStore(lambda: KafkaClients(servers, topic, factor, site.access, topic_ids))
    schema_policy = site.config.topic_configs.schema_policy
    configs = TopicConfigs(store, topic_ids, lambda text: site.check_policy(text), schema_policy=schema_policy)
    configs.register(site.performer)
    site.topics.on_topics = configs.seen
    site.policies = configs
    return configs


class Changes:
    """Those of one process."""

    def __init__(self, configs: Iterable[str], clock: Callable[[], float]) -> None:
        self.stored = Counter(dict.fromkeys(configs, 0))  # by config
        self.refused = Counter({INVALID: 0, FAILED: 0})  # topics, by reason
        self._lines = LogLimiter(LOG_INTERVAL_S, clock)

    def note(self, client: Client, topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """A topic's own configs, before and after a change that is stored."""
        for name in sorted({*before, *after}):
            if before.get(name) == after.get(name):
                continue
            self.stored[name] += 1
            log.info(
                "topic config changed",
                extra={
                    "topic": topic,
                    "config": name,
                    "before": before.get(name),
                    "after": after.get(name),
                    "principal": client.principal or ANONYMOUS,
                    "client_id": client.client_id,
                    "session": client.number,
                },
            )

    def refuse(self, client: Client, refused: Sequence[tuple[str, Rejection]]) -> None:
        """Topics whose configs a request could not set, and why."""
        invalid = sum(why.error_code != ErrorCode.UNKNOWN_SERVER_ERROR for _, why in refused)
        self.refused[INVALID] += invalid
        self.refused[FAILED] += len(refused) - invalid
        who = (client.principal or ANONYMOUS)[:MAX_NAME_CHARS]
        for topic, why in refused[:MAX_NAMED]:
            name = topic[:MAX_NAME_CHARS]
            if (suppressed := self._lines.due(("topic config refused", who, name))) is not None:
                log.warning(
                    "topic config refused",
                    extra={
                        "topic": name,
                        "detail": why.message,
                        "principal": who,
                        "client_id": client.client_id,
                        "session": client.number,
                        "suppressed": suppressed,
                    },
                )
        if len(refused) > MAX_NAMED:
            self._lines.hold(len(refused) - MAX_NAMED)

    def families(self) -> Iterable[Family]:
        """Their metrics."""
        yield counter("topic_config_changes", "Changes of clients that were stored", dict(self.stored), "config")
        about = "Topics whose configs clients could not set"
        yield counter("topic_config_refusals", about, dict(self.refused), "reason")
