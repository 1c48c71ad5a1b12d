"""The features of one sidecar, from validation to audit: imported and started once something is configured.

Which exchange looks into which request is decided here; `Server` owns the connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.config.loading import ROOM_IN_FRAME, Config
from kafka_sidecar.proxy.config.mistakes import ConfigError, Mistake
from kafka_sidecar.proxy.exchanges.limits import Limits
from kafka_sidecar.proxy.nodes.metadata_client import MetadataClient
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Begin
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.telemetry.clock import now_ms
from kafka_sidecar.proxy.telemetry.metrics import Family, Metrics

if TYPE_CHECKING:
    from kafka_sidecar.proxy.exchanges.messages import MessageStage
    from kafka_sidecar.proxy.features.auditing.audit import Audit
    from kafka_sidecar.proxy.features.authorization.authorization import Authorization
    from kafka_sidecar.proxy.features.interception.interception import Interception
    from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages
    from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
    from kafka_sidecar.proxy.features.validation.validator import Validator

MAX_DRAIN_S = 1.0  # for acknowledgements that threads are still reporting when the sidecar stops


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """All that is wrong with the policies, topics, interceptors and files of a configuration."""
    sections = (config.clients.tls, config.brokers.tls, config.admin.tls)
    if config.brokers.uses_tls or any(section.is_set for section in sections):
        from kafka_sidecar.proxy.security.tls import sides

        yield from sides.find_mistakes(config)
    if config.uses_validation:
        from kafka_sidecar.proxy.features.validation import from_config as validation

        yield from validation.find_mistakes(config)
    if config.interceptors:
        from kafka_sidecar.proxy.features.interception import from_config as interception

        yield from interception.find_mistakes(config)
    if config.large_messages.is_enabled:
        from kafka_sidecar.proxy.features.large_messages import from_config as large_messages

        yield from large_messages.find_mistakes(config)
    if config.audit.type is not None:
        from kafka_sidecar.proxy.features.auditing import from_config as auditing

        yield from auditing.find_mistakes(config)


def _limits(config: Config) -> Limits:
    max_frame = config.connections.max_frame
    room = min(ROOM_IN_FRAME, max_frame // 2)
    return Limits(config.limits.max_partitions, config.limits.max_records, max_frame - room)


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
        self._config = config  # as it was at the start
        self._topics = topics
        self._cluster = cluster
        self._performer = performer
        self._access = access  # of the clients of topic configs and audit
        self._metrics = metrics
        self.validator: Validator | None = None
        self.interception: Interception | None = None
        self.large_messages: LargeMessages | None = None
        self.topic_configs: TopicConfigs | None = None
        self.audit: Audit | None = None
        self._authorization: Authorization | None = None
        self.is_applied = False
        self.applied = config  # as it is since the last reload
        self._exchanges: dict[int, Exchanges] = {}
        metrics.features += [
            self._validation_metrics, self._interception_metrics, self._large_message_metrics, self._thread_metrics,
            self._topic_configs_metrics, self._audit_metrics,
        ]  # fmt: skip

    def apply(self, config: Config) -> None:
        """Look into requests that begin from now on as this configuration says.

        Raises ConfigError where a rule or an interceptor is wrong; what was applied before stays then.
        """
        try:
            use_interceptors = self._load_interceptors(config)
            use_large_messages = self._load_large_messages(config)
            self._apply_rules(config)
            self._load_auditor()
        except ConfigError as error:
            raise config.error(list(find_mistakes(config)) or [Mistake((), str(error))]) from error
        use_interceptors()
        use_large_messages()
        self._apply_authorization(config)
        self.applied = config
        self._exchanges = self._compose(_limits(config))
        self.is_applied = True

    def recover(self) -> None:
        """An operator has decided that what was lost is to be written again."""
        if self.topic_configs is not None:
            self.topic_configs.recover()

    async def start(self) -> None:
        if self.topic_configs is not None:
            await self.topic_configs.start()
        if self.audit is not None:
            await self.audit.start()

    async def stop(self, within_s: float = 0.0) -> None:
        """Called once nothing is relayed; audit events may take this long to be sent."""
        if self.topic_configs is not None:
            await self.topic_configs.stop()
        await self._performer.threads.drain(MAX_DRAIN_S)
        if self.audit is not None:
            await self.audit.stop(within_s)
        if self.interception is not None:
            self.interception.close()

    def exchange(self, key: int, version: int) -> Begin | None:
        """What looks into requests of this API and version, if anything."""
        made = self._exchanges.get(key)
        return made.exchange(version) if made is not None else None

    def tap(self, key: int, version: int) -> Tap | None:
        """What watches requests of this API and version, if anything."""
        return self.audit.tap(key, version) if self.audit is not None else None

    def _compose(self, limits: Limits) -> dict[int, Exchanges]:
        """By API: its exchanges. The stages of each are in D8's order, authorization first."""
        exchanges: dict[int, Exchanges] = {}
        name_of, interception, large, guard = self._topics.name_of, self.interception, self.large_messages, None
        send = interception.send_stage() if interception is not None else None
        objects = large.object_stage() if large is not None else None
        split = large.split_stage() if large is not None else None
        guard = self._authorization.produce if self._authorization is not None else None
        produce = [stage for stage in (self.validator, send, objects, split) if stage is not None]
        if produce or guard is not None:
            from kafka_sidecar.proxy.exchanges.produce import ProduceExchanges

            exchanges[ApiKey.PRODUCE] = ProduceExchanges(produce, name_of, limits, guard)
        add_headers = large.safe_offset_stage() if large is not None else None
        consume = interception.consume_stage() if interception is not None else None
        assemble = large.assemble_stage() if large is not None else None
        check = self._authorization.fetch if self._authorization is not None else None
        fetch = [stage for stage in (assemble, add_headers, consume) if stage is not None]
        if fetch or check is not None:
            from kafka_sidecar.proxy.exchanges.fetch import FetchExchanges

            exchanges[ApiKey.FETCH] = FetchExchanges(fetch, name_of, limits, check)
        if stages := self._message_stages(limits):
            from kafka_sidecar.proxy.exchanges.messages import MessageExchanges

            exchanges |= {key: MessageExchanges(of_api, limits) for key, of_api in stages.items()}
        return exchanges

    def _message_stages(self, limits: Limits) -> dict[int, list[MessageStage]]:
        """By API, of all but Produce and Fetch."""
        checks = self._authorization.stages() if self._authorization is not None else {}
        configs = self.topic_configs.stages() if self.topic_configs is not None else {}
        stages: dict[int, list[MessageStage]] = {}
        for some in (checks, configs, self._record_stages(limits)):
            for key, stage in some.items():
                stages.setdefault(key, []).append(stage)
        return stages

    def _record_stages(self, limits: Limits) -> dict[int, MessageStage]:
        """By API: of records that members of share groups acquire, of committed offsets, and of principals."""
        stages: dict[int, MessageStage] = {}
        interception, large = self.interception, self.large_messages
        if interception is not None or self.audit is not None or self._authorization is not None:
            from kafka_sidecar.proxy.exchanges.sasl import Principals

            stages[ApiKey.SASL_AUTHENTICATE] = Principals()  # which they are shown
        assemble = large.share_stage() if large is not None else None
        consume = interception.share_stage() if interception is not None else None
        if share := [stage for stage in (assemble, consume) if stage is not None]:
            from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords

            stages[ApiKey.SHARE_FETCH] = AcquiredRecords(share, self._topics.name_of, limits)
        # Interceptors see what clients commit, not how it is stored.
        intercept = interception.commit_stage() if interception is not None else None
        store = large.offset_stage() if large is not None else None
        if commits := [stage for stage in (intercept, store) if stage is not None]:
            from kafka_sidecar.proxy.exchanges.commits import Commits
            from kafka_sidecar.proxy.exchanges.contexts import client_context

            context = partial(client_context, now_ms)
            for key in (ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT):
                stages[key] = Commits(key, commits, self._topics.name_of, context)
        if large is not None and (offsets := large.offset_fetch()) is not None:
            stages[ApiKey.OFFSET_FETCH] = offsets
        return stages

    def _load_interceptors(self, config: Config) -> Callable[[], None]:
        """Load them; what is returned applies them. Raises ConfigError."""
        if self.interception is None and not config.interceptors:
            return lambda: None
        from kafka_sidecar.proxy.features.interception.interception import Interception

        if self.interception is None:
            self.interception = Interception(self._topics.name_of)
        return self.interception.load(config)

    def _load_large_messages(self, config: Config) -> Callable[[], None]:
        """Load their plug-ins; what is returned applies them. Raises ConfigError."""
        if self.large_messages is None and not config.large_messages.is_enabled:
            return lambda: None
        from kafka_sidecar.proxy.features.large_messages.large_messages import LargeMessages

        if self.large_messages is None:
            self.large_messages = LargeMessages(self._topics.name_of, self._topics.id_of)
            self.large_messages.register(self._performer)
        return self.large_messages.load(config)

    def _load_auditor(self) -> None:
        """The one that was configured at the start."""
        if self.audit is None and self._config.audit.type is not None:
            from kafka_sidecar.proxy.features.auditing.audit import Audit

            self.audit = Audit(self._config, self._topics, access=self._access)

    def _apply_rules(self, config: Config) -> None:
        if self.validator is None and not config.uses_validation:
            return  # what validation needs is imported, and takes memory, once there is something to validate
        from kafka_sidecar.proxy.features.validation.validator import Validator

        if self.validator is None:
            if (topic := self._config.topic_configs.topic) is not None:  # what it was at the start: it is read there
                self.topic_configs = self._keep_topic_configs(topic)
            self.validator = Validator(config, self.topic_configs, self._topics.id_of)
            self.validator.register(self._performer)
        else:
            self.validator.apply(config)

    def _validation_metrics(self) -> Iterable[Family]:
        if self.validator is None:
            return ()
        return self.validator.stats.families()

    def _interception_metrics(self) -> Iterable[Family]:
        if self.interception is None:
            return ()
        return self.interception.stats.families()

    def _large_message_metrics(self) -> Iterable[Family]:
        if self.large_messages is None:
            return ()
        return self.large_messages.families()

    def _thread_metrics(self) -> Iterable[Family]:
        return self._performer.threads.families()

    def _topic_configs_metrics(self) -> Iterable[Family]:
        if self.topic_configs is None:
            return ()
        from kafka_sidecar.proxy.features.topic_configs.exposition import collect

        return collect(self.topic_configs)

    def _audit_metrics(self) -> Iterable[Family]:
        if self.audit is None:
            return ()
        from kafka_sidecar.proxy.features.auditing.exposition import collect

        return collect(self.audit)

    def _keep_topic_configs(self, topic: str) -> TopicConfigs:
        from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
        from kafka_sidecar.proxy.features.topic_configs.kafka_clients import KafkaClients
        from kafka_sidecar.proxy.features.topic_configs.kafka_store import KafkaStore

        servers, factor = self._config.bootstrap_servers, self._config.topic_configs.replication_factor
        topic_ids = self._cluster.topic_ids
        store = KafkaStore(lambda: KafkaClients(servers, topic, factor, self._access, topic_ids))
        configs = TopicConfigs(store, topic_ids, self._check_policy)
        configs.register(self._performer)
        self._topics.on_topics = configs.seen
        return configs

    def _apply_authorization(self, config: Config) -> None:
        """Who may do what, and that no client changes the topic in which topic configs are stored."""
        settings, topic = config.authorization, self._config.topic_configs.topic
        if not settings.is_set and topic is None:
            self._authorization = None
            return
        from kafka_sidecar.proxy.features.authorization.acls import Acls
        from kafka_sidecar.proxy.features.authorization.authorization import Authorization, rules_of

        acls = Acls(rules_of(settings.rules), settings.default == "allow", settings.super_users)
        self._authorization = Authorization(
            acls if settings.is_set else None, topic, self._topics.name_of, self._metrics.denied
        )

    def _check_policy(self, text: str) -> None:
        if self.validator is not None:
            self.validator.check(text)
