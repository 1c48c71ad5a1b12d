"""Stages compose: each sees what those before have left, and one that changes nothing undoes no change of another."""

from __future__ import annotations

import ast
import gc
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.driven import Driven
from support.features import started
from support.fetches import fetch_request, request_in, values_by_partition
from support.interception import fetch_response
from support.pages import ROOT, statements
from support.produce_requests import batch, produce_request, results
from support.share_fetches import partition as share_partition
from support.share_fetches import partitions_in, share_response

from kafka_sidecar.codec.apis import ApiKey, ErrorCode
from kafka_sidecar.codec.envelope import OpenRequest, open_request
from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.codec.scan import ProduceSpans, TopicSpan, scan_produce
from kafka_sidecar.plugins.effects import Steps, TimeLeft
from kafka_sidecar.proxy.exchanges.fetch import FetchedPartition, FetchExchange, FetchStart
from kafka_sidecar.proxy.exchanges.messages import MessageExchange
from kafka_sidecar.proxy.exchanges.produce import Fallback, PartitionRecords, ProduceExchange, TopicRun
from kafka_sidecar.proxy.exchanges.produce_response import PartitionKey, PartitionRejection, Results
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredPartition, AcquiredRecordsRun
from kafka_sidecar.proxy.relay.exchange import LargeByPartition, Respond

# A stage: what it adds to the values of each partition; None: it looks and changes nothing.
Changes = Sequence[str | None]
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE
changes = st.lists(st.none() | st.sampled_from("abc"), max_size=5)


def values_of(data: bytes | memoryview) -> list[str]:
    return [(record.value or b"").decode() for one in batches(data) for record in one.records()]


def values_sent(step: Any) -> list[str]:
    """The values of the one batch in a Produce request."""
    return values_of(request_in(9, step, ApiKey.PRODUCE).topic_data[0].partition_data[0].records)


@dataclass
class Adds:
    """A stage that adds a value to each partition, or only looks."""

    change: str | None
    seen: list[list[str]]
    wants_empty = False
    restores = False
    wants_response = False
    needs_records = True
    splits = validates = False
    large: LargeByPartition = field(default_factory=dict)

    def close(self) -> None:
        return

    def added(self, partition: FetchedPartition | AcquiredPartition) -> None:
        self.seen.append(values_of(bytes(partition.records)))
        if self.change is not None:
            partition.replace(batch(*self.seen[-1], self.change))

    def wants(self, topic: str) -> bool:
        return True


class AddsToFetch(Adds):
    def open(self, frame: bytes, start: FetchStart) -> Steps[bytes]:
        yield from ()
        return frame

    def open_relayed(self, isolation_level: int) -> None:
        return

    def partition(self, partition: FetchedPartition) -> None:
        self.added(partition)

    def finish(self) -> None:
        return


class AddsToShareFetch(Adds):
    def partition(self, partition: AcquiredPartition) -> Steps[None]:
        yield from ()
        self.added(partition)


class AddsToProduce(Adds):
    def open(self, request: OpenRequest, spans: ProduceSpans) -> None:
        return

    def admit(self, topic: str | None, topic_id: bytes, span: TopicSpan) -> TopicRun:
        return self

    def expect(self, partitions: Sequence[PartitionRecords]) -> None:
        return

    def batch(self, partition: PartitionRecords) -> None:
        self.seen.append([(record.value or b"").decode() for record in partition.records(1 << 20)])
        assert [self.seen[-1]] == [values_of(partition.valid_batch.data)]
        if self.change is not None:
            partition.replace(batch(*self.seen[-1], self.change))

    def sent(self) -> None:
        return

    def answered(self, results: Results) -> None:
        return

    def unanswered(self, rejected: set[PartitionKey], why: str) -> None:
        return

    def lost(self, why: str) -> None:
        return


def expected(given_changes: Changes) -> tuple[list[list[str]], list[str]]:
    """What each stage sees, and what is left after all."""
    values, seen = ["sent"], list[list[str]]()
    for change in given_changes:
        seen.append([*values])
        values += [change] if change is not None else []
    return seen, values


def no_name(topic_id: bytes) -> str | None:
    return None


@given(changes)
def test_what_a_stage_changes_in_a_fetch_stays_whatever_stages_follow(given_changes: Changes) -> None:
    seen: list[list[str]] = []
    exchange = Driven(FetchExchange([AddsToFetch(one, seen) for one in given_changes], no_name, 12))
    exchange.request(fetch_request(12, {"orders": {0: 0}}))
    frame = fetch_response(12, {"orders": {0: batch("sent")}})
    step = exchange.response(frame)
    left = [(value or b"").decode() for _, value in values_by_partition(12, step)["orders", 0]]
    assert (seen, left) == expected(given_changes)
    assert (step is frame) == (not any(given_changes))


@given(changes)
def test_what_a_stage_changes_in_a_share_fetch_stays_whatever_stages_follow(given_changes: Changes) -> None:
    seen: list[list[str]] = []
    runs = [AddsToShareFetch(one, seen) for one in given_changes]
    records = AcquiredRecordsRun(runs, lambda topic_id: "orders", 1)
    exchange = Driven(MessageExchange([records], 1))
    frame = share_response(1, {"orders": [share_partition(batch("sent"), (0, 0))]})
    step = exchange.response(frame)
    assert (seen, values_of(partitions_in(1, step)["orders", 0].records)) == expected(given_changes)
    assert (step is frame) == (not any(given_changes))


