"""The list of features, and what they make of each API: composed in the order of design D8.

A feature is imported and made once something is configured for it. `Server` owns the connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.plugins.clock import now_ms
from kafka_sidecar.proxy.config.loading import ROOM_IN_FRAME, Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.exchanges.limits import Limits
from kafka_sidecar.proxy.features.feature import Feature, Rejections, Site, Stages
from kafka_sidecar.proxy.nodes.metadata_client import MetadataClient
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Begin, Client, Gate
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.relay.watch_pairs import in_turn
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.telemetry.metrics import Family, Metrics

if TYPE_CHECKING:
    from kafka_sidecar.proxy.exchanges.fetch import Stage as FetchStage
    from kafka_sidecar.proxy.exchanges.messages import MessageStage
    from kafka_sidecar.proxy.exchanges.share_fetch import Stage as ShareFetchStage
    from kafka_sidecar.proxy.features.auditing.audit import Audit
    from kafka_sidecar.proxy.features.dead_letters.letters import DeadLetters
    from kafka_sidecar.proxy.features.interception.interception import Interception
    from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages
    from kafka_sidecar.proxy.features.producer_habits.producer_habits import ProducerHabitsFeature
    from kafka_sidecar.proxy.features.schema_registries import SchemaRegistries
    from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
    from kafka_sidecar.proxy.features.validation.validator import Validator

LOGIN_APIS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
MAX_DRAIN_S = 1.0  # for acknowledgements that threads are still reporting when the sidecar stops


@dataclass(frozen=True, slots=True)
class Row:
    """One feature, before it is imported."""

    name: str
    module: str  # has `feature`, which makes it at a site
    is_wanted: Callable[[Config, Config], bool]  # by the configuration of the start and the current one
    checks: str | None = None  # the module whose `find_mistakes` looks for mistakes in a configuration
    opens: bool = False  # whether that module also has `opens_others`: plug-ins that are no part of the sidecar


# In D8's order.
FEATURES = (
    Row(
        "authorization", "authorization.authorization",
        lambda start, now: now.authorization.is_set or start.topic_configs.topic is not None,
    ),
    # What a client may not write does not count; what policies reject has come in, and does.
    Row("rate_limits", "rate_limits.rate_limits", lambda start, now: bool(now.rate_limits)),
    # After the rules: who may not create a topic learns nothing of guards. Before topic configs, which set the rest.
    Row(
        "topic_guards", "topic_guards.topic_guards", lambda start, now: bool(now.topic_guards),
        "topic_guards.topic_guards",
    ),
    Row("topic_configs", "topic_configs.configs", lambda start, now: start.topic_configs.topic is not None),
    # What clients have sent, as they have sent it, and before anything is inflated for a policy.
    Row(
        "producer_habits", "producer_habits.producer_habits", lambda start, now: bool(now.producers),
        "producer_habits.producer_habits",
    ),
    Row("schema_registries", "schema_registries", lambda start, now: bool(now.schema_registries), "schema_registries"),
    Row(
        "validation", "validation.validator", lambda start, now: now.uses_validation, "validation.from_config",
        opens=True,
    ),
    Row(
        "dead_letters", "dead_letters.letters", lambda start, now: now.uses_dead_letters, "dead_letters.from_config",
    ),
    Row(
        "interception", "interception.interception", lambda start, now: bool(now.interceptors),
        "interception.from_config", opens=True,
    ),
    Row(
        "large_messages", "large_messages.large_messages", lambda start, now: now.large_messages.is_enabled,
        "large_messages.from_config", opens=True,
    ),
    Row("auditing", "auditing.audit", lambda start, now: start.audit.type is not None, "auditing.from_config"),
    Row("access", "auditing.access", lambda start, now: start.audit.access != "off"),
)  # fmt: skip


def _module(name: str) -> Any:
    return import_module(f"{__package__}.{name}")


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """All that is wrong with the policies, topics, interceptors and files of a configuration."""
    sections = (config.clients.tls, config.brokers.tls, config.admin.tls)
    if config.brokers.uses_tls or any(section.is_set for section in sections):
        from kafka_sidecar.proxy.security.tls import live_tls

        yield from live_tls.find_mistakes(config)
    if config.brokers.sasl.mechanism is not None or config.brokers.logins or config.clients.sasl.mechanisms:
        from kafka_sidecar.proxy.security import start_checks

        yield from start_checks.find_mistakes(config)
    for row in FEATURES:
        if row.checks is not None and row.is_wanted(config, config):
            yield from _module(row.checks).find_mistakes(config)


def _limits(config: Config) -> Limits:
    max_frame = config.connections.max_frame
    room = min(ROOM_IN_FRAME, max_frame // 2)
    return Limits(config.limits.max_partitions, config.limits.max_records, max_frame - room)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A configuration that has been loaded, and is not applied yet."""

    config: Config
    made: dict[str, Feature]  # by the names of rows
    uses: list[Callable[[], None]]  # apply it


