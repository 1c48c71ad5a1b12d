"""What a broker with a sidecar in front answers to one Produce request, in every version of it."""

from __future__ import annotations

import pytest
from integration.validation.batches import good, partly_bad
from integration.validation.guarded import Guarded, required
from integration.validation.wire import FIRST_WITH_RECORD_ERRORS, Answer, Wire

pytestmark = pytest.mark.integration

VERSIONS = range(3, 14)
NEWEST_VERSION = VERSIONS[-1]
VALUES = [b"a", b"b", b"c", b"d", b"e"]
INVALID_RECORD = 87
UNKNOWN_TOPIC_ID = 100


@pytest.fixture(scope="module")
def topics(guarded: Guarded) -> tuple[str, str]:
    """Four partitions with a policy, and one without."""
    return guarded.topic("header-answers", 4), guarded.topic("answers", 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refused_partition_is_answered_in_every_version(
    guarded: Guarded, topics: tuple[str, str], version: int
) -> None:
    topic, _ = topics
    with Wire(guarded.sidecar.bootstrap) as wire:
        answers = wire.produce(version, {topic: {0: partly_bad(VALUES, [1, 3])}})
        [after] = wire.produce(version, {topic: {1: good([b"after %d" % version])}}).values()
    [answer] = answers.values()
    assert (answer.code, answer.base_offset) == (INVALID_RECORD, -1)
    assert (after.code, after.base_offset) == (0, version - VERSIONS[0])
    if version >= FIRST_WITH_RECORD_ERRORS:
        assert answer.record_errors == ((1, required(topic)), (3, required(topic)))
        assert answer.message is not None
        assert answer.message.startswith("One or more records have been rejected due to 2 record errors in total")
        assert required(topic) in answer.message
    assert guarded.stored(topic) == []


@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST_VERSION])
def test_three_partitions_are_stored_where_a_fourth_is_refused_and_one_answer_says_so(
    guarded: Guarded, version: int
) -> None:
    topic, other = guarded.topic(f"header-mixed-{version}", 4), guarded.topic(f"mixed-{version}")
    batches = {0: good(VALUES), 1: good(VALUES), 2: partly_bad(VALUES, [4]), 3: good(VALUES)}
    with Wire(guarded.sidecar.bootstrap) as wire:
        answers = wire.produce(version, {topic: batches, other: {0: partly_bad(VALUES, [0])}})
        again = wire.produce(version, {topic: {0: good(VALUES)}})
    assert [*answers] == [(topic, 0), (topic, 1), (topic, 2), (topic, 3), (other, 0)]
    assert [(answer.code, answer.base_offset) for answer in answers.values()] == [
        (0, 0),
        (0, 0),
        (INVALID_RECORD, -1),
        (0, 0),
        (0, 0),
    ]
    if version >= FIRST_WITH_RECORD_ERRORS:
        said = answers[topic, 2]
        assert said == Answer(INVALID_RECORD, -1, ((4, required(topic)),), f"require_header: {required(topic)}")
    assert [guarded.stored(topic, partition) for partition in range(4)] == [VALUES * 2, VALUES, [], VALUES]
    assert guarded.stored(other) == VALUES
    assert again[topic, 0].base_offset == len(VALUES)


def test_the_zero_id_is_answered_as_a_topic_that_is_not_there_and_delays_no_client(
    guarded: Guarded, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    with Wire(guarded.sidecar.bootstrap) as wire:
        assert wire.produce_to_no_topic(good(VALUES)) == UNKNOWN_TOPIC_ID
        assert wire.produce(9, {topic: {3: partly_bad(VALUES, [0])}})[topic, 3].code == INVALID_RECORD


def test_a_refused_batch_without_acks_ends_the_connection_as_at_a_broker(
    guarded: Guarded, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    with Wire(guarded.sidecar.bootstrap) as wire, pytest.raises(EOFError):
        wire.produce(9, {topic: {2: partly_bad(VALUES, [0])}}, acks=0)
    assert guarded.stored(topic, 2) == []


def test_a_batch_of_which_the_header_says_enough_is_never_inflated(guarded: Guarded) -> None:
    topic = guarded.topic("count-hints")
    validated = [f'validated_batches_total{{depth="{depth}"}}' for depth in ("header", "contents")]
    shallow, deep = guarded.metrics(*validated)
    with Wire(guarded.sidecar.bootstrap) as wire:
        codes = [answer.code for _ in range(3) for answer in wire.produce(9, {topic: {0: good(VALUES)}}).values()]
        refused = wire.produce(9, {topic: {0: good([b"v"] * 1001)}})[topic, 0]
    assert codes == [0, 0, 0]
    assert (refused.code, refused.record_errors) == (INVALID_RECORD, ())
    assert refused.message == f"few-records: Topic {topic} requires batches to have at most 1000 records"
    assert guarded.metrics(*validated) == [shallow + 4, deep]
    assert guarded.stored(topic) == VALUES * 3
