"""Attempts to send the same large message: the next one goes on after what the last has stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from support.client import FakeClient
from support.driven import Driven, Step
from support.large_messages import LogBroker, Splitting
from support.produce_requests import produce_request, results, topic_id

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import NewRecord, batches, build_batch
from kafka_sidecar.large_messages.back_pointers import BackPointers
from kafka_sidecar.plugins.effects import Need, Work
from kafka_sidecar.proxy.exchanges.produce import ProduceExchange
from kafka_sidecar.proxy.features.large_messages.progress import (
    ENTRY_BYTES,
    MAX_AGE_S,
    MAX_BYTES,
    SLICE_BYTES,
    ProgressStore,
)
from kafka_sidecar.proxy.features.large_messages.split_stage import SplitStage
from kafka_sidecar.proxy.relay.exchange import Respond, Send

VALUE = os.urandom(20_000)
PLACE = "large", 0
IDEMPOTENT: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 7}
each_producer = pytest.mark.parametrize("producer", [{}, IDEMPOTENT], ids=["plain", "idempotent"])
NAMES: Mapping[bytes, str] = {topic_id("large"): "large"}


class Sending:
    """One attempt, slice by slice."""

    def __init__(self, splitting: Splitting, client: FakeClient | None = None, acks: int = -1, **header: Any) -> None:
        value, key = header.pop("value", VALUE), header.pop("key", b"key")
        self.broker = splitting.broker
        self.client = client or FakeClient(client_id="app")
        data = build_batch([NewRecord(b"small"), NewRecord(value, key)], base_timestamp=5, **header)
        run = SplitStage(splitting.services).start(self.client, 12)
        self.exchange = Driven(ProduceExchange([run], NAMES.get, 12))
        self.step = self._local(self.exchange.request(produce_request(12, {"large": {0: data}}, acks)))

    def slices(self, count: int | None = None) -> int:
        """Let so many requests of its own be answered, all by default; how many were."""
        done = 0
        while isinstance(self.step, Send) and (count is None or done < count):
            frames, take = self.step.frames, self.step.take
            if take is None:
                self.step = self._local(self.exchange.answer(tuple(self.broker.serve(one) for one in frames)))
                done += len(frames)
                continue
            step = self._local(self.exchange.answer(()))  # it goes on at once
            for frame in frames:
                if count is not None and done >= count:
                    break
                take(self.broker.serve(frame))
                done += 1
            self.step = step
        return done

    def finish(self) -> int:
        """The code that the client gets."""
        self.slices()
        step = self.step
        if isinstance(step, bytes):
            answer = self.broker.serve(step)
            step = self._local(self.exchange.response(answer)) if self.exchange.wants_response else answer
        frame = step.frame if isinstance(step, Respond) else step
        assert isinstance(frame, bytes)
        ((_, _, code, _),) = results(12, frame)
        return code

    def _local(self, step: Step) -> Step:
        while isinstance(step, Need) and not isinstance(step, Send):
            step = self.exchange.answer(step.run() if isinstance(step, Work) else {"large": topic_id("large")})
        return step


def pointers(broker: LogBroker) -> list[tuple[int, ...]]:
    log: list[Any] = [record for one in broker.log[PLACE] for record in batches(one)[0].records()]
    return [
        BackPointers.decode(header.value, 1000).offsets
        for record in log
        for header in record.headers
        if header.key == "_lmr"
    ]


def value_of(broker: LogBroker, offsets: tuple[int, ...]) -> bytes:
    log: list[Any] = [record for one in broker.log[PLACE] for record in batches(one)[0].records()]
    ids = {header.value[1:17] for at in offsets for header in log[at].headers if header.key == "_lm"}
    assert len(ids) == 1
    return b"".join(log[at].value for at in offsets)


def throttled() -> Splitting:
    splitting = Splitting(LogBroker(throttle_ms=100))
    Sending(splitting, value=b"x" * 5000).finish()  # the topic's limit is known
    splitting.broker.log.clear()
    return splitting.with_services(random=os.urandom)


@each_producer
@pytest.mark.parametrize("is_closed_first", [True, False])
def test_a_retry_goes_on_after_the_slices_that_are_stored(producer: dict[str, Any], is_closed_first: bool) -> None:
    splitting = throttled()
    first = Sending(splitting, **producer)
    assert first.slices(3) == 3
    first.client.has_closed = True
    if is_closed_first:
        first.exchange.lost("the client closed its connection")
    second = Sending(splitting, **producer)
    assert second.finish() == 0
    (offsets,) = pointers(splitting.broker)
    assert value_of(splitting.broker, offsets) + VALUE[-1:] == VALUE
    assert len(splitting.broker.log[PLACE]) == len(offsets) + 1
    assert (splitting.stats.reused_slices, splitting.stats.orphans) == (3, 0)


@each_producer
def test_several_attempts_come_to_the_end_together(producer: dict[str, Any]) -> None:
    splitting = throttled()
    for _ in range(2):
        attempt = Sending(splitting, **producer)
        assert attempt.slices(2) == 2
        attempt.exchange.lost("timed out")
    assert Sending(splitting, **producer).finish() == 0
    (offsets,) = pointers(splitting.broker)
    assert len(splitting.broker.log[PLACE]) == len(offsets) + 1
    assert value_of(splitting.broker, offsets) + VALUE[-1:] == VALUE


@each_producer
def test_an_attempt_whose_message_is_sent_again_ends_and_stores_no_carrier(producer: dict[str, Any]) -> None:
    splitting = throttled()
    first = Sending(splitting, **producer)
    first.slices(2)
    first.client.has_closed = True
    second = Sending(splitting, **producer)
    assert first.finish() == 7
    assert second.finish() == 0
    assert len(pointers(splitting.broker)) == 1


@each_producer
def test_a_copy_that_is_sent_at_the_same_time_has_slices_of_its_own(producer: dict[str, Any]) -> None:
    splitting = throttled()
    first, second = Sending(splitting, **producer), Sending(splitting, **producer)
    first.slices(2)
    assert [second.finish(), first.finish()] == [0, 0]
    one, two = pointers(splitting.broker)
    assert not set(one) & set(two)
    assert splitting.stats.reused_slices == 0


def different(**changes: Any) -> dict[str, Any]:
    return changes


@pytest.mark.parametrize(
    "other",
    [
        different(client=FakeClient(client_id="other")),
        different(client=FakeClient(client_id="app", principal="User:other")),
        different(client=FakeClient(client_id="app", host="10.0.0.9")),
        different(value=VALUE[::-1]), different(key=b"other"),
        different(producer_id=6, producer_epoch=0, base_sequence=7),
        different(producer_id=5, producer_epoch=1, base_sequence=7),
        different(producer_id=5, producer_epoch=0, base_sequence=8), different(acks=1),
    ],
    ids=lambda other: ",".join(other),
)  # fmt: skip
def test_another_message_gets_none_of_them(other: dict[str, Any]) -> None:
    splitting = throttled()
    header = IDEMPOTENT if "producer_id" in other else {}
    first = Sending(splitting, **header)
    first.slices(3)
    first.exchange.lost("the client closed its connection")
    assert Sending(splitting, **other).finish() == 0
    assert splitting.stats.reused_slices == 0


def test_slices_that_one_replica_has_acknowledged_are_not_used_again() -> None:
    splitting = throttled()
    first = Sending(splitting, acks=1)
    first.slices(3)
    first.exchange.lost("the client closed its connection")
    assert Sending(splitting, acks=1).finish() == 0
    assert (splitting.stats.reused_slices, splitting.stats.orphans) == (0, 3)


def test_slices_of_another_size_are_not_used_again() -> None:
    splitting = throttled()
    first = Sending(splitting)
    first.slices(3)
    first.exchange.lost("the client closed its connection")
    splitting.broker.max_batch, splitting.now = 2000, 31.0
    assert Sending(splitting).finish() == 0
    assert (splitting.stats.reused_slices, splitting.stats.orphans) == (0, 3)


@each_producer
@pytest.mark.parametrize(("code", "is_kept"), [(6, True), (19, True), (7, None), (20, None), (45, False), (29, False)])
def test_after_a_carrier_that_is_rejected_they_are_used_if_it_is_sent_again_and_not_stored(
    producer: dict[str, Any], code: int, is_kept: bool | None
) -> None:
    splitting = throttled()
    first = Sending(splitting, **producer)
    count = first.slices()
    splitting.broker.errors[splitting.broker.batches] = code
    assert first.finish() == code
    assert Sending(splitting, **producer).finish() == 0
    expected = bool(producer) if is_kept is None else is_kept  # a broker stores an idempotent carrier once
    assert (splitting.stats.reused_slices, splitting.stats.orphans) == ((count, 0) if expected else (0, count))


@each_producer
@pytest.mark.parametrize("is_lost", [True, False])
def test_after_a_carrier_of_which_nothing_is_known_only_an_idempotent_producer_uses_them(
    producer: dict[str, Any], is_lost: bool
) -> None:
    splitting = throttled()
    first = Sending(splitting, **producer)
    count = first.slices()
    assert isinstance(first.step, bytes)
    first.client.has_closed = True
    if is_lost:
        first.exchange.lost("the client closed its connection")
    assert Sending(splitting, **producer).finish() == 0
    assert splitting.stats.reused_slices == (count if producer else 0)


def test_a_response_that_cannot_be_read_ends_the_connection_and_what_is_stored_is_kept() -> None:
    splitting = throttled()
    first = Sending(splitting)
    first.slices(2)
    with pytest.raises(CodecError):
        first.exchange.answer((b"\0\0\0\4\0\0\0\0",))
    first.exchange.lost("the response cannot be read")
    assert Sending(splitting).finish() == 0
    assert splitting.stats.reused_slices == 2


@pytest.mark.parametrize("throttle_ms", [0, 100])
def test_where_the_broker_throttles_slices_are_sent_one_by_one(
    throttle_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that are on their way when the client gives up are sent again."""
    monkeypatch.setattr("kafka_sidecar.proxy.features.large_messages.slices.WINDOW_BYTES", 20_000)
    splitting = throttled()
    splitting.broker.throttle_ms = throttle_ms
    first = Sending(splitting, value=os.urandom(60_000))
    windows = []
    while isinstance(first.step, Send):
        frames = len(first.step.frames) + (1 if first.step.take is not None else 0)
        windows.append(frames)
        first.slices(frames)
    assert windows == ([5] + [1] * 11 if throttle_ms else [5, 5, 5, 1])


