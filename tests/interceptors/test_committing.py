"""The chain of commits: pre_commit (KIP-547) and on_commit (KIP-42)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.producer_interceptors import SilentReport

from kafka_sidecar.interceptors.committing import Committers
from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Hints,
    Interceptor,
    OffsetAndMetadata,
    Offsets,
    ProducerInterceptor,
    TopicPartition,
)
from kafka_sidecar.interceptors.guard import Guard, Limits
from kafka_sidecar.plugins.values import MAX_COMMIT_METADATA

P0, P1, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)
FIVE, SIX, SEVEN = OffsetAndMetadata(5), OffsetAndMetadata(6, "m", 2), OffsetAndMetadata(7)
Edit = Callable[[Offsets], Any]
Committed = Callable[..., dict[TopicPartition, OffsetAndMetadata]]


class Edits(ConsumerInterceptor):
    """Edits offsets as the test asks, and records the arguments of each call."""

    def __init__(self, edit: Edit = lambda offsets: offsets) -> None:
        self.edit = edit
        self.asked, self.committed = list[dict[Any, Any]](), list[dict[Any, Any]]()

    def pre_commit(self, offsets: Offsets) -> Any:
        self.asked.append(dict(offsets))
        return self.edit(offsets)

    def on_commit(self, offsets: Offsets) -> None:
        self.committed.append(dict(offsets))


def without(place: TopicPartition) -> Edit:
    return lambda offsets: {one: offset for one, offset in offsets.items() if one != place}


def also(place: Any, offset: Any) -> Edit:
    return lambda offsets: {**offsets, place: offset}


def fails(offsets: Offsets) -> Offsets:
    offsets.clear()
    offsets[OTHER] = FIVE
    raise ValueError("bug")


@pytest.fixture
def committers(report: Any) -> Callable[..., Committers]:
    def of(*interceptors: Interceptor, topics: Mapping[int, tuple[str, ...]] | None = None) -> Committers:
        return Committers(
            tuple(
                Guard(str(at), one, one.hints(), report, (topics or {}).get(at, ("*",)), Limits(failures=0))
                for at, one in enumerate(interceptors)
            )
        )

    return of


@pytest.fixture
def committed(committers: Callable[..., Committers], context: Callable[[], Context]) -> Committed:
    """The offsets that are committed after a chain."""

    def of(interceptors: list[Interceptor], offsets: Any = None, **about: Any) -> dict[TopicPartition, Any]:
        given_in = Offsets({P0: FIVE, P1: SIX} if offsets is None else offsets, context())
        left = committers(*interceptors, **about).pre_commit(given_in)
        assert left.context is given_in.context
        return dict(left)

    return of


def test_the_default_pre_commit_changes_nothing(committers: Any, context: Any) -> None:
    given_in = Offsets({P0: FIVE}, context())
    assert committers(Edits(), Edits(lambda offsets: dict(offsets))).pre_commit(given_in) is given_in


def test_offset_metadata_and_leader_epoch_can_be_changed(committed: Committed) -> None:
    changed = OffsetAndMetadata(3, "grüße \U0001f600", 9)
    assert committed([Edits(also(P0, changed))]) == {P0: changed, P1: SIX}


def test_offsets_can_be_removed(committed: Committed) -> None:
    assert committed([Edits(without(P0))]) == {P1: SIX}


def test_offsets_of_other_topics_can_be_added(committed: Committed) -> None:
    assert committed([Edits(also(OTHER, SEVEN))]) == {P0: FIVE, P1: SIX, OTHER: SEVEN}


def test_if_all_offsets_are_removed_the_next_interceptor_is_still_called(committed: Committed) -> None:
    second = Edits(also(OTHER, SEVEN))
    assert committed([Edits(lambda offsets: {}), second]) == {OTHER: SEVEN}
    assert second.asked == [{}]


def test_pre_commit_is_called_for_a_commit_without_offsets(committed: Committed) -> None:
    assert committed([Edits(also(P0, FIVE))], {}) == {P0: FIVE}


def test_each_interceptor_gets_the_offsets_of_the_one_before_it(committed: Committed) -> None:
    first, second, third = Edits(without(P0)), Edits(also(OTHER, SEVEN)), Edits()
    committed([first, second, third])
    assert [one.asked for one in (first, second, third)] == [
        [{P0: FIVE, P1: SIX}],
        [{P1: SIX}],
        [{P1: SIX, OTHER: SEVEN}],
    ]


def test_after_an_exception_the_next_gets_the_last_good_offsets(committed: Committed, report: Any) -> None:
    assert committed([Edits(without(P0)), Edits(fails), Edits(also(OTHER, SEVEN))]) == {P1: SIX, OTHER: SEVEN}
    assert report.failures == [("1", "pre_commit", "ValueError: bug")]
    assert report.places == [P1]


WRONG: dict[str, Edit] = {
    "nothing": lambda offsets: None,
    "a list": list,
    "a number for an offset": also(P0, 7),
    "no offset": also(P0, None),
    "no offset of another topic": also(TopicPartition("other", 0), None),
    "an offset below zero": also(P0, OffsetAndMetadata(-1)),
    "an offset of 64 bits": also(P0, OffsetAndMetadata(1 << 63)),
    "a leader epoch below -1": also(P0, OffsetAndMetadata(5, "", -2)),
    "a partition below zero": also(TopicPartition("orders", -1), FIVE),
    "a partition of 32 bits": also(TopicPartition("orders", 1 << 31), FIVE),
    "a topic for a partition": also("orders", FIVE),
    "a topic that is no text": also(TopicPartition(b"orders", 0), FIVE),  # type: ignore[arg-type]
    "a topic that cannot be written": also(TopicPartition("\udcff", 0), FIVE),
    "a topic longer than any": also(TopicPartition("x" * 250, 0), FIVE),
    "no metadata": also(P0, OffsetAndMetadata(5, None)),  # type: ignore[arg-type]
    "metadata that is no text": also(P0, OffsetAndMetadata(5, b"x")),  # type: ignore[arg-type]
    "metadata that cannot be written": also(P0, OffsetAndMetadata(5, "\ud800")),
    "metadata longer than brokers take": also(P0, OffsetAndMetadata(5, "x" * (MAX_COMMIT_METADATA + 1))),
    "metadata longer in units of UTF-16": also(
        P0, OffsetAndMetadata(5, "\U0001f600" * (MAX_COMMIT_METADATA // 2) + "x")
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_returning_offsets_that_no_broker_accepts_is_a_failure(wrong: str, committed: Committed, report: Any) -> None:
    assert committed([Edits(WRONG[wrong]), Edits(without(P0))]) == {P1: SIX}
    assert [failure[:2] for failure in report.failures] == [("0", "pre_commit")]


@pytest.mark.parametrize("metadata", ["x" * MAX_COMMIT_METADATA, "\U0001f600" * (MAX_COMMIT_METADATA // 2)])
def test_metadata_can_be_as_long_as_brokers_accept(metadata: str, committed: Committed) -> None:
    assert committed([Edits(also(P0, OffsetAndMetadata(5, metadata)))])[P0].metadata == metadata


def test_offsets_committed_by_the_client_are_validated_by_the_broker(committed: Committed, report: Any) -> None:
    odd = {P0: OffsetAndMetadata(-1, "x" * 5000), TopicPartition("x" * 300, -1): FIVE}
    assert committed([Edits(), Edits(also(OTHER, SEVEN))], odd) == {**odd, OTHER: SEVEN}
    assert report.failures == []


def test_a_plain_tuple_can_be_used_as_a_topic_partition(committed: Committed, report: Any) -> None:
    last = Edits()
    left = committed([Edits(also(("payments", 0), SEVEN)), Edits(lambda offsets: {("orders", 0): FIVE}), last])
    assert left == {P0: FIVE}
    assert all(isinstance(place, TopicPartition) for place in [*left, *last.asked[0]])
    assert report.failures == []


def test_each_interceptor_gets_its_configured_topics_and_others_are_kept(committed: Committed) -> None:
    orders, none = Edits(lambda offsets: {}), Edits(lambda offsets: {})
    left = committed([orders, none], {P0: FIVE, OTHER: SEVEN}, topics={0: ("ord*",), 1: ("nothing",)})
    assert left == {OTHER: SEVEN}
    assert (orders.asked, none.asked) == ([{P0: FIVE}], [])


def test_on_commit_gets_the_offsets_that_pre_commit_returned(committers: Any, context: Any) -> None:
    first, second = Edits(without(P0)), Edits(also(OTHER, SEVEN))
    both = committers(first, second)
    both.on_commit(both.pre_commit(Offsets({P0: FIVE, P1: SIX}, context())))
    assert first.committed == second.committed == [{P1: SIX, OTHER: SEVEN}]


def test_on_commit_gets_only_offsets_of_configured_topics_and_is_not_called_without_any(
    committers: Any, context: Any
) -> None:
    one, other = Edits(), Edits()
    both = committers(one, other, topics={0: ("payments",)})
    both.on_commit(Offsets({P0: FIVE}, context()))
    both.on_commit(Offsets({}, context()))
    assert (one.committed, other.committed) == ([], [{P0: FIVE}])


def test_exceptions_and_changes_in_on_commit_do_not_affect_the_next_interceptor(
    committers: Any, context: Any, report: Any
) -> None:
    class Spoils(Edits):
        def on_commit(self, offsets: Offsets) -> None:
            offsets.clear()
            raise SystemExit("bug")

    last = Edits()
    offsets = Offsets({P0: FIVE}, context())
    committers(Spoils(), last).on_commit(offsets)
    assert last.committed == [{P0: FIVE}]
    assert offsets == {P0: FIVE}
    assert report.failures == [("0", "on_commit", "SystemExit: bug")]
    assert report.places == [P0]


def test_only_interceptors_that_override_a_hook_are_called(committers: Any) -> None:
    class Hears(ConsumerInterceptor):
        def on_commit(self, offsets: Offsets) -> None:
            """Hear."""

    both = committers(ConsumerInterceptor(), ProducerInterceptor(), Hears(), Edits())
    assert [guard.name for guard in both.pre_commit_guards] == ["3"]
    assert [guard.name for guard in both.on_commit_guards] == ["2", "3"]


def test_interceptors_without_wants_records_take_part_in_commits(committed: Committed) -> None:
    class Refrains(Edits):
        def hints(self) -> Hints:
            return Hints(wants_records=False)

    assert committed([Refrains(without(P0))]) == {P1: SIX}


places = st.sampled_from([P0, P1, OTHER])
offsets_to_commit = st.dictionaries(places, st.builds(OffsetAndMetadata, st.integers(0, 3)), max_size=3)


@given(offsets_to_commit, st.lists(st.tuples(places, st.none() | st.integers(0, 3), st.booleans()), max_size=6))
def test_the_result_of_a_chain_is_that_of_the_interceptors_that_do_not_fail(first: Any, steps: list[Any]) -> None:
    expected = dict(first)
    guards = []
    for place, number, failing in steps:
        edit = without(place) if number is None else also(place, OffsetAndMetadata(number))
        guards.append(
            Guard("it", Edits(fails if failing else edit), Hints(), SilentReport(), limits=Limits(failures=0))
        )
        if not failing:
            expected = dict(edit(Offsets(expected, Context(lambda: 0))))
    assert Committers(tuple(guards)).pre_commit(Offsets(first, Context(lambda: 0))) == expected
