"""Letters counted by what they have in common."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.dead_letters import AT, REASONS

from kafka_sidecar.dead_letters.letters import Letter
from kafka_sidecar.dead_letters.overview import OTHERS, Overview


def letter(n: int, **changed: object) -> Letter:
    return Letter(n, None, b"{", (), AT, replace(REASONS, **changed))  # type: ignore[arg-type]


def test_groups_have_their_number_their_times_and_an_example() -> None:
    overview = Overview()
    for n, at in enumerate((AT + 5, AT, AT + 9)):
        overview.add(letter(n, rejected_at=at), f"dlq:0:{n}")
    overview.add(letter(3, client_id=None), "dlq:0:3")
    (first, seen), (other, _) = overview.rows()
    assert (first.client_id, other.client_id) == ("shop", "")
    assert seen == (3, AT, AT + 9, "dlq:0:0")
    assert overview.letters == 4


def test_names_that_clients_choose_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_sidecar.dead_letters.overview.MAX_GROUPS", 3)
    overview = Overview()
    for n in range(10):
        overview.add(letter(n, client_id=f"c{n}"), str(n))
        overview.add_other(f"why {n}", AT, str(n))
    assert len(overview.groups) == len(overview.others) == 4
    assert [seen.letters for group, seen in overview.rows() if group.topic == OTHERS] == [7]
    assert overview.others[OTHERS].letters == 7
