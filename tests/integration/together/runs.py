"""One run: a topic, a sidecar with some features, the scenario's clients, and the comparison with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import yaml
from harness import admin_pages
from harness.sidecar import COMMAND, Sidecar
from harness.tool_host import ToolHost
from integration.scenarios.security import PLAINTEXT
from integration.scenarios.target import create_topic, eventually
from integration.together import (
    aiokafka_client,
    audit_sums,
    broker_admin,
    checks,
    java_client,
    letters,
    librdkafka_client,
)
from integration.together.clusters import FourWays
from integration.together.connection import Connection, Reading
from integration.together.features import Place, sections, security
from integration.together.model import SCHEMA, SCHEMA_ID, Look, Model
from integration.together.records import Read, Script, Sent
from integration.together.scenario import MAX_MESSAGE_BYTES, PARTITIONS, last, scripts
from integration.together.watched import watching
from prometheus_client.parser import text_string_to_metric_families
from support.http_registry import running

from kafka_sidecar.codec.apis import ErrorCode

T = TypeVar("T")
READINGS = (
    Reading("rd-committed", "librdkafka", "read_committed"),
    Reading("rd-all", "librdkafka", "read_uncommitted", 150_000),
    Reading("rd-group", "librdkafka", "read_committed", is_group=True),
    Reading("java-all", "java", "read_uncommitted"),
    Reading("java-group", "java", "read_committed", 150_000, is_group=True),
    Reading("aio-all", "aiokafka", "read_uncommitted", 150_000),
    Reading("aio-group", "aiokafka", "read_committed", is_group=True),
)
SHARE = "java-share"
SHARE_LIMIT_S, THROTTLED_SHARE_LIMIT_S = 30.0, 100.0
METADATA_VERSIONS = (0, 1, 12)
PRODUCED_PER_S = 400_000.0  # bytes of each client, with quotas


def fetched_per_s(model: Model) -> float:
    """With quotas: less than a reader gets at once.

    Not much less: what a throttled response does not bring to a share group is acquired all the same, and given up by
    the broker after ten times (KIP-932).
    """
    if not model.stores_large:
        return 1_500.0
    return 1_000_000.0 if model.leaves_gaps else 3_000.0


def throttled(metrics: str) -> bool:
    """Whether a rate limit has made a client wait."""
    families = {family.name: family for family in text_string_to_metric_families(metrics)}
    return any(sample.value for sample in families["kafka_sidecar_rate_limit_throttled"].samples)


@dataclass
class Run:
    """What one run does and finds out. Differences are collected, so that one does not hide the others."""

    cluster: FourWays
    java: ToolHost
    place: Place
    command: Path = COMMAND
    differences: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = Model(self.place.features)

    def check(self) -> None:
        """Raises AssertionError with the first difference of each client."""
        with running() as registry:
            number = registry.add(f"{self.place.topic}-value", SCHEMA, "JSON")
            registry.guids[str(UUID(bytes=SCHEMA_ID[1][1:]))] = number
            self.place = replace(self.place, registry=registry.url)
            self._check()

    def _check(self) -> None:
        self._prepare()
        features = self.place.features
        config = self.place.folder / "sidecar.yaml"
        config.write_text(yaml.safe_dump(sections(self.place)))
        brokers = self.cluster.way("tls" in features, "broker_login" in features)
        log = self.place.folder / "sidecar.log"
        with Sidecar.start(brokers, log, ["--config", str(config)], self.command) as sidecar, ExitStack() as stack:
            denied = self.place.denied if "authorization" in features else None
            at = Connection(sidecar.bootstrap, self.place.topic, security(self.place), denied)
            watched = stack.enter_context(watching(sidecar, at)) if "watched" in features else None
            self._check_admin(at)
            sent = self._produce(at)
            if "dead_letters" in features:
                expected = self.model.letters(sent)
                self.differences += letters.differences(self.cluster.direct, self.place, expected)
            reads = self._read(at, sent)
            if watched is not None:
                self.differences += watched.differences(sent, reads, READINGS, SHARE)
                stack.close()
            if "rate_limits" in features and not throttled(admin_pages.get(f"{sidecar.admin}/metrics").text):
                self.differences.append("rate_limits: the sidecar has throttled no client")
            # The last events are sent at the end; otherwise there is no need to wait for TLS to be closed.
            if "audit" in features and sidecar.stop() != 0:
                self.differences.append("the sidecar: it has not ended with 0")
        if "looks" in features:
            self.differences += checks.looked_at(self.place.events, at.topic, self._looked_at(at, sent))
            groups = {at.named(one.name): reads[one.name] for one in READINGS if one.is_group and one.name in reads}
            self.differences += checks.commits(self.place.events, groups)
        if "audit" in features:
            sums = audit_sums.Counted(self.model, sent, reads, READINGS, SHARE)
            self.differences += sums.differences(self.cluster.direct, self.place)
        if self.differences:
            raise AssertionError("\n".join(self.differences[:12]))

    def _check_admin(self, at: Connection) -> None:
        """What is done and asked before records are sent."""
        features = self.place.features
        if "topic_configs" in features:
            own = {"record.validation.policy": "require_header:id"}
            own |= {"confluent.value.schema.validation": "true"} if "schema" in features else {}
            broker_admin.set_configs(at.bootstrap, at.security, at.topic, own)
        if "authorization" in features and at.security == PLAINTEXT:
            self._check_metadata(at)
        if "topic_guards" in features:
            self._check_guards(at)

    def _prepare(self) -> None:
        direct, topic, features = self.cluster.direct, self.place.topic, self.place.features
        create_topic(direct, topic, PARTITIONS, {"max.message.bytes": str(MAX_MESSAGE_BYTES)})
        again = {"record_lock_duration_ms": 3000} if "quotas" in features else {}
        broker_admin.configure_share_group(direct, f"{topic}-{SHARE}", **again)
        if "authorization" in features:
            create_topic(direct, self.place.denied, 1)
            broker_admin.write_one(direct, self.place.denied)
        if "quotas" in features:
            names = [*(one.name for one in scripts(self.model)), *(one.name for one in READINGS), SHARE]
            clients = [f"{topic}-{name}" for name in names]
            broker_admin.throttle(direct, clients, fetched_per_s(self.model), PRODUCED_PER_S)

    def _check_metadata(self, at: Connection) -> None:
        """A client that asks for a denied topic gets to know nothing of any topic, and makes no broker create it."""
        for version in METADATA_VERSIONS:
            reported = broker_admin.metadata(at.bootstrap, version, self.place.unseen)
            if reported != [(self.place.unseen, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))]:
                self.differences.append(f"metadata version {version}: of a denied topic it says {reported[:3]}")
        if self.place.unseen in broker_admin.topics(self.cluster.direct):
            self.differences.append("metadata: the broker has created a denied topic")

    def _check_guards(self, at: Connection) -> None:
        """What the topic's guard does not allow is refused; rules come before, also for a topic that is not there."""
        before = {"authorization"} & self.place.features
        expected = [
            "POLICY_VIOLATION",
            "POLICY_VIOLATION",
            "TOPIC_AUTHORIZATION_FAILED" if before else "POLICY_VIOLATION",
        ]
        reported = broker_admin.refusals(at.bootstrap, at.security, at.topic, at.named("guarded"))
        if reported != expected:
            self.differences.append(f"guards: {reported}, not {expected}")
        if at.named("guarded") in broker_admin.topics(self.cluster.direct):
            self.differences.append("guards: the broker has created a topic that its guard does not allow")

    def _produce(self, at: Connection) -> list[Sent]:
        sent = list[Sent]()
        for wave in (scripts(self.model), [last(self.model)]):
            for script, reported in zip(wave, together([_call(self._send, at, one) for one in wave]), strict=True):
                if isinstance(reported, BaseException):
                    raise AssertionError(f"{script.name}: {type(reported).__name__}: {reported}") from reported
                self.differences += checks.outcomes(self.model, script.name, reported)
                sent += reported
        self.differences += checks.offsets(self.model, sent)
        return sent

    def _send(self, at: Connection, script: Script) -> list[Sent]:
        if script.library == "java":
            return java_client.produce(self.java, at, script)
        if script.library == "aiokafka":
            return aiokafka_client.produce(at, script)
        return librdkafka_client.produce(at, script)

    def _read(self, at: Connection, sent: Sequence[Sent]) -> dict[str, Read]:
        half = len(self.model.delivered(sent, "read_committed")) // 2
        calls: list[Callable[[], Read]] = [_call(self._consume, at, how, half) for how in READINGS]
        found = dict[str, Read]()
        *results, shared = together([*calls, _call(self._share, at)])
        for how, result in zip(READINGS, results, strict=True):
            if isinstance(result, BaseException):
                self.differences.append(_failure(how.name, result))
                continue
            found[how.name] = result
            self.differences += checks.read(self.model, how, sent, result, at.denied is not None)
            if how.is_group:
                self._check_stored(at, how.name, result)
        if "quotas" in self.place.features and not sum(one.throttled_ms for one in found.values()):
            self.differences.append("quotas: no consumer was throttled")
        if isinstance(shared, BaseException):
            self.differences.append(_failure(SHARE, shared))
        else:
            found[SHARE] = shared
            if "quotas" in self.place.features:
                # What a throttled response does not bring is acquired all the same: once its lock has timed out it
                # comes again, out of order, and twice if the member has got it late (KIP-932: at least once).
                shared.seen[:] = sorted(dict.fromkeys(shared.seen), key=lambda one: (one.partition, one.offset))
            self.differences += checks.records(SHARE, self.model.delivered(sent, "read_uncommitted"), shared.seen)
        return found

    def _consume(self, at: Connection, how: Reading, half: int) -> Read:
        if how.library == "java":
            return java_client.read(self.java, at, how, half)
        if how.library == "aiokafka":
            return aiokafka_client.read(at, how, half)
        return librdkafka_client.read(at, how, half)

    def _check_stored(self, at: Connection, name: str, read: Read) -> None:
        stored = broker_admin.stored_offsets(self.cluster.direct, at.named(name), at.topic)
        if stored != read.positions:
            self.differences.append(f"{name}: the broker has its offsets {stored}, not {read.positions}")

    def _share(self, at: Connection) -> Read:
        """Until the group has done with the whole log."""
        stop = self.place.folder / "stop"
        group = at.named(SHARE)
        limit_s = THROTTLED_SHARE_LIMIT_S if "quotas" in self.place.features else SHARE_LIMIT_S
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(java_client.share, self.java, at, SHARE, stop)
            try:
                eventually(
                    lambda: 0 if reading.done() else broker_admin.share_lag(self.cluster.direct, group, at.topic),
                    lambda lag: lag == 0, f"the lag of {SHARE}", limit_s,
                )  # fmt: skip
            except AssertionError as error:
                self.differences.append(f"{SHARE}: {error}")
            finally:
                stop.touch()
            return reading.result()

    def _looked_at(self, at: Connection, sent: Sequence[Sent]) -> Counter[Look]:
        """What the interceptor that only looks must have been shown, of clients that get everything once."""
        return self.model.looked_at(sent, {at.named(one.name): one.isolation for one in READINGS if not one.is_group})


def _failure(name: str, error: BaseException) -> str:
    return f"{name}: {type(error).__name__}: {str(error)[:400]}"


def _call(function: Callable[..., T], *arguments: object) -> Callable[[], T]:
    return lambda: function(*arguments)


def together(calls: Sequence[Callable[[], T]]) -> list[T | BaseException]:
    """The results of calls that run at the same time; of one that failed its exception."""
    with ThreadPoolExecutor(max(1, len(calls))) as pool:
        futures: list[Future[T]] = [pool.submit(call) for call in calls]
        return [error if (error := one.exception()) is not None else one.result() for one in futures]
