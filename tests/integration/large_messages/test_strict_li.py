"""The mode `strict-li`: consumers get, and commit, what those of li-apache-kafka-clients do on its log "SYN".

What a sidecar has seen for one consumer serves others, so each begins with a sidecar that has seen nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from harness.sidecar import Sidecar
from integration.large_messages.groups import CLIENTS, Groups
from integration.large_messages.stepped import Place, Stepped, offsets

pytestmark = pytest.mark.integration

RULES = """
large_messages: {topics: [{name: "strict-*", offsets: strict-li}]}
"""
NewSidecar = Callable[[Place], Place]


@pytest.fixture(params=CLIENTS)
def client(groups: Groups, request: pytest.FixtureRequest) -> Stepped:
    return groups.clients[request.param]


@pytest.fixture
def through_new(groups: Groups, tmp_path: Path) -> Iterator[NewSidecar]:
    """The same place through a sidecar that was just started."""
    config, numbers = tmp_path / "sidecar.yaml", count()
    config.write_text(RULES)
    with ExitStack() as stack:

        def start(place: Place) -> Place:
            log = tmp_path / f"sidecar-{next(numbers)}.log"
            sidecar = stack.enter_context(Sidecar.start(groups.cluster.bootstrap, log, ["--config", str(config)]))
            return replace(place, bootstrap=sidecar.bootstrap)

        yield start


def test_from_2_on_no_message_that_begins_before_is_delivered_and_commits_are_those_of_li(
    groups: Groups, client: Stepped, through_new: NewSidecar
) -> None:
    """li 32: M0 and M1 begin before 2 and stay incomplete; 0 -> 0, 2 -> 2, 10 -> 4, 7 -> 4, 3 -> 3."""
    place = groups.place(groups.syn("strict"))
    client(replace(place, bootstrap=groups.cluster.direct), "commit 2")
    place = through_new(place)
    assert offsets(client(place, "rest")) == [2, 6, 7, 9]
    # From the last one on: aiokafka fetches from what was committed before, and what is read once is seen.
    for offset, safe in ((10, 4), (7, 4), (3, 3), (2, 2), (0, 0)):
        client(place, "position", f"commit {offset}")
        assert groups.stored_offset(place) == (safe, f"{offset},")


def test_a_group_that_goes_on_in_another_sidecar_loses_nothing(
    groups: Groups, client: Stepped, through_new: NewSidecar
) -> None:
    """What begins between the safe offset and the committed one is read before it, as a consumer of li does."""
    first = through_new(groups.place(groups.syn("strict")))
    assert offsets(client(first, "poll", "commit")) == [2]
    assert groups.stored_offset(first) == (0, "3,")
    assert offsets(client(through_new(first), "rest")) == [4, 5, 6, 7, 9]
