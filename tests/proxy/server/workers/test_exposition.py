"""The metrics of workers."""

from __future__ import annotations

from support.workers import Group, turns

from kafka_sidecar.proxy.server.workers.exposition import collect


async def test_workers_and_their_restarts_are_counted() -> None:
    group = Group(3)
    await group.serve()
    group.child(2).die()
    await turns()
    samples = [
        (one.name, dict(one.labels), one.value) for family in collect(group.supervisor) for one in family.samples
    ]
    assert samples == [
        ("kafka_sidecar_workers", {}, 3),
        ("kafka_sidecar_workers_serving", {}, 2),
        ("kafka_sidecar_worker_restarts_total", {"worker": "1"}, 0),
        ("kafka_sidecar_worker_restarts_total", {"worker": "2"}, 1),
        ("kafka_sidecar_worker_restarts_total", {"worker": "3"}, 0),
    ]
