"""`make bench-habits`: each sidecar requires what its column says, and the bench's requests are as required."""

from __future__ import annotations

from pathlib import Path

import habits
import pytest
from rig import frames
from rig.columns import configs_of

from kafka_sidecar.codec.records import batches
from kafka_sidecar.proxy.features.producer_habits.habits import Entries
from kafka_sidecar.proxy.relay.acks import read_head

pytestmark = pytest.mark.program

TOPIC = frames.TOPIC.decode()


def entries(folder: Path) -> dict[str, Entries]:
    """By column."""
    return {name: Entries(config.producers) for name, config in configs_of(habits.peers(folder), folder).items()}


def test_each_sidecar_requires_the_habits_of_its_column(tmp_path: Path) -> None:
    found = {name: one.find(TOPIC, None) for name, one in entries(tmp_path).items()}
    needs = {name: entry.settings.needs_batches for name, entry in found.items() if entry is not None}
    assert needs == {habits.HEAD: False, habits.OWN: True}
    assert not entries(tmp_path)[habits.OTHER_TOPIC].are_empty


def test_the_requests_of_the_bench_are_as_required(tmp_path: Path) -> None:
    entry = entries(tmp_path)[habits.OWN].find(TOPIC, None)
    assert entry is not None
    for load in habits.workloads():
        assert entry.faults_of_request(read_head(12, b"".join(load.request().stamp(1, 1)), 0), None) == ()
        for data in load.batches:
            header = batches(data)[0].header
            assert entry.faults_of_batch(header, header.codec) == []
