"""Fetched records that a policy rejects: hidden, marked or withheld, in Fetch and ShareFetch responses."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.client import FakeClient
from support.driven import Driven, Step, driven
from support.fetches import fetch_request, partitions_in
from support.interception import fetch_response, headers_in, values_in
from support.produce_requests import Validating, batch
from support.share_fetches import acquired_in, partition, share_request, share_response
from support.share_fetches import partitions_in as shared_in

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import MAX_REJECTIONS, TopicPolicy
from kafka_sidecar.proxy.exchanges.fetch import FetchExchange, FetchExchanges
from kafka_sidecar.proxy.exchanges.fetched_stages import FetchServices
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords
from kafka_sidecar.proxy.features.validation.consume_stage import (
    WITHHELD,
    CheckStage,
    ConsumeTerms,
    Pause,
    ShareCheckStage,
)
from kafka_sidecar.proxy.features.validation.consume_stats import ConsumeStats
from kafka_sidecar.proxy.features.validation.rules import Action, ConsumeRule, Mode, Rules, TopicRule
from kafka_sidecar.proxy.features.validation.stage import PolicyFetch, TopicConfigsKnown
from kafka_sidecar.proxy.relay.exchange import TopicIds

UNKNOWN_SERVER_ERROR = -1
LIMIT = 1 << 20
HEADER = "kafka_sidecar.invalid"


class Checking(Validating):
    """Rules for consumers of `orders`, and what they get."""

    def __init__(
        self, action: Action = "hide", mode: Mode = "enforce", percent: int = 100, *, policy: str | None = None,
        produced: str | None = "stub", **settings: Any,
    ) -> None:  # fmt: skip
        rule = TopicRule("orders", produced, mode, percent, ConsumeRule(action, policy, HEADER))
        super().__init__(rule, **settings)
        self.consume_stats = ConsumeStats(self.stats)
        self.services = FetchServices(
            name_of=lambda topic_id: topic_id.lstrip(b"\1").decode(), report=self.consume_stats, limit=self.limit,
            withheld_error=WITHHELD, pause=Pause(),
        )  # fmt: skip

    @property
    def terms(self) -> ConsumeTerms:
        return ConsumeTerms(self.rules, self.consume_stats, self.names.id_of, lambda: self.configs_are_known)

    def fetch(self, client: FakeClient | None = None) -> Driven:
        run = CheckStage(self.terms, self.services).start(client or FakeClient(), 12)
        exchange = Driven(FetchExchange([run], self.services.name_of, 12))
        exchange.request(fetch_request(12, {"orders": {0: 0}}))
        return exchange

    def fetched(self, data: bytes, **fields: Any) -> Step:
        """What a client gets of one partition, or what is needed first."""
        return self.fetch().response(fetch_response(12, {"orders": {0: {"records": data, **fields}}}))

    async def got(self, data: bytes) -> Any:
        """The partition that a client gets in the end."""
        exchange = self.fetch()
        step = exchange.response(fetch_response(12, {"orders": {0: data}}))
        return partitions_in(12, await exchange.finish(step, self.perform))["orders", 0]

    async def known_late(self, data: bytes) -> Any:
        """The same where the topic's configs are known only after they were waited for."""
        self.configs_are_known = False
        exchange = self.fetch()
        step = exchange.response(fetch_response(12, {"orders": {0: data}}))
        while isinstance(step, Work):
            step = exchange.answer(step.run())
        assert isinstance(step, TopicConfigsKnown)
        self.configs_are_known = True
        return partitions_in(12, await exchange.finish(exchange.answer(None), self.perform))["orders", 0]

    def shared(self, *topics: dict[str, Any]) -> Driven:
        exchange = driven(
            AcquiredRecords([ShareCheckStage(self.terms, self.services)], self.services.name_of), version=1,
            client=FakeClient(),
        )  # fmt: skip
        assert exchange is not None
        exchange.request(share_request(1))
        return exchange

    async def perform(self, need: Need) -> object:
        if isinstance(need, Pause | TopicConfigsKnown):
            self.needs.append(need)
            return None
        return await super().perform(need)


def of(step: Step) -> Any:
    return partitions_in(12, step)["orders", 0]


def test_rejected_records_are_hidden_and_the_others_keep_their_bytes() -> None:
    checking = Checking()
    good, mixed = batch("a", "b"), batch("good c", "bad d", "good e", base_offset=2)
    found = of(checking.fetched(good + mixed + batch("bad f", base_offset=5)))
    assert values_in(found.records) == [(0, b"a"), (1, b"b"), (2, b"good c"), (4, b"good e")]
    first, _, marker = batches(found.records)
    assert bytes(first.data) == good
    assert (marker.header.is_control, marker.header.base_offset) == (True, 5)
    assert checking.consume_stats.rejections == {("orders", "stub", "hide", "bad"): 2}
    assert checking.consume_stats.batches == {
        ("Fetch", "unchanged"): 1,
        ("Fetch", "changed"): 1,
        ("Fetch", "dropped"): 1,
    }


