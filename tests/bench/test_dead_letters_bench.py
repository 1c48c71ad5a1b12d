"""`make bench-dead-letters`: each sidecar has the dead letters of its column."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig import frames
from rig.columns import configs_of
from validate import CHECKING

import dead_letters
from kafka_sidecar.proxy.features.dead_letters.from_config import Targets, entries_of, find_mistakes

pytestmark = pytest.mark.program

TOPIC = frames.TOPIC.decode()


def test_each_sidecar_has_the_policy_and_the_dead_letters_of_its_column(tmp_path: Path) -> None:
    found = {}
    for name, config in configs_of(dead_letters.peers(tmp_path), tmp_path).items():
        assert list(find_mistakes(config)) == []
        targets = Targets(entries_of(config))
        found[name] = config.uses_dead_letters, targets.of(TOPIC) is not None, targets.names()
    assert found == {
        CHECKING: (False, False, []),
        dead_letters.OTHER: (True, False, []),
        dead_letters.OWN: (True, True, []),
    }
