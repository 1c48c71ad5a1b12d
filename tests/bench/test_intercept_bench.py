"""`make bench-intercept`: each sidecar has the interceptors of its column, and interceptors see every batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import intercept
import pytest
from kio.schema.fetch.v17.response import FetchResponse
from kio.schema.produce.v12.request import ProduceRequest
from kio.serial import entity_reader
from rig import frames
from rig.columns import configs_of
from rig.driver import Workload

from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.policies.plans import ignore_failure
from kafka_sidecar.proxy.features.interception.from_config import NoReport, catalog
from kafka_sidecar.proxy.features.validation.from_config import rules

pytestmark = pytest.mark.program

TOPIC = frames.TOPIC.decode()


def test_each_sidecar_has_the_interceptors_and_the_policy_of_its_column(tmp_path: Path) -> None:
    found = {}
    for name, config in configs_of(intercept.peers(tmp_path), tmp_path).items():
        chains = catalog(config, NoReport())
        found[name] = (
            chains.producers(TOPIC) is not None,
            chains.consumers(TOPIC) is not None,
            len(chains.guards),
            rules(config, ignore_failure, None).of(TOPIC, bytes(16)) is not None,
        )
    assert found == {
        intercept.NONE: (False, False, 0, False),
        intercept.OTHER_TOPIC: (False, False, 3, False),
        intercept.LATENCY: (True, False, 1, False),
        intercept.ADD_HEADER: (True, False, 1, False),
        intercept.JSON_TOO: (True, False, 1, True),
        intercept.PYTHON: (True, False, 1, False),
        intercept.ON_CONSUME: (False, True, 1, False),
    }


def test_a_request_has_the_number_of_records_of_its_workload() -> None:
    for load in intercept.workloads():
        if load.batches:
            assert sum(len(batch.records()) for data in load.batches for batch in batches(data)) == load.records


@pytest.mark.parametrize("load", intercept.workloads(), ids=[load.title for load in intercept.workloads()])
def test_interceptors_see_every_batch(load: Workload) -> None:
    found = list(_batches(load))

    assert len(found) == max(1, len(load.batches))
    assert all(batch.crc_is_right() and len(batch.records()) for batch in found)


def _batches(load: Workload) -> Iterator[Batch]:
    """As an independent reader finds them in what the driver sends, or the stub answers."""
    if load.fetch_bytes:
        data = frames.response(frames.fetch_response(load.fetch_bytes)).one(7)
        _, header_size = entity_reader(FetchResponse.__header_schema__)(data, 4)
        response, _ = entity_reader(FetchResponse)(data, 4 + header_size)
        records = [one.records for topic in response.responses for one in topic.partitions]
    else:
        data = load.request().one(7)
        _, header_size = entity_reader(ProduceRequest.__header_schema__)(data, 4)
        request, _ = entity_reader(ProduceRequest)(data, 4 + header_size)
        records = [one.records for topic in request.topic_data for one in topic.partition_data]
    for one in records:
        yield from batches(one or b"")