@pytest.mark.parametrize("codec", range(5))
def test_a_mark_is_the_last_header_and_says_policy_and_reason(codec: int) -> None:
    checking = Checking("mark")
    records = [NewRecord(b"a"), NewRecord(b"bad b", b"k", [(Header("h", b"1"))])]
    found = of(checking.fetched(build_batch(records, codec=codec)))
    assert headers_in(found.records) == [[], [("h", b"1"), (HEADER, b"stub/bad")]]
    assert values_in(found.records) == [(0, b"a"), (1, b"bad b")]
    assert checking.consume_stats.rejections == {("orders", "stub", "mark", "bad"): 1}


@pytest.mark.parametrize(("mode", "percent"), [("shadow", 100), ("enforce", 0)])
@pytest.mark.parametrize("action", ["hide", "mark"])
def test_where_a_policy_is_not_enforced_it_only_counts(action: Action, mode: Mode, percent: int) -> None:
    checking = Checking(action, mode, percent)
    data = batch("bad", "bug") + batch("away") + batch("good")
    assert bytes(of(checking.fetched(data)).records) == data
    assert checking.consume_stats.rejections == Counter()
    assert checking.stats.failures == {("stub", "shadow"): 2}
    data = batch("bad")
    assert bytes(of(checking.fetched(data)).records) == data
    assert checking.consume_stats.rejections == {("orders", "stub", "shadow", "bad"): 1}


def test_a_share_of_the_batches_is_enforced() -> None:
    checking = Checking(percent=30)
    kept = sum(bool(values_in(of(checking.fetched(batch(f"bad {number}"))).records)) for number in range(200))
    assert 100 < kept < 180


def test_a_topic_may_have_another_policy_for_consumers() -> None:
    checking = Checking(policy="other", produced=None)
    assert values_in(of(checking.fetched(batch("bad", "worse", "good"))).records) == [(0, b"bad"), (2, b"good")]


def test_a_policy_of_batch_headers_hides_or_marks_all_records() -> None:
    data = batch("a", "b")
    assert values_in(of(Checking(policy="headers:never").fetched(data)).records) == []
    found = of(Checking("mark", policy="headers:never").fetched(data))
    assert headers_in(found.records) == [[(HEADER, b"headers/rejected")]] * 2
    assert bytes(of(Checking(policy="headers:x").fetched(data)).records) == data


def test_no_record_beyond_what_a_response_to_a_producer_names_is_forgotten() -> None:
    values = [f"bad {at}" if at % 10 else "good" for at in range(3 * MAX_REJECTIONS)]
    checking = Checking()
    exchange = checking.fetch()
    step = exchange.response(fetch_response(12, {"orders": {0: batch(*values)}}))
    while isinstance(step, Work):
        step = exchange.answer(step.run())
    assert [value for _, value in values_in(of(step).records)] == [b"good"] * 300
    assert checking.consume_stats.rejections == {("orders", "stub", "hide", "bad"): 2700}


def damaged() -> bytes:
    data = bytearray(batch("bad secret"))
    data[-1] ^= 1
    return bytes(data)


def with_wrong_checksum(*values: str) -> bytes:
    data = bytearray(batch(*values))
    data[17] ^= 1
    return bytes(data)


@pytest.mark.parametrize("data", [damaged(), with_wrong_checksum("bad secret")], ids=["records", "checksum"])
@pytest.mark.parametrize(("action", "is_there"), [("hide", False), ("mark", True)])
def test_a_batch_that_cannot_be_read_is_hidden_where_records_are(action: Action, is_there: bool, data: bytes) -> None:
    checking = Checking(action)
    found = of(checking.fetched(data + batch("good", base_offset=1)))
    assert (b"secret" in bytes(found.records)) is is_there
    assert b"good" in bytes(found.records)
    result = "unreadable" if is_there else "hidden_unreadable"
    assert checking.consume_stats.batches == {("Fetch", result): 1, ("Fetch", "unchanged"): 1}


@pytest.mark.parametrize("action", ["hide", "mark"])
def test_a_damaged_batch_that_passes_is_left_to_the_client_which_checks_it(action: Action) -> None:
    data = with_wrong_checksum("good")
    assert bytes(of(Checking(action).fetched(data)).records) == data


@pytest.mark.parametrize("action", ["hide", "mark"])
def test_a_damaged_batch_on_which_a_policy_fails_is_not_asked_for_again(action: Action) -> None:
    checking = Checking(action)
    found = of(checking.fetched(with_wrong_checksum("bug")))
    assert found.error_code == 0
    assert checking.consume_stats.batches == {("Fetch", "hidden_unreadable" if action == "hide" else "unreadable"): 1}


