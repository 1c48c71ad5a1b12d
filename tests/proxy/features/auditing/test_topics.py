"""Names of audited topics, and what waits for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_sidecar.proxy.features.auditing import topics as module
from kafka_sidecar.proxy.features.auditing.stats import AuditingStats
from kafka_sidecar.proxy.features.auditing.topics import AuditedTopics

ID, OTHER_ID = bytes([1]) * 16, bytes([2]) * 16


class Topics:
    """Audited are all topics but "private"."""

    def __init__(self) -> None:
        self.names: dict[bytes, str] = {}
        self.requested: list[tuple[bytes, Callable[[], None]]] = []
        self.stats = AuditingStats()
        self.counted: list[str] = []
        self.audited = AuditedTopics(
            self.names.get, lambda name: name != "private", lambda *one: self.requested.append(one), self.stats
        )

    def find(self, key: str | bytes) -> str | None:
        return self.audited.find(key, self.counted.append)


def test_a_name_is_looked_up_once() -> None:
    found = Topics()
    assert (found.find("orders"), found.audited.get("orders")) == ("orders", "orders")
    assert (found.find("private"), found.find("private")) == (None, None)
    found.names[ID] = "orders"
    assert (found.find(ID), found.audited.get(ID)) == ("orders", "orders")
    assert not found.requested


def test_an_id_is_requested_once_for_all_that_waits() -> None:
    found = Topics()
    assert [found.find(ID), found.find(ID), found.find(OTHER_ID)] == [None] * 3
    found.names |= {ID: "orders", OTHER_ID: "private"}
    assert [topic_id for topic_id, _ in found.requested] == [ID, OTHER_ID]
    for _, done in found.requested:
        done()
    assert found.counted == ["orders", "orders"]


def test_what_gets_no_name_is_unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 2)
    found = Topics()
    for _ in range(3):
        found.find(ID)
    assert found.stats.unnamed == 1
    found.requested[0][1]()
    assert found.stats.unnamed == 3
    found.find(ID)
    assert len(found.requested) == 2


def test_a_count_that_fails_late_is_counted_itself() -> None:
    found = Topics()

    def fail(name: str) -> None:
        raise RuntimeError(name)

    found.audited.find(ID, fail)
    found.find(ID)
    found.names[ID] = "orders"
    found.requested[0][1]()
    assert found.counted == ["orders"]
    assert found.stats.uncounted == {("Metadata", "auditor_failed"): 1}


def test_a_bounded_number_of_names_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KNOWN", 2)
    found = Topics()
    for name in ("a", "b", "c"):
        assert found.find(name) == name
    assert found.audited.get("a") is None
    assert found.find("a") == "a"
