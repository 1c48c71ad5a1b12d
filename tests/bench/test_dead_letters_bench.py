"""`make bench-dead-letters`: each sidecar has the dead letters of its column."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from rig import frames
from rig.frames import Address
from rig.peers import Setting
from validate import CHECKING

import dead_letters
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.features.dead_letters.from_config import entries_of, find_mistakes
from kafka_sidecar.proxy.features.dead_letters.targets import Targets

pytestmark = pytest.mark.program

TOPIC = frames.TOPIC.decode()


def test_each_sidecar_has_the_policy_and_the_dead_letters_of_its_column(tmp_path: Path) -> None:
    found = {}
    for number, peer in enumerate(dead_letters.peers(tmp_path)):
        setting = Setting(Address("127.0.0.1", 25_000 + 10 * number), Address("127.0.0.1", 9092), tmp_path)
        words = peer.command(setting)
        config = Config.model_validate(
            {"bootstrap_servers": "a:1", **yaml.safe_load(Path(words[words.index("--config") + 1]).read_text())}
        )
        assert list(find_mistakes(config)) == []
        targets = Targets(entries_of(config))
        found[peer.name] = config.uses_dead_letters, targets.of(TOPIC) is not None, targets.names()
    assert found == {
        CHECKING: (False, False, []),
        dead_letters.OTHER: (True, False, []),
        dead_letters.OWN: (True, True, []),
    }
