"""What validation rejects is kept as letters: which records, how many, and none twice; the answer is the same."""

from __future__ import annotations

from typing import Any

import pytest
from support.driven import Step
from support.features import begun, load, started
from support.letters import Kept, kept_in
from support.produce_requests import produce_request, results

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import Codec, Header, NewRecord, build_batch
from kafka_sidecar.dead_letters.letter import REPLAYED, REST_OF_BATCH
from kafka_sidecar.dead_letters.parcels import Parcel
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.config.mistakes import ConfigError
from kafka_sidecar.proxy.features.compose import Features
from kafka_sidecar.proxy.features.dead_letters.letters import DeadLetters
from kafka_sidecar.proxy.features.validation import stage
from kafka_sidecar.proxy.relay.exchange import Respond

INVALID_RECORD, CORRUPT_MESSAGE = 87, 2
GOOD, BAD = b"{}", b"{"
VERSION = 9


def sidecar(**settings: Any) -> Features:
    topic = {"name": "orders", "policy": "json", "dead_letters": "orders.dlq", **settings.pop("topic", {})}
    return started(topics=[topic, {"name": "payments", "policy": "json"}], **settings)


def letters_of(features: Features) -> DeadLetters:
    made = features.dead_letters
    assert made is not None
    return made


def kept(features: Features) -> list[Kept]:
    parcels: list[Parcel] = []
    while more := letters_of(features).store.buffer.take(1 << 30):
        parcels += more
    return kept_in(parcels)


def batch(*values: bytes | None, **header: Any) -> bytes:
    return build_batch([NewRecord(value, b"k%d" % at) for at, value in enumerate(values)], **header)


def produce(features: Features, records: bytes, topic: str = "orders", acks: int = -1) -> tuple[Step, list[Work]]:
    """What becomes of a request, and the work that was done for it in threads."""
    frame = produce_request(VERSION, {topic: {3: records}}, acks)
    exchange = begun(features, ApiKey.PRODUCE, VERSION, frame)
    assert exchange is not None
    step, works = exchange.request(frame), list[Work]()
    while isinstance(step, Need):
        assert isinstance(step, Work)
        works.append(step)
        step = exchange.answer(step.run())
    return step, works


def codes(step: Step) -> list[tuple[str, int, int, int]]:
    assert isinstance(step, Respond)
    return results(VERSION, step.frame)


def dropped(features: Features) -> dict[str, int]:
    return dict(letters_of(features).stats.dropped)


def test_all_records_of_a_rejected_batch_are_kept_and_the_client_is_answered_as_before() -> None:
    features = sidecar()
    step, works = produce(features, batch(GOOD, BAD, None))
    assert codes(step) == [("orders", 3, INVALID_RECORD, -1)]
    assert works == []
    found = kept(features)
    assert [(one.letter_topic, one.partition, one.key, one.value) for one in found] == [
        ("orders.dlq", 3, b"k0", GOOD), ("orders.dlq", 3, b"k1", BAD), ("orders.dlq", 3, b"k2", None),
    ]  # fmt: skip
    assert [one.reasons.reason for one in found] == [REST_OF_BATCH, "not_json", REST_OF_BATCH]
    assert found[1].reasons.message == "Topic orders requires record values to be JSON: ends too early at byte 1"


def test_nothing_is_kept_of_what_is_accepted_or_of_a_topic_without_dead_letters() -> None:
    features = sidecar()
    produce(features, batch(GOOD))
    produce(features, batch(BAD), "payments")
    assert kept(features) == []
    assert letters_of(features).stats.queued == {}


def test_only_faulty_records_are_kept_where_that_is_configured() -> None:
    features = sidecar(topic={"dead_letters": {"topic": "orders.dlq", "records": "rejected"}})
    produce(features, batch(GOOD, BAD, GOOD, BAD))
    assert [one.reasons.index for one in kept(features)] == [1, 3]


