"""The table of guards beside policy classes has exactly the rows that are tried with clients and brokers."""

from __future__ import annotations

from integration.guards.rows import ROWS
from support.pages import page

PAGE = "docs/reference/topic-guards.md"
HEAD = "| client | asks for | through the guard | from the broker with classes |"


def test_the_rows_of_the_page_are_those_that_are_tried() -> None:
    _, _, table = page(PAGE).text.partition(f"{HEAD}\n")
    lines = table.split("\n\n")[0].splitlines()[1:]
    assert lines == [f"| {' | '.join(row.cells)} |" for row in ROWS]


def test_all_kinds_of_clients_have_refusals_and_successes() -> None:
    by_client = {row.client: [one.answer for one in ROWS if one.client == row.client] for row in ROWS}
    assert len(by_client) == 8
    for answers in by_client.values():
        assert any("POLICY_VIOLATION" in one for one in answers)
        assert any("NONE" in one for one in answers)
