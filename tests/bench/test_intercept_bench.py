"""What `make bench-intercept` compares is what its columns say: each sidecar has its interceptors, for its topics."""

from __future__ import annotations

from pathlib import Path

import intercept
import pytest
import yaml
from rig import frames
from rig.frames import Address
from rig.peers import Setting

from kafka_sidecar.codec.records import batches
from kafka_sidecar.proxy.cli.interceptor import Untold
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.interception.from_config import catalog

pytestmark = pytest.mark.program

TOPIC = frames.TOPIC.decode()


def test_each_sidecar_has_the_interceptors_of_its_column(tmp_path: Path) -> None:
    found = {}
    for number, peer in enumerate(intercept.peers(tmp_path)):
        setting = Setting(Address("127.0.0.1", 25_000 + 10 * number), Address("127.0.0.1", 9092), tmp_path)
        words = peer.command(setting)
        text = Path(words[words.index("--config") + 1]).read_text() if "--config" in words else "{}"
        config = Config.model_validate({"bootstrap_servers": "a:1", **yaml.safe_load(text)})
        chains = catalog(config, Untold())
        found[peer.name] = (
            chains.producers(TOPIC) is not None,
            chains.consumers(TOPIC) is not None,
            len(chains.guards),
        )
    assert found == {
        intercept.NONE: (False, False, 0),
        intercept.OTHER_TOPIC: (False, False, 3),
        intercept.LATENCY: (True, False, 1),
        intercept.ADD_HEADER: (True, False, 1),
        intercept.PYTHON: (True, False, 1),
        intercept.ON_CONSUME: (False, True, 1),
    }


def test_a_request_holds_as_many_records_as_its_workload_says() -> None:
    for load in intercept.workloads():
        if load.batches:
            assert sum(len(batch.records()) for data in load.batches for batch in batches(data)) == load.records
