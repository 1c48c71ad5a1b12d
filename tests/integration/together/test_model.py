"""The model itself: what it expects of small examples, and that no difference goes unnoticed."""

from __future__ import annotations

import dataclasses

import pytest
from integration.together import checks, scenario
from integration.together.connection import Reading
from integration.together.covering import Run, name_of, singles
from integration.together.model import Model
from integration.together.records import Batch, Outcome, Read, Record, Seen, Sent, Transaction

EDIT = Record(b"k", b"{}", (("do", b"edit"),))
HIDE = Record(None, b"{}", (("do", b"hide"),))
BROKEN = Record(b"k", b"{", ())
LARGE = Record(b"k", b'"' + b"x" * 200_000 + b'"', ())


def model(*features: str) -> Model:
    return Model(frozenset(features))


def sent(*records: Record, at: int = 0, end: str | None = None) -> Sent:
    outcomes = tuple(Outcome(at + index) for index in range(len(records)))
    return Sent(Batch(0, records), outcomes, "p", "java", "abort" if end == "abort" else None)


def test_a_batch_with_an_invalid_record_is_rejected_whole_and_only_where_there_is_a_policy() -> None:
    batch = sent(BROKEN, EDIT)
    assert model().errors(batch) == ["", ""]
    assert model("json").errors(batch) == ["INVALID_RECORD", "OTHERS_INVALID"]
    assert model("json").errors(dataclasses.replace(batch, library="aiokafka")) == ["INVALID_RECORD"] * 2
    assert model("json", "topic_configs").errors(batch) == ["INVALID_RECORD"] * 2  # neither has the header


def test_a_large_record_is_rejected_with_its_batch_unless_it_is_stored_in_parts() -> None:
    assert model().errors(sent(LARGE, EDIT)) == ["MESSAGE_TOO_LARGE"] * 2
    for name in ("slices", "objects"):
        assert model(name).errors(sent(LARGE, EDIT)) == ["", ""]


def test_a_batch_with_too_many_records_is_rejected_before_any_policy_is_asked() -> None:
    assert model("habits", "json").errors(sent(BROKEN, EDIT, EDIT, EDIT)) == ["POLICY_VIOLATION"] * 4
    assert model("habits", "json").errors(sent(BROKEN, EDIT, EDIT))[0] == "INVALID_RECORD"


def test_interceptors_change_hide_and_leave_records_in_their_order() -> None:
    (seen,) = model("changes", "hides", "fails").delivered([sent(HIDE, EDIT)], "read_uncommitted")
    headers = (("do", b"edit"), ("sent", b"sidecar"), ("tried", b"1"), ("consumed", b"sidecar"))
    assert seen == Seen.of(0, 1, b"k", b"{} ", headers)


def test_what_was_aborted_is_for_readers_of_everything() -> None:
    both = [sent(EDIT, end="abort"), sent(EDIT, at=1)]
    assert [one.offset for one in model().delivered(both, "read_uncommitted")] == [0, 1]
    assert [one.offset for one in model().delivered(both, "read_committed")] == [1]
    assert model().ends(both) == {0: 2}


@pytest.mark.parametrize(
    "changed",
    [
        [],
        [Seen(0, 1, "6b", "7b7d", (("do", "65646974"),))],
        [Seen(0, 0, "6b", "7b7d20", (("do", "65646974"),))],
        [Seen(0, 0, "null", "7b7d", (("do", "65646974"),))],
        [Seen(0, 0, "6b", "7b7d", (("do", "65646974"),) * 2)],
        [Seen(0, 0, "6b", "7b7d", ())],
        [Seen(0, 0, "6b", "7b7d", (("do", "65646974"),))] * 2,
    ],
)
def test_every_difference_of_a_reader_is_found(changed: list[Seen]) -> None:
    batches, how = [sent(EDIT)], Reading("reader", "java", "read_committed")
    right = model().delivered(batches, "read_committed")
    assert [*checks.read(model(), how, batches, Read(right, {0: 1}), denied=False)] == []
    (found,) = checks.read(model(), how, batches, Read(changed, {0: 1}), denied=False)
    assert found.startswith("reader: partition 0, record ")


@pytest.mark.parametrize("run", singles(), ids=name_of)
def test_the_scenario_has_what_it_says(run: Run) -> None:
    """Records of every kind are stored whatever the features, and no producer has an impossible task."""
    its = Model(run)
    steps = [(script, step) for script in scenario.scripts(its) for step in script.steps]
    batches = [one for _, step in steps for one in (step.batches if isinstance(step, Transaction) else (step,))]
    assert all(len(one.records) >= 1 and one.partition in range(scenario.PARTITIONS) for one in batches)
    done = [Sent(one, (), "p", "java") for one in batches]
    kept = [record for one in done if not any(its.errors(one)) for record in one.batch.records]
    assert {"", "hide", "edit", "fail"} == {record.does for record in kept}
    assert None in {record.key for record in kept} and None in {record.value for record in kept}  # noqa: PT018
    assert any(map(scenario.is_large, kept)) == its.stores_large
    for _, step in steps:
        if isinstance(step, Transaction) and step.end == "commit":
            assert not any(error for one in step.batches for error in its.errors(Sent(one, (), "p", "java")))


def test_a_policy_of_consumers_sees_what_is_stored_before_interceptors_of_consumers_do() -> None:
    fails = Record(b"k", b"{}", (("do", b"fail"),))
    batches = [sent(fails, EDIT)]
    assert [one.offset for one in model("consume_hide", "changes").delivered(batches, "read_uncommitted")] == [1]
    assert sum(model("consume_hide").looked_at(batches, {"reader": "read_committed"}).values()) == 1
    marked, _ = model("consume_mark", "changes").delivered(batches, "read_uncommitted")
    assert [name for name, _ in marked.headers] == ["do", "sent", "kafka_sidecar.invalid", "consumed"]
