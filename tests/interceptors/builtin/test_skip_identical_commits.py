"""skip_identical_commits: which commits are suppressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kafka_sidecar.interceptors.builtin import skip_identical_commits
from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Context, OffsetAndMetadata, Offsets, TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
FIVE, SIX = OffsetAndMetadata(5), OffsetAndMetadata(6)
Given = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass
class Group:
    """Commits through a chain, and what a broker would have stored in the end."""

    catalog: InterceptorCatalog
    now: int = 1_700_000_000_000
    stored: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)

    def asks(self, offsets: Given, **about: Any) -> Offsets:
        """The request as it leaves for the broker."""
        context = Context(clock=lambda: self.now, **{"group_id": "g", "session": 1, "member_id": "m", **about})
        return self.catalog.committers.pre_commit(Offsets(offsets, context))

    def succeeds(self, sent: Offsets) -> None:
        self.stored |= sent
        self.catalog.committers.on_commit(sent)

    def commits(self, offsets: Given, **about: Any) -> Given:
        """What is sent, and succeeds."""
        sent = self.asks(offsets, **about)
        self.succeeds(sent)
        return sent


def chain(report: Any, *types: str, **settings: Any) -> InterceptorCatalog:
    named = [
        InterceptorSettings(one, one, settings=settings if one == "skip_identical_commits" else {}) for one in types
    ]
    return InterceptorCatalog(named, report)


@pytest.fixture
def group(report: Any) -> Group:
    return Group(chain(report, "skip_identical_commits"))


def test_an_identical_commit_is_suppressed(group: Group) -> None:
    group.commits({P0: FIVE, P1: FIVE})
    assert group.commits({P0: FIVE, P1: SIX}) == {P1: SIX}
    assert group.commits({P0: FIVE, P1: SIX}) == {}


@pytest.mark.parametrize("other", [SIX, OffsetAndMetadata(5, "x"), OffsetAndMetadata(5, "", 7), OffsetAndMetadata(4)])
def test_a_commit_with_another_offset_metadata_or_leader_epoch_is_forwarded(
    other: OffsetAndMetadata, group: Group
) -> None:
    group.commits({P0: FIVE})
    assert group.commits({P0: other}) == {P0: other}


def test_a_failed_commit_is_not_remembered(group: Group) -> None:
    group.asks({P0: FIVE})
    assert group.commits({P0: FIVE}) == {P0: FIVE}


def test_a_pending_commit_replaces_the_remembered_one(group: Group) -> None:
    group.commits({P0: FIVE})
    back = group.asks({P0: OffsetAndMetadata(3)})
    again = group.asks({P0: FIVE})
    assert again == {P0: FIVE}
    group.succeeds(back)
    group.succeeds(again)
    assert group.stored == {P0: FIVE}


def test_the_response_to_an_older_commit_does_not_confirm_a_newer_one(group: Group) -> None:
    first, second = group.asks({P0: FIVE}), group.asks({P0: OffsetAndMetadata(5, "x")})
    group.succeeds(first)
    assert second == {P0: OffsetAndMetadata(5, "x")}  # and fails
    assert group.commits({P0: OffsetAndMetadata(5, "x")}) == {P0: OffsetAndMetadata(5, "x")}


def test_an_identical_commit_is_forwarded_after_a_time(group: Group) -> None:
    group.commits({P0: FIVE})
    group.now += 59_999
    assert group.commits({P0: FIVE}) == {}
    group.now += 1
    assert group.commits({P0: FIVE}) == {P0: FIVE}
    group.now += 59_999
    assert group.commits({P0: FIVE}) == {}


def test_commits_are_forwarded_if_the_clock_goes_back(group: Group) -> None:
    group.commits({P0: FIVE})
    group.now -= 1
    assert group.commits({P0: FIVE}) == {P0: FIVE}


@pytest.mark.parametrize("about", [{"session": 2}, {"member_id": "n"}, {"group_instance_id": "i"}, {"group_id": "h"}])
def test_a_commit_of_another_client_is_forwarded(about: dict[str, Any], group: Group) -> None:
    group.commits({P0: FIVE})
    assert group.commits({P0: FIVE}, **about) == {P0: FIVE}


def test_the_first_commit_after_one_of_another_client_is_forwarded(group: Group) -> None:
    group.commits({P0: FIVE})
    group.commits({P0: SIX}, session=2)
    assert group.commits({P0: FIVE}) == {P0: FIVE}


def test_commits_in_transactions_are_forwarded_and_clear_the_remembered_commit(group: Group) -> None:
    group.commits({P0: FIVE})
    assert group.commits({P0: FIVE}, transactional_id="t") == {P0: FIVE}
    assert group.commits({P0: FIVE}, transactional_id="t") == {P0: FIVE}
    assert group.commits({P0: FIVE}) == {P0: FIVE}


def test_above_the_limit_the_least_recently_used_partition_is_forgotten(report: Any) -> None:
    group = Group(chain(report, "skip_identical_commits", remember=2))
    group.commits({P0: FIVE})
    group.commits({P1: FIVE})
    group.commits({P0: FIVE})
    group.commits({TopicPartition("orders", 2): FIVE})
    assert group.commits({P0: FIVE}) == {}
    assert group.commits({P1: FIVE}) == {P1: FIVE}


@pytest.mark.parametrize(
    "order", [("skip_identical_commits", "commit_metadata"), ("commit_metadata", "skip_identical_commits")]
)
def test_metadata_appended_by_a_later_interceptor_does_not_make_a_commit_different(
    order: tuple[str, str], report: Any
) -> None:
    group = Group(chain(report, *order))
    group.commits({P0: FIVE})
    group.now += 10
    assert bool(group.commits({P0: FIVE})) == (order[0] == "commit_metadata")


def test_no_records_are_decoded_and_suppressed_commits_are_counted(group: Group) -> None:
    group.commits({P0: FIVE, P1: FIVE})
    group.commits({P0: FIVE, P1: FIVE})
    (guard,) = group.catalog.guards
    (figures,) = guard.interceptor.metrics()
    assert not guard.hints.wants_records
    assert dict(figures.counters) == {(): 2}


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"remember": 0}, "remember: "), ({"at_least_every": 60}, "at_least_every: write a duration with its unit")],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str, report: Any) -> None:
    with pytest.raises(ValueError, match=f"interceptor skip_identical_commits: {message}"):
        chain(report, "skip_identical_commits", **settings)


@pytest.mark.parametrize("about", [{"group_id": "g" * 9000}, {"member_id": "m" * 9000}, {"client_id": "c" * 9000}])
def test_commits_with_names_that_no_client_has_are_not_remembered(about: dict[str, Any], group: Group) -> None:
    group.commits({P0: FIVE}, **about)
    assert group.commits({P0: FIVE}, **about) == {P0: FIVE}


def test_the_texts_of_commits_are_bounded(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skip_identical_commits, "MAX_CHARACTERS", 10_000)
    group = Group(chain(report, "skip_identical_commits"))
    metadata = OffsetAndMetadata(5, "x" * 4000)
    for partition in (P0, P1, P0, P1):
        group.commits({partition: metadata})
    assert group.commits({P0: metadata, P1: metadata}) == {}
    third = TopicPartition("orders", 2)
    group.commits({third: metadata})
    assert group.commits({P1: metadata, third: metadata}) == {}
    assert group.commits({P0: metadata}) == {P0: metadata}