@given(changes)
def test_what_a_stage_changes_in_a_produce_stays_whatever_stages_follow(given_changes: Changes) -> None:
    seen: list[list[str]] = []
    exchange = Driven(ProduceExchange([AddsToProduce(one, seen) for one in given_changes], no_name, 9))
    frame = produce_request(9, {"orders": {0: batch("sent")}})
    step = exchange.request(frame)
    assert (seen, values_sent(step)) == expected(given_changes)
    assert (step is frame) == (not any(given_changes))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (PartitionRecords, "new"),
        (PartitionRecords, "batch"),
        (FetchedPartition, "records"),
        (AcquiredPartition, "records"),
    ],
)
def test_no_stage_can_assign_what_another_one_has_left(kind: type, name: str) -> None:
    """Assigning None for "unchanged" has sent the broker's slices to consumers."""
    assert isinstance(inspect.getattr_static(kind, name), property)
    assert inspect.getattr_static(kind, name).fset is None


class Grows(AddsToProduce):
    """A stage that makes the batch larger, and knows that it may be too large then."""

    def __init__(self, seen: list[list[str]], used: list[bool]) -> None:
        super().__init__("grown", seen)
        self._used = used

    def batch(self, partition: PartitionRecords) -> None:
        self.change = None
        super().batch(partition)
        partition.replace(batch(*self.seen[-1], "grown"), Fallback(self, lambda: self._used.append(True)))


class Rejects(AddsToProduce):
    """A stage that rejects grown batches, or all."""

    def __init__(self, seen: list[list[str]], code: int, rejects_all: bool) -> None:
        super().__init__(None, seen)
        self._code = code
        self._rejects_all = rejects_all

    def batch(self, partition: PartitionRecords) -> None:
        super().batch(partition)
        if self._rejects_all or "grown" in self.seen[-1]:
            partition.rejection = PartitionRejection(self._code, "no")


def test_a_batch_that_a_stage_has_made_too_large_goes_on_as_it_was_before() -> None:
    seen, used = list[list[str]](), list[bool]()
    runs = [AddsToProduce("a", []), Grows([], used), AddsToProduce("b", []), Rejects(seen, TOO_LARGE, False)]
    exchange = Driven(ProduceExchange(runs, no_name, 9))
    step = exchange.request(produce_request(9, {"orders": {0: batch("sent")}}))
    assert values_sent(step) == ["sent", "a", "b"]
    assert (seen, used) == ([["sent", "a", "grown", "b"], ["sent", "a", "b"]], [True])


@pytest.mark.parametrize(("code", "times"), [(TOO_LARGE, 2), (ErrorCode.INVALID_RECORD, 1)])
def test_a_batch_that_is_rejected_all_the_same_is_rejected(code: int, times: int) -> None:
    seen, used = list[list[str]](), list[bool]()
    exchange = Driven(ProduceExchange([Grows([], used), Rejects(seen, code, True)], no_name, 9))
    step = exchange.request(produce_request(9, {"orders": {0: batch("sent")}}))
    assert isinstance(step, Respond)
    assert results(9, step.frame) == [("orders", 0, code, -1)]
    assert len(seen) == times


@pytest.mark.bulk
def test_no_exchange_is_created_with_another_one() -> None:
    """What has to happen before and after is a stage of the same exchange, or a gate of the session."""
    nested = [
        node.name
        for path in (ROOT / "proxy").rglob("*.py")
        for node in statements(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and _takes_exchange(node)
    ]
    assert nested == []


def _takes_exchange(node: ast.ClassDef) -> bool:
    return any(
        argument.annotation is not None and ast.unparse(argument.annotation) in {"Exchange", "Exchange | None"}
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
        for argument in function.args.args
    )


ALL = {
    "topics": [{"name": "orders", "policy": "json"}],
    "large_messages": {
        "object_store": "memory://",
        "topics": [{"name": "orders", "store": "object", "deliver_headers": True}, {"name": "payments"}],
    },
    "authorization": {"default": "allow"},
}


def test_no_stage_of_any_feature_has_time_that_requests_would_share() -> None:
    """What a request uses up of its time limit must not be missing to the next one."""
    features = started(**ALL)
    assert not [one for one in _reachable(features) if isinstance(one, TimeLeft)]


def _reachable(of: object) -> Iterator[object]:
    """Objects of this project that an object refers to, whatever is between them."""
    pending, seen = [of], set[int]()
    while pending:
        one = pending.pop()
        if id(one) in seen or isinstance(one, type) or inspect.ismodule(one):
            continue
        seen.add(id(one))
        yield one
        is_function: Callable[[object], bool] = inspect.isfunction
        held = gc.get_referents(one)
        if is_function(one):  # not its module
            held = [*(one.__closure__ or ()), *(one.__defaults__ or ())]  # type: ignore[attr-defined]
        pending += held


def test_that_test_finds_time_that_is_shared() -> None:
    features = started(**ALL)
    shared = TimeLeft("validation", 1.0, 1.0)
    features.interception.shared = lambda: shared  # type: ignore[union-attr]
    assert [one for one in _reachable(features) if isinstance(one, TimeLeft)]


def test_a_batch_is_what_the_stages_before_have_left() -> None:
    (one,) = batches(batch("sent"))
    frame = produce_request(9, {"orders": {0: batch("sent")}})
    (topic,) = scan_produce(frame, open_request(frame).body_at, 9).topics
    partition = PartitionRecords("orders", topic.partitions[0], one, None)
    assert partition.records(1 << 20) is partition.records(1 << 20)
    partition.replace(batch("new", "newer"))
    assert isinstance(partition.batch, Batch)
    assert (partition.header.count, len(partition.records(1 << 20))) == (2, 2)
