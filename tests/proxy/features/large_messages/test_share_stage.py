"""Large messages in ShareFetch responses: what a member of a share group gets, and what it has acquired."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from support.client import FakeClient
from support.driven import Step, driven
from support.large_fetches import ORDERS, Cluster
from support.large_logs import Log, message_id, sliced
from support.produce_requests import batch
from support.share_fetches import acquired_in, partition, partitions_in, share_request, share_response

from kafka_sidecar.codec.records import Header, NewRecord, batches, build_batch
from kafka_sidecar.large_messages import object_reference
from kafka_sidecar.large_messages.object_reference import ObjectReference, new_key
from kafka_sidecar.large_messages.settings import TopicSettings
from kafka_sidecar.plugins.effects import Turn
from kafka_sidecar.proxy.exchanges.share_fetch import AcquiredRecords
from kafka_sidecar.proxy.features.large_messages.assemble_stage import ShareAssembleStage
from kafka_sidecar.proxy.features.large_messages.object_needs import GetObject
from kafka_sidecar.proxy.relay.memory_budget import Account, MemoryBudget
from kafka_sidecar.proxy.telemetry.metrics import Buffered

VALUE = bytes(range(256)) * 40
NOT_LEADER = 6


def large_log() -> Log:
    """first, 1 to 11: VALUE, last."""
    log = Log()
    log.add(b"first")
    log.add_large(VALUE, 11, 1, topic_id=ORDERS)
    log.add(b"last")
    return log


def respond(cluster: Cluster, data: bytes, *acquired: tuple[int, int], client: FakeClient | None = None) -> Step:
    stage = ShareAssembleStage(lambda topic: cluster.settings if topic == "orders" else None, cluster.services)
    run = AcquiredRecords([stage], cluster.services.name_of)
    exchange = driven(run, version=1, client=client or FakeClient())
    assert exchange is not None
    exchange.request(share_request(1))
    step = exchange.response(share_response(1, {"orders": [partition(data, *acquired)]}))
    return cluster.settle(13, exchange, step)


def values_of(step: Step) -> list[bytes | None]:
    one = partitions_in(1, step)["orders", 0]
    return [record.value for found in batches(one.records) if not found.header.is_control for record in found.records()]


def test_slices_are_gaps_and_the_carrier_is_whole() -> None:
    log = large_log()
    response = respond(Cluster({0: log}), log.fetch(0, 1 << 20), (0, 12))
    assert values_of(response) == [b"first", VALUE, b"last"]
    assert acquired_in(partitions_in(1, response)["orders", 0]) == [(0, 12)]


@pytest.mark.parametrize("acquired", [(11, 11), (9, 12)])
def test_the_member_that_has_acquired_the_carrier_gets_the_message(acquired: tuple[int, int]) -> None:
    log = large_log()
    cluster = Cluster({0: log})
    response = respond(cluster, log.fetch(acquired[0], 1 << 20), acquired)
    assert VALUE in values_of(response)
    assert cluster.reads[0][1] == 1


def test_a_member_gets_a_value_that_is_an_object() -> None:
    key = new_key("orders", bytes(16))
    reference = Header(object_reference.KEY, ObjectReference(key, len(VALUE), crc32c(VALUE)).encode())
    log = Log()
    log.append(build_batch([NewRecord(key.encode(), b"k", (reference,))]))
    cluster = Cluster({0: log}, settings=TopicSettings(store="object"))
    stage = ShareAssembleStage(lambda topic: cluster.settings, cluster.services)
    exchange = driven(AcquiredRecords([stage], cluster.services.name_of), version=1, client=FakeClient())
    assert exchange is not None
    exchange.request(share_request(1))
    step = exchange.response(share_response(1, {"orders": [partition(log.fetch(0, 1 << 20), (0, 0))]}))
    while isinstance(step, Turn):
        step = exchange.answer(None)
    assert step == GetObject(key, len(VALUE))
    assert values_of(cluster.settle(13, exchange, exchange.answer(VALUE))) == [VALUE]


def test_a_member_that_has_acquired_slices_alone_gets_a_marker_to_acknowledge_them() -> None:
    log = large_log()
    response = respond(Cluster({0: log}), log.fetch(1, 1), (1, 1))
    (marker,) = batches(partitions_in(1, response)["orders", 0].records)
    assert (marker.header.is_control, marker.header.base_offset) == (True, 1)
    assert acquired_in(partitions_in(1, response)["orders", 0]) == [(1, 1)]


def test_what_the_broker_does_not_let_be_read_now_is_not_acquired() -> None:
    log = large_log()
    cluster = Cluster({0: log})
    cluster.error_code = NOT_LEADER
    response = respond(cluster, log.fetch(10, 1 << 20), (10, 12))
    one = partitions_in(1, response)["orders", 0]
    assert (values_of(response), acquired_in(one)) == ([], [(10, 10)])
    alone = partitions_in(1, respond(cluster, log.fetch(11, 1 << 20), (11, 12)))["orders", 0]
    assert (alone.records, acquired_in(alone), alone.error_code) == (b"", [], NOT_LEADER)


def test_segments_that_others_have_acquired_complete_a_message_too() -> None:
    log = Log()
    log.add_segments(VALUE, 4, 1, range(4))
    log.add(b"last")
    assert values_of(respond(Cluster({0: log}), log.fetch(3, 1 << 20), (3, 4))) == [VALUE, b"last"]


def test_so_do_those_in_the_response_that_others_have_acquired() -> None:
    log = Log()
    log.add_segments(VALUE, 4, 1, range(4))
    log.add(b"last")
    response = respond(Cluster({0: log}), log.fetch(0, 1 << 20), (3, 4))
    assert [one for one in values_of(response) if one and len(one) > 2000] == [VALUE]


def test_memory_is_reserved_for_a_message_and_released_after_it() -> None:
    budget, log = MemoryBudget(1 << 40, Buffered()), large_log()
    respond(Cluster({0: log}), log.fetch(9, 1 << 20), (9, 12), client=FakeClient(account=Account(budget)))
    assert (budget.peak, budget.spent) == (2 * len(VALUE), 0)


def test_topics_without_large_messages_stay_as_they_came() -> None:
    stage = ShareAssembleStage(lambda topic: None, Cluster({}).services)
    exchange = driven(AcquiredRecords([stage], Cluster({}).services.name_of), version=1, client=FakeClient())
    assert exchange is not None
    exchange.request(share_request(1))
    data = sliced(VALUE, 3, message_id(1))[0] + batch("x", base_offset=1)
    frame = share_response(1, {"orders": [partition(data, (0, 1))]})
    assert exchange.response(frame) is frame


def test_a_member_gets_the_message_once_the_broker_no_longer_throttles_the_read() -> None:
    log = large_log()
    response = respond(Cluster({0: log}, throttled=2), log.fetch(11, 1 << 20), (11, 11))
    assert VALUE in values_of(response)


def test_a_member_gets_no_damaged_slice_and_has_not_acquired_it() -> None:
    log = large_log()
    data = bytearray(log.batches[4])
    data[-1] ^= 1
    log.batches[4] = bytes(data)
    response = respond(Cluster({0: log}), log.fetch(0, 1 << 20), (0, 12))
    assert values_of(response) == [b"first"]
    assert acquired_in(partitions_in(1, response)["orders", 0]) == [(0, 3)]