def test_an_idempotent_producer_that_has_given_up_too_early_stores_no_slice_again() -> None:
    """Its message is stored; the broker answers for the carrier that it sends again."""
    splitting = throttled()
    first = Sending(splitting, **IDEMPOTENT)
    first.slices()
    first.client.has_closed = True
    assert first.finish() == 0
    stored = len(splitting.broker.log[PLACE])
    assert Sending(splitting, **IDEMPOTENT).finish() == 0
    assert len(splitting.broker.log[PLACE]) == stored + 1  # which a broker takes for the same
    splitting.now = MAX_AGE_S + 1
    splitting.services.progress.expire()
    assert splitting.stats.orphans == 0


def test_an_attempt_after_one_that_was_throttled_begins_with_one_slice() -> None:
    splitting = throttled()
    first = Sending(splitting)
    first.slices(1)
    first.exchange.lost("the client closed its connection")
    second = Sending(splitting)
    assert isinstance(second.step, Send)
    assert (len(second.step.frames), second.step.take) == (1, None)


def test_progress_is_given_up_after_a_while() -> None:
    splitting = throttled()
    first = Sending(splitting)
    first.slices(3)
    first.exchange.lost("the client closed its connection")
    splitting.now = MAX_AGE_S
    splitting.services.progress.expire()
    assert splitting.stats.orphans == 0
    splitting.now += 1
    assert Sending(splitting).finish() == 0
    assert (splitting.stats.orphans, splitting.stats.reused_slices) == (3, 0)


