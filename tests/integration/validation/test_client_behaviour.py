"""docs/reference/client-behaviour.md: what each client shows after a rejection, and its later records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from harness.tool_host import ToolHost
from integration.validation import other_clients, producers
from integration.validation.guarded import Guarded, required
from integration.validation.waves import KINDS, STORED, Kind, Outcome, Result, Sent, Wave, wave
from support.pages import page

CLIENTS = ("java", "librdkafka", "kafka-python", "aiokafka")
BEFORE, NEXT, LATER = wave("before", 2), wave("next", 2), wave("later", 2)
REJECTED = (Sent("bad", is_good=False), Sent("beside"))


class Behaviour(NamedTuple):
    """The cells of a row, after the client and the kind of producer."""

    bad: str  # the error of the bad record, and whether its text has the policy's reason
    beside: str  # what becomes of a valid record of the same batch
    next: str  # of the records, or the transaction, after that
    later: str  # and of those after these


def observed(outcome: Outcome, topic: str) -> Behaviour:
    bad, beside = outcome.of(REJECTED)
    reason = "the reason" if required(topic) in bad.text else "no reason"
    ends = (end or None for end in outcome.ends[2:])  # of transactions: librdkafka fails at the commit
    later = (f"`{end}`" if end else shown_all(outcome, one) for one, end in zip((NEXT, LATER), ends, strict=True))
    return Behaviour(f"`{bad.error}`, {reason}", shown(beside), *later)


def shown(result: Result) -> str:
    return "stored" if result == STORED else f"`{result.error}`"


def shown_all(outcome: Outcome, sent: Wave) -> str:
    return ", ".join(sorted({shown(result) for result in outcome.of(sent)}))


def documented(client: str, kind: Kind) -> Behaviour | None:
    for line in page("docs/reference/client-behaviour.md").section("After a rejection").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:2] == [client, kind]:
            return Behaviour(*cells[2:6])
    return None


@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_behaves_as_documented_after_a_rejection(
    guarded: Guarded, java: Mapping[str, ToolHost], client: str, kind: Kind
) -> None:
    topic = guarded.topic(f"header-behaviour-{client}-{kind}")
    outcome = producers.clients(java)[client](
        guarded.sidecar.bootstrap, topic, "none", kind, (BEFORE, REJECTED, NEXT, LATER)
    )
    assert outcome.of(BEFORE) == [STORED] * 2
    assert observed(outcome, topic) == documented(client, kind)


def in_another_language(client: str) -> object:
    tool = other_clients.TOOLS[client]
    missing = pytest.mark.skipif(
        other_clients.is_missing(client), reason=f"{tool} is not installed: it builds {client}"
    )
    return pytest.param(client, marks=missing)


@pytest.mark.matrix
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", [in_another_language(client) for client in other_clients.TOOLS])
def test_a_client_in_another_language_behaves_as_documented_after_a_rejection(
    guarded: Guarded, client: str, kind: Kind
) -> None:
    topic = guarded.topic(f"header-behaviour-{client}-{kind}")
    waves = (BEFORE, REJECTED, NEXT, LATER)
    outcome = other_clients.send(client, guarded.sidecar.bootstrap, topic, kind, waves)
    assert outcome.of(BEFORE) == [STORED] * 2
    assert observed(outcome, topic) == documented(client, kind)
    assert guarded.stored(topic, isolation="read_committed") == outcome.acknowledged(*waves)


@pytest.mark.matrix
@pytest.mark.parametrize("client", [in_another_language("kafkajs")])
def test_after_a_rejection_kafkajs_loses_records_of_other_partitions_that_it_reports_as_stored(
    guarded: Guarded, client: str
) -> None:
    topic = guarded.topic(f"header-behaviour-{client}-partitions", partitions=2)
    waves = (BEFORE, REJECTED, NEXT, LATER)
    outcome = other_clients.send(client, guarded.sidecar.bootstrap, topic, "idempotent", waves, partitions=2)
    assert STORED not in outcome.of(REJECTED)
    assert outcome.of(NEXT) == outcome.of(LATER) == [STORED] * 2
    assert guarded.stored(topic, 0) == [b"before-0", b"next-0", b"later-0"]
    assert guarded.stored(topic, 1) == [b"before-1", b"beside", b"later-1"]
