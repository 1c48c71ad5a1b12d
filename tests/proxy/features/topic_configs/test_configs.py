"""Several sidecars know the same, from the start on and whatever happens to topics and to the log."""

from __future__ import annotations

import asyncio

import pytest
from support.topic_configs import POLICY, Cluster

from kafka_sidecar.proxy.features.topic_configs import configs as module
from kafka_sidecar.proxy.features.topic_configs.configs import TopicConfigs
from kafka_sidecar.proxy.features.topic_configs.entries import (
    MAX_LAG_S,
    Change,
    Entry,
    ForgetConfigs,
    StoreConfigs,
    record_of,
)
from kafka_sidecar.proxy.relay.exchange_driver import LoopBudget
from kafka_sidecar.proxy.runtime.performer import Performer
from kafka_sidecar.proxy.runtime.threads import Threads

ORDERS, NEW = b"o" * 16, b"n" * 16


def setting(policy: str, topic_id: bytes = ORDERS) -> tuple[bytes, bytes | None]:
    return record_of(Entry("orders", topic_id, {POLICY: policy}))


async def test_all_sidecars_know_what_one_sets(cluster: Cluster) -> None:
    async with cluster.sidecar() as one, cluster.sidecar() as other:
        assert await one.store([Change("orders", {POLICY: "headers"})]) == {}
        assert other.policy_of("orders").policy == "headers"
        assert await other.store([Change("orders", {POLICY: "size"})]) == {}
        assert one.policy_of("orders").policy == "size"


async def test_a_ready_sidecar_knows_what_was_set_before(cluster: Cluster) -> None:
    cluster.log.append(*setting("headers"))
    async with cluster.sidecar() as configs:
        assert configs.ready
        assert configs.trouble is None
        assert configs.policy_of("orders").policy == "headers"


async def test_a_topic_created_again_while_no_sidecar_ran_has_no_policy(cluster: Cluster) -> None:
    cluster.log.append(*setting("headers"))
    cluster.ids["orders"] = NEW
    async with cluster.sidecar() as configs:
        assert configs.policy_of("orders", NEW).policy is None
        cluster.now += MAX_LAG_S
        configs.seen([(NEW, "orders")])
        assert configs.policy_of("orders").policy is None


async def test_a_topic_created_again_by_others_has_no_policy_after_a_refresh(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0.01)
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        cluster.ids["orders"] = NEW
        cluster.now += MAX_LAG_S
        async with asyncio.timeout(10):
            while configs.policy_of("orders").policy is not None:  # noqa: ASYNC110 - a refresh sets no event
                await asyncio.sleep(0.01)
        assert configs.policy_of("orders", ORDERS).policy == "headers"


async def test_a_topic_created_again_is_noticed_in_metadata_responses(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        configs.seen([(NEW, "orders"), (ORDERS, "payments")])
        assert configs.policy_of("orders").policy == "headers"  # it may be the former id, of a broker that lags
        cluster.now += MAX_LAG_S
        configs.seen([(NEW, "orders"), (ORDERS, "payments")])
        assert configs.policy_of("orders").policy is None


async def test_a_sidecar_becomes_ready_where_topic_ids_cannot_be_looked_up(cluster: Cluster) -> None:
    cluster.log.append(*setting("headers"))
    cluster.answers = False
    async with cluster.sidecar() as configs:
        assert configs.policy_of("orders").policy == "headers"


async def test_invalid_records_change_nothing(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        key, _ = setting("headers")
        for record in ((key, b"no entry"), (key, b"[" * 100_000), (b"no id", b"{}"), (b"", None)):
            cluster.log.append(*record)
        assert configs.unreadable == 4
        assert configs.policy_of("orders").policy == "headers"


async def test_a_log_that_is_read_again_applies_once_it_is_read_to_its_end(cluster: Cluster) -> None:
    cluster.log.append(*setting("headers"))
    async with cluster.sidecar() as configs:
        configs.began()
        configs.read(*setting("size"))
        assert configs.policy_of("orders").policy == "headers"
        configs.caught_up()
        assert configs.policy_of("orders").policy == "size"


async def test_several_changes_are_stored_together_and_fail_one_by_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WRITE_S", 2.0)
    async with cluster.sidecar() as configs:
        known = Change("orders", {POLICY: "headers"}, topic_id=ORDERS)
        failures = await configs.store([known, Change("unknown", {POLICY: "size"})])
        assert list(failures) == ["unknown"]
        assert configs.policy_of("orders").policy == "headers"


async def test_a_change_without_effect_writes_nothing(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        assert await configs.store([Change("orders", {POLICY: None})]) == {}
        assert await configs.store([Change("orders", {}, replaces=True)]) == {}
        assert cluster.log.records == []


async def test_what_exchanges_need_is_performed(cluster: Cluster) -> None:
    performer = Performer(LoopBudget(), Threads(1))
    async with cluster.sidecar() as configs:
        configs.register(performer)
        change = Change("orders", {POLICY: "headers"})
        assert await performer.perform(StoreConfigs((change,))) == {}
        assert configs.policy_of("orders").policy == "headers"
        await performer.perform(ForgetConfigs(tuple(configs.entries.of("orders", ORDERS))))
        assert configs.policy_of("orders").policy is None


async def test_the_last_configs_stay_applied_while_the_log_is_lost(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        cluster.stores[0].lose("it was created again")
        assert configs.policy_of("orders").policy == "headers"
        assert configs.unready == configs.lost == "the sidecar's topic configs are lost: it was created again"
        assert str(configs.trouble).endswith("it was created again")


async def test_nothing_is_recovered_while_nothing_is_lost(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        records = [*cluster.log.records]
        configs.recover()
        assert configs.unready is None
        assert cluster.log.records == records


async def test_a_recovered_log_gets_what_it_lacks_and_says_itself_what_it_has(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0.01)
    async with cluster.sidecar() as configs:
        for topic, policy in (("orders", "headers"), ("payments", "size")):
            await configs.store([Change(topic, {POLICY: policy})])
        cluster.stores[0].lose("it was created again", setting("newer"))
        configs.recover()
        assert configs.policy_of("orders").policy == "newer"
        assert configs.policy_of("payments").policy == "size"
        assert configs.unready == "1 topic configs are not written back yet"
        await until_recovered(configs)
        payments = record_of(Entry("payments", b"p" * 16, {POLICY: "size"}))
        assert cluster.log.records == [setting("newer"), payments]
        assert configs.policy_of("payments").policy == "size"


async def test_what_cannot_be_written_back_stays_applied_and_is_tried_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "REFRESH_S", 0.01)
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        cluster.stores[0].lose("it was deleted")
        cluster.log.fault = "no leader"
        configs.recover()
        async with asyncio.timeout(10):
            while not caplog.records:  # noqa: ASYNC110 - a refresh sets no event
                await asyncio.sleep(0.01)
        assert caplog.records[0].message == "topic configs not written back"
        cluster.stores[0].read_again()  # after a failure of its clients
        assert configs.policy_of("orders").policy == "headers"
        assert configs.unready is not None
        cluster.log.fault = None
        await until_recovered(configs)
        assert cluster.log.records == [setting("headers")]
        cluster.stores[0].read_again()
        assert configs.policy_of("orders").policy == "headers"


async def until_recovered(configs: TopicConfigs) -> None:
    async with asyncio.timeout(10):
        while configs.unready is not None:  # noqa: ASYNC110 - a refresh sets no event
            await asyncio.sleep(0.01)
