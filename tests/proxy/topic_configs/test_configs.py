"""Several sidecars know the same, from the start on and whatever becomes of topics and of the log."""

from __future__ import annotations

from typing import Any

from support.in_process import until

from kafka_sidecar.proxy.topic_configs.entries import Entry, record_of
from kafka_sidecar.proxy.topic_configs.keeper import Change

POLICY = "record.validation.policy"
ORDERS, ANEW = b"o" * 16, b"n" * 16


def setting(policy: str, topic_id: bytes = ORDERS) -> tuple[bytes, bytes | None]:
    return record_of(Entry("orders", topic_id, {POLICY: policy}))


async def test_what_one_sidecar_sets_all_know(world: Any) -> None:
    async with world.sidecar() as one, world.sidecar() as other:
        assert await one.alter([Change("orders", {POLICY: "headers"})]) == {}
        assert other.policy_of("orders") == "headers"
        assert await other.alter([Change("orders", {POLICY: "size"})]) == {}
        assert one.policy_of("orders") == "size"


async def test_what_was_set_before_is_known_when_a_sidecar_is_ready(world: Any) -> None:
    world.log.append(*setting("headers"))
    async with world.sidecar() as configs:
        assert configs.ready
        assert configs.trouble is None
        assert configs.policy_of("orders") == "headers"


async def test_a_topic_made_again_while_no_sidecar_ran_has_no_policy(world: Any) -> None:
    world.log.append(*setting("headers"))
    world.ids["orders"] = ANEW
    async with world.sidecar() as configs:
        assert configs.policy_of("orders") is None


async def test_a_topic_made_again_by_somebody_else_is_noticed(world: Any) -> None:
    async with world.sidecar(refresh_s=0.01) as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        world.changed.clear()
        world.ids["orders"] = ANEW
        asked = world.asked
        await until(lambda: world.asked >= asked + 3)
        assert world.changed == ["orders"]
        assert configs.policy_of("orders", ORDERS) == "headers"


async def test_a_topic_made_again_is_noticed_in_what_clients_are_told(world: Any) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        configs.seen([(ANEW, "orders"), (ORDERS, "payments")])
        assert configs.policy_of("orders") is None
        assert world.changed == ["orders", "orders"]


async def test_a_cluster_that_cannot_be_asked_for_ids_keeps_no_sidecar_from_being_ready(world: Any) -> None:
    world.log.append(*setting("headers"))
    world.can_be_asked = False
    async with world.sidecar() as configs:
        assert configs.policy_of("orders") == "headers"


async def test_records_that_are_no_entries_change_nothing(world: Any) -> None:
    async with world.sidecar() as configs:
        await configs.alter([Change("orders", {POLICY: "headers"})])
        key, _ = setting("headers")
        for record in ((key, b"no entry"), (key, b"[" * 100_000), (b"no id", b"{}"), (b"", None)):
            world.log.append(*record)
        assert configs.unreadable == 4
        assert configs.policy_of("orders") == "headers"


async def test_a_log_that_is_read_anew_is_used_once_it_is_read_to_its_end(world: Any) -> None:
    world.log.append(*setting("headers"))
    async with world.sidecar() as configs:
        world.changed.clear()
        configs.began()
        configs.read(*setting("size"))
        assert configs.policy_of("orders") == "headers"
        configs.caught_up()
        assert configs.policy_of("orders") == "size"
        assert world.changed == ["orders"]


async def test_several_changes_are_stored_together_and_fail_one_by_one(world: Any) -> None:
    async with world.sidecar(write_limit_s=0.2) as configs:
        known = Change("orders", {POLICY: "headers"}, topic_id=ORDERS)
        failures = await configs.alter([known, Change("unknown", {POLICY: "size"})])
        assert list(failures) == ["unknown"]
        assert configs.policy_of("orders") == "headers"


async def test_what_changes_nothing_writes_nothing(world: Any) -> None:
    async with world.sidecar() as configs:
        assert await configs.alter([Change("orders", {POLICY: None})]) == {}
        assert await configs.alter([Change("orders", {}, replaces=True)]) == {}
        assert world.log.records == []
