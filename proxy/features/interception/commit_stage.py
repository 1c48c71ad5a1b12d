"""The stage of a commit: `pre_commit` before it is sent (KIP-547), `on_commit` once it has succeeded (KIP-42)."""

from __future__ import annotations

from collections import Counter

from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.contract import Offsets
from kafka_sidecar.proxy.exchanges.commits import Stage


class CommitStage(Stage):
    """The interceptors of commits that are current."""

    def __init__(self, committers: Committers, counts: Counter[str]) -> None:
        self._committers = committers
        self._counts = counts

    @property
    def counts(self) -> Counter[str]:
        return self._counts

    @property
    def wants_result(self) -> bool:
        return bool(self._committers.on_commit_guards)

    def pre_commit(self, offsets: Offsets) -> Offsets:
        return self._committers.pre_commit(offsets)

    def on_commit(self, offsets: Offsets) -> None:
        self._committers.on_commit(offsets)
