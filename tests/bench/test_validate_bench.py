"""`make bench-validate` sends requests like a producer's, and its values are JSON of the given size."""

from __future__ import annotations

import random

import pytest
import validate
from json_values import value
from kio.schema.produce.v12.request import ProduceRequest
from kio.schema.produce.v12.response import ProduceResponse
from kio.serial import entity_reader
from rig import frames
from rig.driver import Workload

from kafka_sidecar.codec.json.syntax import find_fault
from kafka_sidecar.codec.records import batches

pytestmark = pytest.mark.program

LOADS = validate.workloads()
each_load = pytest.mark.parametrize("load", LOADS, ids=[load.title for load in LOADS])


@each_load
def test_a_request_has_the_number_of_records_of_its_workload(load: Workload) -> None:
    data = load.request().one(7)

    _, header_size = entity_reader(ProduceRequest.__header_schema__)(data, 4)
    request, _ = entity_reader(ProduceRequest)(data, 4 + header_size)

    partitions = request.topic_data[0].partition_data
    assert [partition.index for partition in partitions] == [0, 1, 2]
    found = [list(batches(partition.records or b"")) for partition in partitions]
    assert [len(each) for each in found] == [1, 1, 1]
    assert sum(len(batch.records()) for each in found for batch in each) == load.records
    values = [one.value or b"" for each in found for one in each[0].records()]
    assert all(find_fault(value, 0, len(value), 8) is None for value in values)


@pytest.mark.parametrize("partitions", [1, 3])
def test_every_partition_has_a_response(partitions: int) -> None:
    data = frames.response(frames.produce_response(partitions)).one(7)

    _, header_size = entity_reader(ProduceResponse.__header_schema__)(data, 4)
    response, _ = entity_reader(ProduceResponse)(data, 4 + header_size)

    assert [each.index for each in response.responses[0].partition_responses] == list(range(partitions))
    assert frames.produce_error(data[4:]) == 0


@pytest.mark.parametrize("size", [100, 1 << 10, 64 << 10])
def test_a_value_is_json_of_exactly_the_given_size(size: int) -> None:
    text = value(size, random.Random(size))
    assert len(text) == size
    assert find_fault(text, 0, size, 8) is None
