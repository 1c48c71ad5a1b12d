"""The hooks of interceptors in commits: who is called, and what one that fails changes."""

from __future__ import annotations

from typing import Any

import pytest
from support.commit_requests import PLAIN, THREE, begin_commit, commit_request, intercept, place
from support.interception import Commits, Intercepting

from kafka_sidecar.interceptors.values import OffsetAndMetadata, Offsets


@pytest.mark.parametrize(
    "what", ["raises", "no mapping", "no offset", "too much metadata", "negative", "changes its own"]
)
def test_an_interceptor_that_fails_changes_nothing(what: str) -> None:
    def change(offsets: Offsets) -> Any:
        match what:
            case "raises":
                raise RuntimeError("a bug")
            case "changes its own":
                offsets.clear()
                raise RuntimeError("a bug")
            case "no mapping":
                return [*offsets]
            case "no offset":
                return {place("orders", 0): 7}
            case "too much metadata":
                return {place("orders", 0): OffsetAndMetadata(7, "x" * 4097)}
        return {place("orders", 0): OffsetAndMetadata(-7)}

    intercepting, _ = intercept(change)
    frame = commit_request(PLAIN, 8, THREE)
    assert begin_commit(intercepting, PLAIN, 8).request(frame) is frame
    assert intercepting.catalog.guards[0].failures == {"pre_commit": 1}


def test_without_on_commit_the_response_to_an_unchanged_commit_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(Commits, "on_commit")
    intercepting, _ = intercept()
    exchange = begin_commit(intercepting, PLAIN, 8)
    exchange.request(commit_request(PLAIN, 8, THREE))
    assert not exchange.wants_response


def test_each_interceptor_sees_the_topics_that_it_is_for() -> None:
    intercepting = Intercepting("Commits")
    (interceptor,) = intercepting.interceptors
    interceptor.change = lambda offsets: {}
    exchange = begin_commit(intercepting, PLAIN, 8)
    out = exchange.request(commit_request(PLAIN, 8, THREE))
    assert out == commit_request(PLAIN, 8, {"free": THREE["free"]})
    assert {at.topic for at in interceptor.asked[0]} == {"orders"}
