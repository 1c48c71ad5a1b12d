"""DeleteTopics: what was set is forgotten, by name and by id, where the broker has deleted the topic."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.topic_configs import CORRELATION_ID, POLICY, Cluster, begin, perform, send

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.features.topic_configs.entries import MAX_LAG_S, Change, Entry, ForgetConfigs

ORDERS = b"o" * 16
DELETE = ApiKey.DELETE_TOPICS


def by_name(version: int, *topics: str) -> dict[str, Any]:
    return {"topics": [{"name": t, "topic_id": None} for t in topics]} if version >= 6 else {"topic_names": topics}


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_deleted_topic_is_forgotten(cluster: Cluster, version: int) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"}), Change("payments", {POLICY: "size"})])
        response = {"responses": [{"name": "orders"}, {"name": "payments", "error_code": 29}]}
        result = await send(configs, DELETE, version, by_name(version, "orders", "payments"), response)
        assert result.same_request
        assert result.same_response
        assert [configs.policy_of(topic).policy for topic in ("orders", "payments")] == [None, "size"]
        assert len(cluster.log.records) == 3


@pytest.mark.parametrize("name", ["orders", None])
async def test_a_topic_deleted_by_its_id_is_forgotten(cluster: Cluster, name: str | None) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        response = {"responses": [{"name": name, "topic_id": ORDERS}]}
        await send(configs, DELETE, 6, {"topics": [{"name": None, "topic_id": ORDERS}]}, response)
        assert configs.policy_of("orders").policy is None


async def test_the_response_for_topics_without_own_configs_is_not_read(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        result = await send(configs, DELETE, 6, by_name(6, "orders"), {"responses": [{"name": "orders"}]})
        assert result.same_response
        assert cluster.log.records == []


async def test_what_is_set_for_a_topic_created_again_before_the_response_stays(cluster: Cluster) -> None:
    async with cluster.sidecar() as one, cluster.sidecar() as other:
        await one.store([Change("orders", {POLICY: "headers"})])
        request = oracle.request_frame(oracle.request(DELETE, 6, **by_name(6, "orders")), CORRELATION_ID)
        response = oracle.response_frame(oracle.response(DELETE, 6, responses=[{"name": "orders"}]), CORRELATION_ID)
        exchange = begin(one, DELETE, 6)
        assert exchange.request(request) is request
        await other.store([Change("orders", {POLICY: "new"}, topic_id=b"2" * 16)])
        need = exchange.response(response)
        assert need == ForgetConfigs((Entry("orders", ORDERS, {POLICY: "headers"}),))
        assert exchange.answer(await perform(one, need)) is response
        assert one.policy_of("orders").policy == other.policy_of("orders").policy == "new"
        assert [value is None for _, value in cluster.log.records] == [False, True, False, True]


async def test_an_entry_that_cannot_be_removed_is_not_an_error_for_the_client(cluster: Cluster) -> None:
    async with cluster.sidecar() as configs:
        await configs.store([Change("orders", {POLICY: "headers"})])
        cluster.log.fault = "the disk is full"
        result = await send(configs, DELETE, 6, by_name(6, "orders"), {"responses": [{"name": "orders"}]})
        assert result.same_response
        cluster.now += MAX_LAG_S
        configs.seen([(b"2" * 16, "orders")])
        assert configs.policy_of("orders").policy is None
