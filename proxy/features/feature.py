"""A feature of a sidecar: one value with one protocol. None knows another one; compose.py has the list of all.

Its stages are those of design D8: what a client sends passes the features in their order, what it gets in reverse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.refused import Letters
from kafka_sidecar.proxy.nodes.metadata_client import MetadataClient
from kafka_sidecar.proxy.nodes.topic_names import TopicNameCache
from kafka_sidecar.proxy.relay.exchange import Client, Gate
from kafka_sidecar.proxy.relay.watch import Tap
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.security.tls.broker_access import BrokerAccess
from kafka_sidecar.proxy.telemetry.metrics import Family

if TYPE_CHECKING:  # of what is not imported by a sidecar that relays
    from kafka_sidecar.large_messages.settings import TopicSettings
    from kafka_sidecar.policies.contract import TopicPolicy
    from kafka_sidecar.proxy.exchanges.commits import Stage as CommitStage
    from kafka_sidecar.proxy.exchanges.fetch import GuardStage as FetchGuard
    from kafka_sidecar.proxy.exchanges.fetch import Stage as FetchStage
    from kafka_sidecar.proxy.exchanges.messages import MessageStage
    from kafka_sidecar.proxy.exchanges.produce import GuardStage as ProduceGuard
    from kafka_sidecar.proxy.exchanges.produce import Stage as ProduceStage
    from kafka_sidecar.proxy.exchanges.share_fetch import Stage as ShareFetchStage
    from kafka_sidecar.proxy.features.denials import Denials


class TopicPolicies(Protocol):
    """The policies that are set on topics with Kafka's own tools."""

    @property
    def own(self) -> Collection[str]:
        """The names of topic configs that the sidecar keeps."""

    @property
    def ready(self) -> bool:
        """Whether they are known here."""

    @property
    def trouble(self) -> str | None:
        """Why they are not."""

    async def wait_ready(self) -> None: ...

    def policy_of(self, topic: str, topic_id: bytes | None = None) -> TopicPolicy: ...


def _ignore(key: int, found: Sequence[tuple[str, str, str]], is_allowed: bool, client: Client) -> None:
    """No feature wants to know what rules decide."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What is called with what rules decide: an API, operation, type and name of resources, whether they are allowed,
    and whose request it was. In any thread."""

    report: Callable[[int, Sequence[tuple[str, str, str]], bool, Client], None] = _ignore
    wants_allowed: bool = False

    @property
    def is_used(self) -> bool:
        """Whether anything is called."""
        return self.report is not _ignore


def _accept(text: str) -> None:
    """No policy is known that could be wrong."""


class Rejections(Protocol):
    """What a feature has rejected last, as the admin port shows it (design D12)."""

    @property
    def prefix(self) -> str:
        """Of its ids, before the dash."""
        ...

    def rows(self, number: int) -> Iterable[dict[str, Any]]:
        """The last ones in short, newest first."""
        ...

    def explain(self, rejection_id: str) -> dict[str, Any] | None:
        """All that is known of one; None: it is not one of the last."""
        ...


def _no_large_messages(topic: str) -> None:
    """No feature splits them."""


@dataclass(slots=True)
class Site:
    """The sidecar, as its features see it. The last ones are how one gives another what neither imports."""

    config: Config  # as it was at the start
    topics: TopicNameCache
    cluster: MetadataClient
    performer: Performer
    access: BrokerAccess  # of the features' own clients
    denied: Counter[tuple[str, str, str]]  # resources, by API, operation and type
    decided: Decided = Decided()
    policies: TopicPolicies | None = None
    check_policy: Callable[[str], None] = _accept  # raises ValueError
    letters: Letters | None = None
    large_messages: Callable[[str], TopicSettings | None] = _no_large_messages  # the settings of a topic


@dataclass(frozen=True, slots=True)
class Stages:
    """The part of a feature in the requests of each API, with its current settings."""

    produce_checks: Sequence[ProduceStage] = ()  # of what clients have sent, before all others
    produce: Sequence[ProduceStage] = ()
    fetch: Sequence[FetchStage] = ()
    acquired: Sequence[ShareFetchStage] = ()  # records of ShareFetch
    commits: Sequence[CommitStage] = ()
    messages: Mapping[int, MessageStage] = field(default_factory=dict)  # by API
    produce_guard: ProduceGuard | None = None
    fetch_guard: FetchGuard | None = None


NO_STAGES = Stages()


class Feature:
    """One feature, with nothing to do where it does not say otherwise."""

    denials: Denials | None = None  # where it denies clients something

    def load(self, config: Config) -> Callable[[], None]:
        """Load a configuration; what is returned applies it, to requests that begin then. Raises ConfigError."""
        return lambda: None

    async def start_up(self) -> None:
        """Called once, before anything is relayed."""

    async def shut_down(self, within_s: float) -> None:
        """Called once nothing is relayed; what is left to do may take this long (seconds)."""

    def files(self) -> Iterable[Path]:
        """Files and folders that it was loaded from: the configuration is loaded again when one has changed."""
        return ()

    def recover(self) -> None:
        """An operator has decided that what was lost is to be written again."""

    def stages(self) -> Stages:
        return NO_STAGES

    def tap(self, key: int, version: int) -> Tap | None:
        """What watches requests of this API and version, if anything."""
        return None

    def gate(self, client: Client) -> Gate | None:
        """What requests of a new connection have to wait for, if anything."""
        return None

    def families(self) -> Iterable[Family]:
        """Its metrics."""
        return ()

    def rejections(self) -> Rejections | None:
        """What it has rejected, if it rejects anything."""
        return self.denials

    def state(self) -> Mapping[str, Any]:
        """What operators see of it beside its metrics: JSON values, and lists of rows. Never a payload."""
        return {}

    def topic_state(self, name: str) -> Mapping[str, Any]:
        """The same of one topic."""
        return {}
