"""Requests one after the other, which share the objects of a connection."""

from __future__ import annotations

import pytest
from support.auditing import Audited
from support.produce_requests import GOOD, produce_request, produce_response

from kafka_sidecar.audit.contract import Result
from kafka_sidecar.codec import cython_shim
from kafka_sidecar.proxy.auditing import produce as module

REQUEST, ANSWER = produce_request(9, {"orders": {0: GOOD}}), produce_response(9, {"orders": {0: 10}})
COUNTED = ("orders", 0, 1, Result.ACKED, 10)


def test_batches_are_counted_where_cython_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cython", cython_shim, raising=False)  # compiled, the module has none
    found = Audited()
    for _ in range(2):
        found.dialogue.client(REQUEST).broker(ANSWER)
    assert found.calls.results == [COUNTED] * 2


def test_a_response_in_pieces_does_not_change_how_the_next_one_is_counted() -> None:
    found = Audited()
    for _ in range(2):
        found.dialogue.client(REQUEST).broker(ANSWER[:12], ANSWER[12:20], ANSWER[20:])
        found.dialogue.client(REQUEST).broker(ANSWER)
    assert found.calls.results == [COUNTED] * 4
    assert not found.counting.stats.uncounted
