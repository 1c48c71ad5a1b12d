"""What is remembered by names that clients choose is bounded in bytes, whatever is remembered by it."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from struct import pack
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support import oracle, produce_requests
from support.client import FakeClient
from support.dialogue import MAX_FRAME, Dialogue, request
from support.examples import sparse
from support.producer_habits import Asking, habits

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context, OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.policies.catalog import PolicyCatalog
from kafka_sidecar.proxy.features.auditing.counting import AuditedTopics, AuditingStats, Groups
from kafka_sidecar.proxy.features.large_messages.from_config import Topics
from kafka_sidecar.proxy.features.large_messages.reads import Reader, ReadsAhead
from kafka_sidecar.proxy.features.large_messages.slices import WriteRights
from kafka_sidecar.proxy.features.large_messages.topic_limits import TopicLimits
from kafka_sidecar.proxy.features.validation.rules import Rules, TopicRule
from kafka_sidecar.proxy.relay.acks import AcksMemo
from kafka_sidecar.proxy.relay.exchange import Pass
from kafka_sidecar.proxy.relay.routes import Known, PrefixMemo
from kafka_sidecar.proxy.relay.session import Session
from kafka_sidecar.proxy.runtime.logins import Failures
from kafka_sidecar.proxy.telemetry.log_limiter import LogLimiter

NAMES, CHARACTERS = 2_000, 30_000  # 60 MB
KEPT_BYTES = 48 << 20

Remember = Callable[[str], object]
ALLOWED = SimpleNamespace(error_code=0, error_message=None)


def no_report(*_: object, **more: object) -> None:
    """No failure is reported."""


NO_REPORT: Any = SimpleNamespace(failed=no_report, slow=no_report)


def rules() -> Remember:
    found = Rules(PolicyCatalog({}), (TopicRule("*", "json", "enforce", 100),), None)
    return lambda name: found.of(name, bytes(16))


def interceptors() -> Remember:
    catalog = InterceptorCatalog([InterceptorSettings("add_header", "a", settings={"headers": {"a": "b"}})], NO_REPORT)
    return catalog.producers


def commits() -> Remember:
    catalog = InterceptorCatalog([InterceptorSettings("skip_identical_commits", "s")], NO_REPORT)

    def commit(name: str) -> None:
        context = Context(group_id=name, member_id=name, client_id=name, clock=lambda: 0)
        offsets = {TopicPartition("orders", 0): OffsetAndMetadata(5, name)}
        catalog.committers.pre_commit(Offsets(offsets, context))

    return commit


def groups() -> Remember:
    known = Groups(lambda: 0.0)
    return lambda name: known.learn((name, "192.0.2.1"), name)


def log_lines() -> Remember:
    lines = LogLimiter(10.0, itertools.count().__next__)
    return lambda name: lines.due(("rejected", name[:249]))


def beginnings() -> Remember:
    """Of requests, one connection for each name."""
    memos: list[PrefixMemo] = []

    def note(name: str) -> None:
        memos.append(PrefixMemo())
        memos[-1].note(1, Known(cast(Any, None), Pass(name.encode()), None))

    return note


def acks() -> Remember:
    memos: list[AcksMemo] = []

    def find(name: str) -> None:
        frame = request(ApiKey.PRODUCE, 0, 1, pack(">hii", -1, 30000, 0), name.encode())
        memos.append(AcksMemo())
        assert memos[-1].find(0, frame, 0, len(frame)) is not None

    return find


def software() -> Remember:
    """Of clients, one connection for each name."""
    sessions: list[Session] = []
    talk = Dialogue()

    def introduced(name: str) -> None:
        sessions.append(Session(talk.routes, lambda: 0.0, MAX_FRAME, talk.budget, talk.memory))
        asked = oracle.request(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version="1")
        sessions[-1].from_client(oracle.request_frame(asked, 1))
        assert sessions[-1].client_software is not None

    return introduced


def topic_limits() -> Remember:
    limits = TopicLimits(lambda: 0.0)
    return limits.forget


def violations() -> Remember:
    asking = Asking(habits(topics=["*"], idempotence="required"))
    entity = oracle.request(
        ApiKey.PRODUCE, 8, acks=1, transactional_id=None,
        topic_data=[{"name": "orders", "partition_data": [{"index": 0, "records": produce_requests.batch("one")}]}],
    )  # fmt: skip

    def send(name: str) -> None:
        asking.entries.of_topic(name)
        frame = oracle.request_frame(entity, 1, name)
        asking.started(8, frame, FakeClient(client_software=name, principal=f"User:{name}")).request(frame)

    return send


def write_rights() -> Remember:
    rights, slices = (
        WriteRights(lambda: 0.0),
        cast(Any, SimpleNamespace(frame=b"".join, result=lambda _: (ALLOWED, None))),
    )

    def ask(name: str) -> None:
        steps = rights.ask(1, (name, 0), slices)
        next(steps)
        with suppress(StopIteration):
            steps.send((b"",))

    return ask


def large_topics() -> Remember:
    found = Topics((("*", None),))
    return found.find


def audited_topics() -> Remember:
    topics = AuditedTopics(lambda _: None, lambda _: True, no_report, AuditingStats())
    return lambda name: topics.find(name, no_report)


def readers() -> Remember:
    ahead = ReadsAhead(1 << 20, lambda: 0.0)
    return lambda name: ahead.begin(Reader(1, name, 0, False), 0, 1, cast(Any, SimpleNamespace(offset=1)))


def addresses() -> Remember:
    return Failures(lambda: 0.0).pause_s


KINDS: dict[str, Callable[[], Remember]] = {
    one.__name__: one
    for one in (
        rules, interceptors, commits, groups, log_lines, beginnings, acks, software,
        topic_limits, violations, write_rights, large_topics, audited_topics, readers, addresses,
    )
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_clients_take_a_bounded_number_of_bytes(kind: str) -> None:
    remember = KINDS[kind]()
    remember("a")
    tracemalloc.start()
    for number in sparse(range(NAMES), of=10):
        remember(f"{number}".rjust(CHARACTERS, "n"))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < KEPT_BYTES