def test_all_progress_together_is_bounded() -> None:
    orphans: list[int] = []
    store, client = ProgressStore(lambda: 0.0, orphans.append), FakeClient()
    count = 10
    room = MAX_BYTES // (ENTRY_BYTES + count * SLICE_BYTES)
    for number in range(room + 5):
        one = store.begin(number.to_bytes(16, "big"), b"", client)
        for at in range(count):
            one.add(at, (1, 2), at)
        store.put_back(one)
    assert orphans == [count] * 5
    assert store.begin((4).to_bytes(16, "big"), b"", client).count == 0
    kept = store.begin((room + 4).to_bytes(16, "big"), b"", client)
    assert kept.count == count
    store.abandon(kept)
    assert sum(orphans) == 6 * count


def test_progress_that_is_taken_and_put_back_does_not_take_more_room() -> None:
    orphans: list[int] = []
    store, client = ProgressStore(lambda: 0.0, orphans.append), FakeClient()
    for _ in range(MAX_BYTES // (ENTRY_BYTES + SLICE_BYTES) + 2):
        one = store.begin(bytes(16), b"", client)
        one.add(0, (1, 2), 0)
        store.put_back(one)
    assert (store.begin(bytes(16), b"", client).count, orphans) == (1, [])


def test_nothing_is_left_of_messages_that_are_stored() -> None:
    splitting = throttled()
    for number in range(3):
        assert Sending(splitting, value=VALUE + bytes([number])).finish() == 0
    assert not vars_of(splitting.services.progress)


def vars_of(store: ProgressStore) -> object:
    return store._found or store._bytes