class Exchanges(Protocol):
    """The exchanges of one API."""

    def exchange(self, version: int) -> Begin | None:
        """What looks into requests of this version, if anything."""
        ...


class Features:
    """What looks into requests. `apply` a configuration first; then `exchange` says what each API needs."""

    def __init__(
        self, config: Config, metrics: Metrics, topics: TopicNameCache, cluster: MetadataClient, performer: Performer,
        access: BrokerAccess,
    ) -> None:  # fmt: skip
        self.site = Site(config, topics, cluster, performer, access, metrics.denied)
        self.made: dict[str, Feature] = {}  # by the names of rows
        self.is_applied = False
        self.applied = config  # as it is since the last reload
        self._prepared: _Loaded | None = None  # for the next reload
        self._exchanges: Mapping[int, Exchanges] = {}
        metrics.features.append(self.families)

    def apply(self, config: Config) -> None:
        """Look into requests that begin from now on as this configuration says.

        Raises ConfigError where a rule or an interceptor is wrong; what was applied before stays then.
        """
        prepared, self._prepared = self._prepared, None
        loaded = prepared if prepared is not None and prepared.config is config else self._load(config)
        self.made = loaded.made
        for use in loaded.uses:
            use()
        self.applied = config
        stages = [feature.stages() for feature in self._in_order()]
        self._exchanges = compose(stages, self.site.topics.name_of, _limits(config))
        self.is_applied = True

    def prepare(self, config: Config) -> None:
        """Do beforehand what `apply` would take long for. In a thread: clients would wait for thousands of entries.

        Plug-ins that are no part of the sidecar are left to `apply`: no other thread may import meanwhile (decision
        13). Raises ConfigError as `apply` does.
        """
        self._prepared = None
        wanted = [row for row in FEATURES if row.is_wanted(self.site.config, config)]
        for row in wanted:
            _module(row.module)
        others = [_module(row.checks).opens_others(config) for row in wanted if row.opens and row.checks]
        if not any(others):
            self._prepared = self._load(config)

    def _load(self, config: Config) -> _Loaded:
        """Make what is missing, and load the configuration; nothing is changed before it is applied."""
        made = dict(self.made)
        try:
            for row in FEATURES:
                if row.name not in made and row.is_wanted(self.site.config, config):
                    made[row.name] = _module(row.module).feature(self.site)
            return _Loaded(config, made, [made[row.name].load(config) for row in FEATURES if row.name in made])
        except ConfigError as error:
            raise config.error(list(find_mistakes(config)) or [Mistake((), str(error))]) from error

    def files(self) -> set[Path]:
        """Files and folders, beside the configuration's own, whose change takes a reload."""
        return {path for feature in self._in_order() for path in feature.files()}

    def recover(self) -> None:
        """An operator has decided that what was lost is to be written again."""
        for feature in self._in_order():
            feature.recover()

    async def start(self) -> None:
        for feature in self._in_order():
            await feature.start_up()

    async def stop(self, within_s: float = 0.0) -> None:
        """Called once nothing is relayed; audit events may take this long to be sent."""
        await self.site.performer.threads.drain(MAX_DRAIN_S)
        for feature in self._in_order():
            await feature.shut_down(within_s)

    def exchange(self, key: int, version: int) -> Begin | None:
        """What looks into requests of this API and version, if anything."""
        if key in LOGIN_APIS:  # also where no feature asks who clients are yet: one may after a reload
            from kafka_sidecar.proxy.exchanges.sasl import login_exchange

            return login_exchange(key, version)
        made = self._exchanges.get(key)
        return made.exchange(version) if made is not None else None

    def tap(self, key: int, version: int) -> Tap | None:
        """What watches requests of this API and version, if anything."""
        taps = [tap for feature in self._in_order() if (tap := feature.tap(key, version)) is not None]
        return reduce(in_turn, taps) if taps else None

    def gates(self, client: Client) -> tuple[Gate, ...]:
        """What requests of a new connection have to wait for."""
        return tuple(gate for feature in self._in_order() if (gate := feature.gate(client)) is not None)

    def _in_order(self) -> list[Feature]:
        return [self.made[row.name] for row in FEATURES if row.name in self.made]

    def families(self) -> Iterable[Family]:
        """The metrics of all features, and of the threads that work for them."""
        yield from self.site.performer.threads.families()
        for feature in self._in_order():
            yield from feature.families()

    # What the pages of the admin port show; None where it is not configured.

    @property
    def rejections(self) -> list[Rejections]:
        """Of each feature that stores its own in this way."""
        found = (feature.rejections() for feature in self._in_order())
        return [one for one in found if one is not None]

    @property
    def producer_habits(self) -> ProducerHabitsFeature | None:
        return cast("ProducerHabitsFeature | None", self.made.get("producer_habits"))

    @property
    def schema_registries(self) -> SchemaRegistries | None:
        return cast("SchemaRegistries | None", self.made.get("schema_registries"))

    @property
    def validator(self) -> Validator | None:
        return cast("Validator | None", self.made.get("validation"))

    @property
    def dead_letters(self) -> DeadLetters | None:
        return cast("DeadLetters | None", self.made.get("dead_letters"))

    @property
    def interception(self) -> Interception | None:
        return cast("Interception | None", self.made.get("interception"))

    @property
    def large_messages(self) -> LargeMessages | None:
        return cast("LargeMessages | None", self.made.get("large_messages"))

    @property
    def topic_configs(self) -> TopicConfigs | None:
        return cast("TopicConfigs | None", self.made.get("topic_configs"))

    @property
    def audit(self) -> Audit | None:
        return cast("Audit | None", self.made.get("auditing"))