@pytest.mark.parametrize("is_asked", [True, False])
def test_in_shadow_the_faulty_ones_are_copied_if_that_is_asked_for(is_asked: bool) -> None:
    features = sidecar(topic={"mode": "shadow", "dead_letters": {"topic": "orders.dlq", "shadow": is_asked}})
    step, _ = produce(features, batch(GOOD, BAD))
    assert isinstance(step, bytes)
    assert [(one.value, one.reasons.mode) for one in kept(features)] == ([(BAD, "shadow")] if is_asked else [])


def test_a_batch_that_is_rejected_by_its_header_is_kept_whole() -> None:
    features = started(
        policies={"few": {"type": "limits", "max_records": 1}},
        topics=[{"name": "orders", "policy": "few", "dead_letters": "dlq"}],
    )
    _, works = produce(features, batch(GOOD, GOOD, codec=Codec.ZSTD))
    assert len(works) == 1  # it was not inflated before
    assert [(one.value, one.reasons.policy) for one in kept(features)] == [(GOOD, "few")] * 2


def test_what_a_client_sends_again_is_kept_once() -> None:
    features = sidecar()
    of_producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 5}
    for _ in range(2):
        produce(features, batch(BAD, **of_producer))
    produce(features, batch(BAD, **{**of_producer, "base_sequence": 6}))
    assert [one.reasons.sequence for one in kept(features)] == [5, 6]
    assert letters_of(features).stats.repeated == 1
    for _ in range(2):
        produce(features, batch(BAD))  # of no such producer: it may be another record
    assert len(kept(features)) == 2


def test_what_was_not_kept_may_come_again() -> None:
    features = sidecar(dead_letters={"max_records_rate": 1})
    of_producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 5}
    produce(features, batch(*[BAD] * 10))
    produce(features, batch(BAD, **of_producer))
    assert len(kept(features)) == 10
    letters_of(features)._rates.records._left = 100
    produce(features, batch(BAD, **of_producer))
    assert len(kept(features)) == 1


def test_a_replayed_record_is_not_kept_again() -> None:
    features = sidecar()
    replayed = NewRecord(BAD, headers=(Header(REPLAYED, b"k-1"),))
    produce(features, build_batch([NewRecord(BAD), replayed]))
    assert [one.reasons.index for one in kept(features)] == [0]
    assert dropped(features) == {"replayed": 1}


def test_letters_above_the_rate_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    features = sidecar(dead_letters={"max_records_rate": 1})
    step, _ = produce(features, batch(*[BAD] * 17))
    assert codes(step) == [("orders", 3, INVALID_RECORD, -1)]
    assert len(kept(features)) == 10
    assert dropped(features) == {"rate": 7}
    [line] = [one for one in caplog.records if one.message == "dead letters dropped"]
    assert (line.letters, line.reason, line.dead_letter_topic) == (7, "rate", "orders.dlq")  # type: ignore[attr-defined]


@pytest.mark.bulk
def test_nothing_is_looked_at_of_what_comes_while_the_rate_is_used_up() -> None:
    features = sidecar(dead_letters={"max_records_rate": 30})
    now, many = [0.0], batch(*[BAD] * 300)
    rates = letters_of(features)._rates
    rates.records._clock, rates.records._at = lambda: now[0], 0.0
    found = []
    for turn in range(400):  # a second
        now[0] = turn / 400
        _, works = produce(features, many)
        found.append(len(works))
    assert found[0] == 1
    assert sum(found) <= 5  # of 400 batches
    assert len(kept(features)) + dropped(features)["rate"] == 400 * 300


def test_a_batch_that_has_waited_for_a_thread_is_not_read_if_the_rate_is_used_up_by_then() -> None:
    features = sidecar(dead_letters={"max_records_rate": 30})
    rates = letters_of(features)._rates
    rates.records._clock, rates.records._at = lambda: 0.0, 0.0
    frame = produce_request(VERSION, {"orders": {3: batch(*[BAD] * 300)}})
    waiting = []
    for _ in range(2):
        exchange = begun(features, ApiKey.PRODUCE, VERSION, frame)
        assert exchange is not None
        step = exchange.request(frame)
        assert isinstance(step, Work)
        waiting.append(step)
    waiting[0].run()
    kept_batch = waiting[1].run.args[0]  # type: ignore[attr-defined]
    kept_batch.records = lambda: pytest.fail("it is inflated")
    waiting[1].run()
    assert len(kept(features)) == 300
    assert dropped(features) == {"rate": 300}


