"""docs/reference/producers.md: what each client shows where it sends otherwise than is required."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from harness.tool_host import ToolHost
from integration.front import Front
from integration.producer_habits.asked import CASES, Sends
from integration.producer_habits.senders import senders
from integration.validation import other_clients
from integration.validation.waves import STORED, Result
from support.pages import page

CLIENTS = ("java", "librdkafka", "kafka-python", "aiokafka", "franz-go")
HINT = "(kafka-sidecar explain "


def documented(sent: str, required: str) -> dict[str, str]:
    """The cells of a row, by client."""
    for line in page("docs/reference/producers.md").section("What clients show").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[:2] == [sent, required]:
            return dict(zip(CLIENTS, cells[2:], strict=True))
    return {}


def shown(result: Result, sends: Sends, stored: int) -> str:
    if result == STORED:
        assert stored in (0, len(sends.values))
        return "stored" if stored else "reported as sent, not written"
    assert stored == 0
    return f"`{result.error}`, {'the reason' if HINT in result.text else 'no reason'}"


def named(client: str) -> object:
    missing = client in other_clients.TOOLS and other_clients.is_missing(client)
    marks = [pytest.mark.skipif(missing, reason=f"{client} cannot be built here")]
    marks += [pytest.mark.slow] if client in other_clients.TOOLS else []  # to build
    return pytest.param(client, marks=marks)


@pytest.mark.integration
@pytest.mark.parametrize("client", [named(client) for client in CLIENTS])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {case[1]}".replace("`", ""))
def test_a_client_shows_what_the_table_says(
    asking: Front, java: Mapping[str, ToolHost], client: str, case: tuple[str, str]
) -> None:
    rule, sends = CASES[case]
    topic = asking.topic(f"{rule}-{client}-{list(CASES).index(case)}")
    result = senders(java)[client](asking.sidecar.bootstrap, topic, sends)
    stored = asking.stored(topic, isolation="read_committed")
    assert shown(result, sends, len(stored)) == documented(*case)[client]


def test_the_table_has_no_other_rows() -> None:
    lines = page("docs/reference/producers.md").section("What clients show").splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split(" | "))[:2] for line in lines if line.startswith("| ")]
    assert rows[2:] == list(CASES)