def compose(features: list[Stages], name_of: Callable[[bytes], str | None], limits: Limits) -> Mapping[int, Exchanges]:
    """By API: its exchanges. ``features`` are in D8's order; what clients get passes them in reverse, but records pass
    first those that make them whole, then those that look at what is stored (docs/decisions/0040)."""
    exchanges: dict[int, Exchanges] = {}
    backwards = features[::-1]
    produce = [stage for one in features for stage in one.produce_checks]
    produce += [stage for one in features for stage in one.produce]
    produce_guards = [one.produce_guard for one in features if one.produce_guard is not None]
    if produce or produce_guards:
        from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges

        exchanges[ApiKey.PRODUCE] = ProduceExchanges(produce, name_of, limits, produce_guards)
    fetch = sorted((stage for one in backwards for stage in one.fetch), key=_sees)
    fetch_guard = next((one.fetch_guard for one in features if one.fetch_guard is not None), None)
    if fetch or fetch_guard is not None:
        from kafka_sidecar.proxy.exchanges.fetch import FetchExchanges

        exchanges[ApiKey.FETCH] = FetchExchanges(fetch, name_of, limits, fetch_guard)
    if stages := _message_stages(features, name_of, limits):
        from kafka_sidecar.proxy.exchanges.messages import MessageExchanges

        exchanges |= {key: MessageExchanges(of_api, limits) for key, of_api in stages.items()}
    return exchanges


def _sees(stage: FetchStage | ShareFetchStage) -> int:
    return stage.sees


def _message_stages(
    features: list[Stages], name_of: Callable[[bytes], str | None], limits: Limits
) -> Mapping[int, list[MessageStage]]:
    """By API, of all but Produce and Fetch: the stages of whole messages, then those of records and offsets in them."""
    stages: dict[int, list[MessageStage]] = {}
    for one in features:
        for key, stage in one.messages.items():
            stages.setdefault(key, []).append(stage)
    if acquired := sorted((stage for one in reversed(features) for stage in one.acquired), key=_sees):
        from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords

        stages.setdefault(ApiKey.SHARE_FETCH, []).append(AcquiredRecords(acquired, name_of))
    if ApiKey.SHARE_FETCH in stages:
        from kafka_sidecar.proxy.exchanges.share_fetch import LimitedResponse

        stages[ApiKey.SHARE_FETCH].append(partial(LimitedResponse, limits))
    # Interceptors see what clients commit, not how it is stored.
    if commits := [stage for one in features for stage in one.commits]:
        from kafka_sidecar.proxy.exchanges.commits import Commits

        for key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
            stages.setdefault(key, []).append(Commits(key, commits, name_of, now_ms))
    return stages
