"""DeleteTopics forgets what was set, by name and by id, where the broker has deleted."""

from __future__ import annotations

from typing import Any

import pytest
from support import oracle
from support.client import SOMEBODY

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.proxy.relay.exchange import Hold
from kafka_sidecar.proxy.topic_configs.keeper import Change

POLICY = "record.validation.policy"
ORDERS = b"o" * 16
DELETE = ApiKey.DELETE_TOPICS


def by_name(version: int, *topics: str) -> dict[str, Any]:
    return {"topics": [{"name": t, "topic_id": None} for t in topics]} if version >= 6 else {"topic_names": topics}


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_deleted_topic_is_forgotten(world: Any, say: Any, version: int) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"}), Change("payments", {POLICY: "size"})])
        answer = {"responses": [{"name": "orders"}, {"name": "payments", "error_code": 29}]}
        said = await say(configs, DELETE, version, by_name(version, "orders", "payments"), answer)
        assert said.same_request
        assert said.same_response
        assert [configs.policy_of(topic) for topic in ("orders", "payments")] == [None, "size"]
        assert len(world.log.records) == 3


@pytest.mark.parametrize("name", ["orders", None])
async def test_a_topic_deleted_by_its_id_is_forgotten(world: Any, say: Any, name: str | None) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        answer = {"responses": [{"name": name, "topic_id": ORDERS}]}
        await say(configs, DELETE, 6, {"topics": [{"name": None, "topic_id": ORDERS}]}, answer)
        assert configs.policy_of("orders") is None


async def test_topics_for_which_nothing_is_set_pass_without_a_look_at_the_answer(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        said = await say(configs, DELETE, 6, by_name(6, "orders"), {"responses": [{"name": "orders"}]})
        assert said.same_response
        assert world.log.records == []


async def test_what_is_set_for_a_topic_made_again_before_the_answer_is_here_stays(world: Any) -> None:
    async with world.sidecar() as one, world.sidecar() as other:
        await one.alter([Change("orders", {POLICY: "headers"})])
        asked = oracle.request_frame(oracle.request(DELETE, 6, **by_name(6, "orders")), 1)
        answer = oracle.response_frame(oracle.response(DELETE, 6, responses=[{"name": "orders"}]), 1)
        begin = one.exchange(DELETE, 6)
        assert begin is not None
        exchange = begin(asked, 0, len(asked), SOMEBODY)
        assert exchange is not None
        assert exchange.request(asked) is asked
        await other.alter([Change("orders", {POLICY: "anew"}, topic_id=b"2" * 16)])
        held = exchange.response(answer)
        assert isinstance(held, Hold)
        await held.wait()
        assert held.then() is answer
        assert one.policy_of("orders") == other.policy_of("orders") == "anew"
        assert [value is None for _, value in world.log.records] == [False, True, False, True]


async def test_what_cannot_be_forgotten_is_no_error_of_the_clients(world: Any, say: Any) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        world.log.fault = "the disk is full"
        said = await say(configs, DELETE, 6, by_name(6, "orders"), {"responses": [{"name": "orders"}]})
        assert said.same_response
        configs.seen([(b"2" * 16, "orders")])
        assert configs.policy_of("orders") is None