def test_letters_for_which_there_is_no_room_are_dropped_and_counted() -> None:
    features = sidecar(dead_letters={"max_buffered": "1MiB"})
    value = b"[" * 100_000
    for _ in range(20):
        produce(features, batch(value))
    store = letters_of(features).store
    assert store.buffer.bytes <= 1 << 20
    found = len(kept(features))
    assert 8 <= found <= 10
    assert dropped(features) == {"buffer_full": 20 - found}
    assert store.queued == found


def test_a_corrupt_batch_is_no_letter_because_it_is_sent_again_or_unreadable() -> None:
    features = sidecar()
    corrupt = bytearray(batch(BAD))
    corrupt[-1] ^= 1
    step, _ = produce(features, bytes(corrupt))
    assert codes(step) == [("orders", 3, CORRUPT_MESSAGE, -1)]
    assert kept(features) == []
    assert dropped(features) == {"unreadable": 1}


def test_many_records_are_copied_in_a_thread() -> None:
    features = sidecar()
    many = stage.MAX_INLINE_LETTERS + 1
    _, works = produce(features, batch(*[BAD] * many))
    assert len(works) == 1
    assert len(kept(features)) == many


def test_a_copy_that_is_stopped_counts_what_is_missing() -> None:
    features = sidecar()
    frame = produce_request(VERSION, {"orders": {3: batch(*[BAD] * 500)}})
    exchange = begun(features, ApiKey.PRODUCE, VERSION, frame)
    assert exchange is not None
    step = exchange.request(frame)
    assert isinstance(step, Work)
    step = exchange.fail(TimeoutError())
    assert codes(step) == [("orders", 3, INVALID_RECORD, -1)]
    assert dropped(features) == {"timed_out": 500}


def test_what_a_policy_fails_at_is_kept_and_what_it_cannot_decide_now_is_sent_again() -> None:
    features = started(
        policies={"stub": {"type": "support.policies:Stub"}},
        topics=[{"name": "orders", "policy": "stub", "dead_letters": "dlq"}],
    )
    produce(features, batch(b"bug", b"good"))
    produce(features, batch(b"away", b"good"))
    assert [(one.value, one.reasons.reason) for one in kept(features)] == [
        (b"bug", "policy_failed"), (b"good", "policy_failed"),
    ]  # fmt: skip


def test_another_configuration_holds_at_once() -> None:
    features = sidecar()
    load(features, topics=[{"name": "orders", "policy": "json", "dead_letters": "other"}])
    produce(features, batch(BAD))
    assert [one.letter_topic for one in kept(features)] == ["other"]
    load(features, topics=[{"name": "orders", "policy": "json"}])
    produce(features, batch(BAD))
    assert kept(features) == []


def test_dead_letters_may_come_with_a_reload() -> None:
    features = started(topics=[{"name": "orders", "policy": "json"}])
    assert features.dead_letters is None
    load(features, topics=[{"name": "orders", "policy": "json", "dead_letters": "dlq"}])
    produce(features, batch(BAD))
    assert len(kept(features)) == 1


def test_a_configuration_whose_letters_would_go_in_circles_is_not_applied() -> None:
    topic = {"name": "*", "policy": "json", "dead_letters": "{topic}.dlq"}
    with pytest.raises(ConfigError, match="in circles"):
        started(topics=[topic])
    features = sidecar()
    with pytest.raises(ConfigError, match="in circles"):
        load(features, topics=[topic])
    produce(features, batch(BAD))
    assert [one.letter_topic for one in kept(features)] == ["orders.dlq"]