@pytest.mark.parametrize("why", ["away", "bug"])
@pytest.mark.parametrize("action", ["hide", "mark"])
async def test_where_a_policy_cannot_decide_records_are_withheld_and_nothing_is_skipped(
    action: Action, why: str
) -> None:
    checking = Checking(action)
    found = await checking.got(batch("good") + batch("bad", base_offset=1) + batch(why, "bad", base_offset=2))
    assert [value for _, value in values_in(found.records)] == ([b"good"] if action == "hide" else [b"good", b"bad"])
    assert found.error_code == 0
    found = await checking.got(batch(why))
    assert (bytes(found.records), found.error_code) == (b"", WITHHELD)
    assert [need for need in checking.needs if isinstance(need, Pause)] == [Pause()]
    assert checking.consume_stats.batches["Fetch", "withheld"] == 2
    assert checking.stats.failures == {("stub", "enforce"): 2}


def test_what_ends_with_hidden_records_before_withheld_ones_carries_the_client_only_so_far() -> None:
    found = of(Checking().fetched(batch("bad") + batch("away", base_offset=1)))
    (marker,) = batches(found.records)
    assert (marker.header.base_offset, marker.header.last_offset_delta, found.error_code) == (0, 0, 0)


@pytest.mark.parametrize("action", ["hide", "mark"])
def test_with_on_error_open_records_on_which_a_policy_fails_are_delivered(action: Action) -> None:
    checking = Checking(action, fail_open=True)
    assert values_in(of(checking.fetched(batch("away", "bug", "good"))).records) == [
        (0, b"away"), (1, b"bug"), (2, b"good"),
    ]  # fmt: skip


async def test_a_policy_is_asked_again_once_it_has_what_it_needs() -> None:
    checking = Checking()
    found = await checking.got(batch("good", "bad") + batch("ask x", "bad", base_offset=2))
    assert values_in(found.records) == [(0, b"good"), (2, b"ask x")]
    assert [type(need) for need in checking.needs] == [PolicyFetch, Work]
    assert checking.consume_stats.rejections == {("orders", "stub", "hide", "bad"): 2}, "no batch is counted twice"


async def test_a_policy_that_asks_in_vain_has_failed() -> None:
    found = await Checking().got(batch("ask in vain"))
    assert (bytes(found.records), found.error_code) == (b"", WITHHELD)


async def test_many_records_are_validated_in_a_thread() -> None:
    checking = Checking()
    found = await checking.got(batch(*["good"] * 1000, "bad"))
    assert len(values_in(found.records)) == 1000
    assert threading.get_ident() not in checking.policy.threads
    assert [type(need) for need in checking.needs] == [Work]


