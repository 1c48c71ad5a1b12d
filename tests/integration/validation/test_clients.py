"""Every client library, with every codec, as a plain, an idempotent and a transactional producer: bad records are
rejected and reported as the library does it, valid ones are stored once and in order, and the producer continues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from harness.tool_host import ToolHost
from integration.cells import CELLS, Cell, parameters
from integration.validation import producers
from integration.validation.guarded import Guarded, required
from integration.validation.waves import (
    FIRST,
    FLOOD,
    KINDS,
    LAST,
    ONE_BAD,
    SOME_BAD,
    STORED,
    WAVES,
    Client,
    Outcome,
    Result,
    Wave,
)
from support.produce_requests import without_id

PART_OF_A_BATCH = "part of a batch which had one more more invalid records"  # Java's words, and those who copy them


@dataclass(frozen=True, slots=True)
class Ways:
    """How a library tells of a refused batch, and what becomes of its producer."""

    culprit: str  # the error of a bad record
    innocent: str  # of a good one beside several bad ones
    beside_one: str  # of a good one beside a single bad one
    has_texts: bool  # whether the application gets the texts that came with the answer
    recovers: bool  # an idempotent one; the others never get their sequence numbers right again, at a broker too


WAYS = {
    "java": Ways("InvalidRecordException", "KafkaException", "KafkaException", has_texts=True, recovers=True),
    "librdkafka": Ways("INVALID_RECORD", "_INVALID_DIFFERENT_RECORD", "INVALID_RECORD", has_texts=False, recovers=True),
    "kafka-python": Ways("InvalidRecordError", "KafkaError", "KafkaError", has_texts=True, recovers=False),
    # It does not know the code 87.
    "aiokafka": Ways("UnknownError", "UnknownError", "UnknownError", has_texts=False, recovers=False),
}


def producers_of(cell: Cell) -> Sequence[Sequence[Wave]]:
    """What each producer sends: all waves if it outlives a refusal; else a new one is needed after each."""
    if cell.kind == "plain" or WAYS[cell.client].recovers:
        return (WAVES,)
    flood = [[FLOOD]] if cell.kind == "idempotent" else []
    return ((FIRST, SOME_BAD), (ONE_BAD,), *flood, (LAST,))


SENDERS = tuple(Cell(client, kind, "lz4") for client in WAYS for kind in KINDS)


@pytest.fixture(scope="session")
def clients(java: Mapping[str, ToolHost]) -> Mapping[str, Client]:
    return producers.clients(java)


@pytest.mark.parametrize("cell", parameters(CELLS))
def test_bad_records_are_refused_good_ones_stored_and_the_producer_goes_on(
    guarded: Guarded, clients: Mapping[str, Client], cell: Cell
) -> None:
    topic = guarded.topic(f"header-{cell}")
    outcomes = [
        (waves, clients[cell.client](guarded.sidecar.bootstrap, topic, cell.codec, cell.kind, waves))
        for waves in producers_of(cell)
    ]
    results = {value: said for _, outcome in outcomes for value, said in outcome.results.items()}
    everything = Outcome(results)
    assert everything.of(FIRST) == everything.of(LAST) == [STORED] * 10
    assert _as_reported(everything, SOME_BAD) == list(_expected(cell, topic, SOME_BAD))
    assert _as_reported(everything, ONE_BAD) == list(_expected(cell, topic, ONE_BAD))
    if FLOOD[0].value in results and cell.kind != "transactional":
        refused = [sent for sent in FLOOD if results[sent.value] != STORED]
        assert {sent for sent in FLOOD if not sent.is_good} <= set(refused)
        assert FLOOD[0] not in refused
        assert len(refused) < 200 or not WAYS[cell.client].recovers
    committed = [wave for waves, outcome in outcomes for wave, end in zip(waves, outcome.ends, strict=True) if not end]
    if cell.kind == "transactional":
        assert committed == [FIRST, LAST]
        assert guarded.stored(topic, isolation="read_committed") == everything.acknowledged(*committed)
    else:
        assert guarded.stored(topic) == everything.acknowledged(*committed)


def _as_reported(outcome: Outcome, wave: Wave) -> list[Result]:
    """Texts without what a library puts before and after them, and without the ids of rejections."""
    texts = (PART_OF_A_BATCH, "Topic")
    shown = []
    for said in outcome.of(wave):
        text = next((said.text[said.text.index(text) :] for text in texts if text in said.text), "")
        shown.append(Result(said.error, without_id(text) if text.startswith("Topic") else text))
    return shown


def _expected(cell: Cell, topic: str, wave: Wave) -> Iterator[Result]:
    ways = WAYS[cell.client]
    is_one = wave is ONE_BAD
    for sent in wave:
        if sent.is_good:
            yield Result(ways.beside_one if is_one else ways.innocent, PART_OF_A_BATCH if ways.has_texts else "")
        else:
            yield Result(ways.culprit, required(topic) if ways.has_texts else "")


@pytest.mark.integration
@pytest.mark.parametrize("cell", SENDERS, ids=str)
def test_a_producer_gets_and_does_the_same_as_after_a_brokers_rejection(
    guarded: Guarded, clients: Mapping[str, Client], cell: Cell
) -> None:
    send = clients[cell.client]
    compacted = guarded.topic(f"compacted-{cell}", cleanup_policy="compact")  # a broker refuses null keys there
    guarded_topic = guarded.topic(f"header-as-{cell}")
    waves = (FIRST, SOME_BAD, LAST)
    direct = send(guarded.cluster.direct, compacted, cell.codec, cell.kind, waves)
    through = send(guarded.sidecar.bootstrap, guarded_topic, cell.codec, cell.kind, waves)
    for wave in waves:
        assert [said.error for said in through.of(wave)] == [said.error for said in direct.of(wave)]
    assert [bool(end) for end in through.ends] == [bool(end) for end in direct.ends]
    assert guarded.stored(guarded_topic) == guarded.stored(compacted)
