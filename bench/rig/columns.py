"""The sidecars of a bench as their configurations say them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from kafka_sidecar.proxy.config.loading import Config
from rig.frames import Address
from rig.peers import Peer, Setting


def configs_of(peers: Sequence[Peer], folder: Path) -> dict[str, Config]:
    """By column."""
    found = {}
    for number, peer in enumerate(peers):
        words = peer.command(Setting(Address("127.0.0.1", 25_000 + 10 * number), Address("127.0.0.1", 9092), folder))
        text = Path(words[words.index("--config") + 1]).read_text() if "--config" in words else "{}"
        found[peer.name] = Config.model_validate({"bootstrap_servers": "a:1", **yaml.safe_load(text)})
    return found