class Configs:
    """What is set on topics with Kafka's own tools."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __call__(self, topic: str, topic_id: bytes) -> TopicPolicy:
        return TopicPolicy(self.text)


def configured(text: str | None) -> Checking:
    checking = Checking(produced=None)
    rule = TopicRule("orders", None, "enforce", 100, ConsumeRule("hide", None, HEADER))
    catalog = PolicyCatalog({"stub": PolicySettings("support.policies:Stub")})
    checking.rules = Rules(catalog, [rule], Configs(text))
    return checking


def test_a_policy_that_is_set_on_the_topic_holds_for_its_consumers() -> None:
    assert values_in(of(configured("stub").fetched(batch("bad", "good"))).records) == [(1, b"good")]
    assert values_in(of(configured(None).fetched(batch("bad"))).records) == [(0, b"bad")]


async def test_one_that_no_policy_understands_withholds_records() -> None:
    checking = configured("stub:nonsense")
    found = await checking.got(batch("good"))
    assert (bytes(found.records), found.error_code) == (b"", WITHHELD)


async def test_what_is_not_known_yet_is_waited_for() -> None:
    checking = configured("stub")
    found = await checking.known_late(batch("bad", "good"))
    assert values_in(found.records) == [(1, b"good")]


async def test_what_is_set_on_the_topic_wins_also_where_it_is_known_late() -> None:
    checking = Checking()  # "stub" in the file
    catalog = PolicyCatalog({"stub": PolicySettings("support.policies:Stub"), "other": PolicySettings(
        "support.policies:Stub", settings={"refused": "worse"})})  # fmt: skip
    rule = TopicRule("orders", "stub", "enforce", 100, ConsumeRule("hide", None, HEADER))
    checking.rules = Rules(catalog, [rule], Configs("other"))
    found = await checking.known_late(batch("bad", "worse"))
    assert values_in(found.records) == [(0, b"bad")]


async def test_and_withheld_where_it_takes_too_long() -> None:
    checking = configured("stub")
    checking.configs_are_known = False
    found = await checking.got(batch("good"))
    assert (bytes(found.records), found.error_code) == (b"", WITHHELD)


def test_records_of_other_topics_pass_as_they_came() -> None:
    checking = Checking()
    frame = fetch_response(12, {"free": {0: batch("bad")}, "orders": {0: batch("good")}})
    assert checking.fetch().response(frame) == frame
    exchanges = FetchExchanges([CheckStage(checking.terms, checking.services)], checking.services.name_of)
    assert (exchanges.stages[0].wants("orders"), exchanges.stages[0].wants("free")) == (True, False)
    assert (exchanges.stages[0].hides("orders"), exchanges.stages[0].hides("free")) == (True, False)


def test_only_what_hides_must_see_every_fetch_session() -> None:
    for action, expected in (("hide", True), ("mark", False)):
        checking = Checking(action)  # type: ignore[arg-type]
        assert CheckStage(checking.terms, checking.services).fail_closed is expected


def test_aborted_transactions_are_not_counted_for_who_reads_committed_records() -> None:
    checking = Checking()
    data = build_batch([NewRecord(b"bad")], attributes=0x10, producer_id=7, producer_epoch=0)
    run = CheckStage(checking.terms, checking.services).start(FakeClient(), 12)
    exchange = Driven(FetchExchange([run], checking.services.name_of, 12))
    exchange.request(fetch_request(12, {"orders": {0: 0}}, isolation_level=1))
    aborted = [{"producer_id": 7, "first_offset": 0}]
    exchange.response(fetch_response(12, {"orders": {0: {"records": data, "aborted_transactions": aborted}}}))
    assert checking.consume_stats.rejections == Counter()


def test_a_member_of_a_share_group_acknowledges_hidden_records_as_gaps() -> None:
    checking = Checking()
    exchange = checking.shared()
    data = batch("good", "bad", base_offset=5) + batch("bad", base_offset=7)
    found = shared_in(1, exchange.response(share_response(1, {"orders": [partition(data, (5, 7))]})))["orders", 0]
    assert values_in(found.records) == [(5, b"good")]
    assert acquired_in(found) == [(5, 7)]


async def test_what_is_withheld_from_it_is_not_acquired() -> None:
    checking = Checking()
    exchange = checking.shared()
    data = batch("bad", base_offset=5) + batch("away", base_offset=6)
    frame = share_response(1, {"orders": [partition(data, (5, 6)), partition(batch("away"), (0, 0))]})
    found = shared_in(1, await exchange.finish(exchange.response(frame), checking.perform))
    assert acquired_in(found["orders", 0]) == [(5, 5)]
    assert (acquired_in(found["orders", 1]), found["orders", 1].error_code) == ([], UNKNOWN_SERVER_ERROR)
    assert [need for need in checking.needs if isinstance(need, Pause)] == [Pause()]


def test_records_that_take_too_long_are_withheld() -> None:
    checking = Checking()
    exchange = checking.fetch()
    step = exchange.response(fetch_response(12, {"orders": {0: batch(*["bad"] * 2000)}}))
    assert isinstance(step, Work)
    assert isinstance(exchange.fail(TimeoutError()), Pause)
    found = of(exchange.answer())
    assert (bytes(found.records), found.error_code) == (b"", WITHHELD)
    assert checking.consume_stats.batches == {("Fetch", "timed_out"): 1}


def lines(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[str, Any]]:
    return ((one.message, getattr(one, "topic", None)) for one in caplog.records)


def test_log_lines_are_limited_and_have_the_id_of_what_can_be_explained(caplog: pytest.LogCaptureFixture) -> None:
    checking = Checking()
    for _ in range(5):
        checking.fetched(batch("bad secret"))
    assert [*lines(caplog)] == [("fetched records rejected", "orders")]
    (kept,) = checking.stats.recent.newest()
    assert (kept.id, kept.mode) == (caplog.records[0].rejection, "hide")  # type: ignore[attr-defined]
    assert "secret" not in caplog.text


def test_a_client_that_would_show_a_marker_gets_none() -> None:
    checking = Checking()
    checking.services = replace(checking.services, hold_for=("app",))
    exchange = checking.fetch(FakeClient(client_id="app"))
    step = exchange.response(fetch_response(12, {"orders": {0: {"records": batch("bad"), "high_watermark": 1}}}))
    assert isinstance(step, TopicIds)
    found = of(exchange.answer({}))
    assert (bytes(found.records), found.error_code, found.high_watermark) == (b"", 0, 0)


def test_few_records_of_a_slow_policy_are_validated_in_a_thread() -> None:
    checking = Checking()
    applied = checking.rules.of("orders", bytes(16))
    assert applied is not None
    applied.plan.pace.records_at_once = 3
    assert isinstance(checking.fetched(batch("good", "good", "good", "good")), Work)
    assert isinstance(checking.fetched(batch("good", "good")), bytes)
