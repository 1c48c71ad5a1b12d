"""commit_metadata: what is appended to the metadata of committed offsets."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_sidecar.interceptors.builtin.commit_metadata import CommitMetadata
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context, OffsetAndMetadata, Offsets, TopicPartition
from kafka_sidecar.plugins.values import MAX_COMMIT_METADATA

PLACE = TopicPartition("orders", 0)
NOW = 1_700_000_000_123
Committed = Callable[..., str]


def committed_through(
    settings: dict[str, Any], metadata: str, report: Any, limit: int = MAX_COMMIT_METADATA, **about: Any
) -> str:
    catalog = InterceptorCatalog([InterceptorSettings("commit_metadata", "who", settings=settings)], report, limit)
    context = Context(clock=lambda: NOW, **{"client_id": "app", "session": 7, **about})
    (left,) = catalog.committers.pre_commit(Offsets({PLACE: OffsetAndMetadata(5, metadata, 3)}, context)).values()
    assert (left.offset, left.leader_epoch) == (5, 3)
    assert report.failures == []
    return left.metadata


@pytest.fixture
def committed(report: Any) -> Committed:
    """The metadata of a committed offset, given the client's metadata."""
    return lambda metadata="", settings=None, **about: committed_through(settings or {}, metadata, report, **about)


def test_the_default_format_has_client_id_host_and_time(committed: Committed) -> None:
    assert committed() == f"client_id=app host={platform.node()} time=2023-11-14T22:13:20.123Z"


def test_metadata_of_the_client_is_kept_and_appended_to(committed: Committed) -> None:
    assert committed("mine", {"format": "by={client_id}"}) == "mine by=app"
    assert committed("mine", {"format": "by={client_id}", "separator": "; "}) == "mine; by=app"


def test_a_format_can_use_session_principal_member_id_and_environment(
    committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", "pod-3")
    text = "{{}} {session} {principal} {member_id} {env:POD_NAME}!"
    assert committed("", {"format": text}, principal="User:alice", member_id="m") == "{} 7 User:alice m pod-3!"


def test_an_unknown_field_of_the_format_is_empty(committed: Committed) -> None:
    assert committed("", {"format": "a={client_id},{principal},{member_id}"}, client_id=None) == "a=,,"


def test_a_client_id_that_is_not_utf_8_is_written_with_replacement_characters(committed: Committed) -> None:
    assert committed("", {"format": "by={client_id}"}, client_id="a\udcff") == "by=a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("theirs", ["", "mine", "client_id=7 of mine", " client_id= host= ", "time=", "client_id=7 x"])
def test_metadata_appended_earlier_is_replaced(theirs: str, committed: Committed) -> None:
    once = committed(theirs, client_id="a first app")
    assert once.startswith(theirs)
    assert committed(once) == committed(theirs)


def test_separators_inside_appended_values_are_replaced(committed: Committed) -> None:
    assert committed("mine", {"format": "by={client_id} in={session}"}, client_id="my app") == "mine by=my_app in=7"


@pytest.mark.parametrize("text", ["a={client_id};b={session}", "a={client_id};a={session}", "a=", "a;a"])
@given(st.text(alphabet="ab=; \U0001f600", max_size=12), st.text(alphabet="ab=; ", max_size=4))
def test_metadata_that_is_committed_repeatedly_does_not_grow(text: str, theirs: str, client_id: str) -> None:
    interceptor = CommitMetadata()
    interceptor.configure({"format": text, "separator": ";"})
    context = Context(clock=lambda: NOW, client_id=client_id)
    metadata, lengths = theirs, []
    for _ in range(4):
        (left,) = interceptor.pre_commit(Offsets({PLACE: OffsetAndMetadata(5, metadata)}, context)).values()
        metadata = left.metadata
        lengths.append(len(metadata))
    assert max(lengths) <= len(theirs) + 2 * len(f";{text}{client_id}")
    assert lengths[0] >= lengths[1] == lengths[2] == lengths[3]


@pytest.mark.parametrize("limit", [20, MAX_COMMIT_METADATA, 10_000])  # as `interception.max_commit_metadata`
@pytest.mark.parametrize("character", ["x", "\U0001f600"])
def test_metadata_is_not_appended_if_the_result_exceeds_the_limit(
    character: str, limit: int, committed: Committed
) -> None:
    room = limit - len(" by=app")
    units = len(character.encode("utf-16-le")) // 2
    fits = character * (room // units)
    assert committed(fits, {"format": "by={client_id}"}, limit=limit) == f"{fits} by=app"
    assert committed(fits + "yy", {"format": "by={client_id}"}, limit=limit) == fits + "yy"


def test_metadata_is_appended_to_commits_in_transactions(committed: Committed) -> None:
    assert committed("", {"format": "by={client_id}"}, transactional_id="t") == "by=app"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{client_id}", "must begin with plain text"),
        ("", "must begin with plain text"),
        ("by={user}", "unknown {user}: write one of client_id, host, member_id, principal, session, time, or env:"),
        ("by={}", "unknown {}"),
        ("by={client_id!r}", "unknown {client_id}"),
        ("by={client_id:10}", "unknown {client_id}"),
        ("by={env:}", "unknown {env}"),
        ("by={env:NOT_SET_ANYWHERE}", "the environment variable NOT_SET_ANYWHERE is not set: set it, or remove it"),
        ("by={client_id", "expected '}'"),
    ],
)
def test_an_invalid_format_is_rejected(text: str, message: str, committed: Committed) -> None:
    with pytest.raises(ValueError, match=f"interceptor who: format: {message}"):
        committed("", {"format": text})


def test_an_empty_separator_is_rejected(committed: Committed) -> None:
    with pytest.raises(ValueError, match="interceptor who: separator: "):
        committed("", {"separator": ""})
