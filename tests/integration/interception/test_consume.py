"""Records that an interceptor edits or drops: each client gets the rest, and continues to the end of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from integration.cells import parameters
from integration.interception.batches import HEADERS, KEY, Sender, send
from integration.interception.intercepted import Intercepted
from integration.interception.readers import WAIT_MS, librdkafka
from integration.interception.reads import ISOLATIONS, How, Isolation, Reader, Seen
from integration.scenarios.target import eventually
from integration.validation.waves import CODECS

READERS = ("java", "librdkafka", "aiokafka", "kafka-python")
EDITED = (("edited", None), ("ключ", b""))
SMALL = 1  # bytes: a broker gives one batch in each answer
ALL_DROPPED = 15


def dropped(name: str, count: int = 3) -> list[bytes]:
    return [b"drop %s %d" % (name.encode(), number) for number in range(count)]


def mixed(name: str) -> list[bytes]:
    """A batch of which some records stay, some are edited and some are dropped, at its ends too."""
    kinds = (b"drop", b"keep", b"edit", b"drop", b"drop", b"edit", b"keep", b"drop")
    return [b"%s %s %d" % (kind, name.encode(), at) for at, kind in enumerate(kinds)]


def expected(topic: str, batches: Sequence[Sequence[bytes]], partition: int = 0) -> Iterator[Seen]:
    """What a consumer sees of batches that fill a log from its beginning."""
    for offset, value in enumerate(value for batch in batches for value in batch):
        if value.startswith(b"keep"):
            yield Seen(topic, partition, offset, KEY, value, tuple(HEADERS))
        elif value.startswith(b"edit"):
            yield Seen(topic, partition, offset, None, b"was " + value, (*HEADERS, *EDITED))


@dataclass(frozen=True, slots=True)
class Cell:
    client: str
    codec: str

    @property
    def is_core(self) -> bool:
        """Whether every change is tested with it: each client, each codec."""
        return (CODECS.index(self.codec) + READERS.index(self.client)) % len(READERS) == 1

    def __str__(self) -> str:
        return f"{self.client}-{self.codec}"


CELLS = tuple(Cell(client, codec) for client in READERS for codec in CODECS)


@pytest.mark.parametrize("cell", parameters(CELLS))
def test_what_is_kept_and_edited_is_seen_and_no_lag_remains(
    intercepted: Intercepted, readers: Mapping[str, Reader], cell: Cell
) -> None:
    topic, group = intercepted.topic(f"chosen-{cell}"), f"group-{cell}"
    batches = [
        dropped("first"), mixed("a"), dropped("between"), dropped("again"), [b"keep one"], mixed("b"),
        dropped("tail"), dropped("end", 1),
    ]  # fmt: skip
    send(intercepted.cluster.direct, topic, batches, cell.codec)

    read = readers[cell.client](intercepted.sidecar.bootstrap, [topic], group, How(fetch_bytes=SMALL))

    end = sum(map(len, batches))
    assert read.of(topic) == list(expected(topic, batches))
    assert read.positions == {(topic, 0): end}
    assert {place: offset for place, (offset, _) in intercepted.committed(group).items()} == {(topic, 0): end}
    assert intercepted.lag(group) == {(topic, 0): 0}


@pytest.fixture(scope="module")
def transactions(intercepted: Intercepted) -> tuple[str, list[Seen], list[Seen]]:
    """A topic with transactions that cross each other; all that is visible in it, and what of it is committed."""
    topic = intercepted.topic("chosen-transactions")
    direct = intercepted.cluster.direct
    one, other = (Sender(direct, topic, "lz4", f"{topic}-{name}") for name in ("one", "other"))
    plain = Sender(direct, topic)
    log: list[tuple[bytes, bool] | None] = []  # value, whether it is committed; None: a marker

    def batch(sender: Sender, values: Sequence[bytes], committed: bool) -> None:
        sender.batch(*values)
        log.extend((value, committed) for value in values)

    def ended(end: Callable[[], None]) -> None:
        """The answer does not wait for the marker."""
        end()
        log.append(None)
        eventually(lambda: intercepted.ends((topic, 0))[topic, 0], lambda found: found == len(log), "the marker")

    batch(plain, dropped("before"), True)
    one.begin()
    batch(one, mixed("one commits"), True)
    other.begin()
    batch(other, dropped("other aborts"), False)
    batch(plain, dropped("inside"), True)
    batch(one, dropped("one commits"), True)
    batch(other, mixed("other aborts"), False)
    ended(other.abort)
    batch(plain, mixed("plain"), True)
    batch(one, dropped("one commits, after the abort"), True)
    ended(one.commit)
    batch(plain, dropped("between"), True)
    other.begin()
    batch(other, dropped("other commits nothing visible"), True)
    ended(other.commit)
    one.begin()
    batch(one, mixed("one aborts"), False)
    batch(plain, mixed("inside the abort"), True)
    batch(one, dropped("one aborts"), False)
    ended(one.abort)
    other.begin()
    batch(other, [b"keep last"], True)
    batch(other, dropped("other commits"), True)
    ended(other.commit)
    one.begin()
    batch(one, mixed("the last abort"), False)
    ended(one.abort)
    batch(plain, dropped("tail"), True)
    committed = [entry[0] if entry and entry[1] else b"drop" for entry in log]
    return (
        topic,
        [*expected(topic, [[entry[0] if entry else b"drop" for entry in log]])],
        [*expected(topic, [committed])],
    )


@pytest.mark.integration
@pytest.mark.parametrize("fetch_bytes", [SMALL, 1 << 20], ids=["batch by batch", "all at once"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", READERS)
def test_transactions_are_seen_as_their_ends_say(
    intercepted: Intercepted,
    readers: Mapping[str, Reader],
    transactions: tuple[str, list[Seen], list[Seen]],
    client: str,
    isolation: Isolation,
    fetch_bytes: int,
) -> None:
    topic, everything, committed = transactions
    group = f"{client}-{isolation}-{fetch_bytes}"

    read = readers[client](intercepted.sidecar.bootstrap, [topic], group, How(isolation, fetch_bytes=fetch_bytes))

    assert read.of(topic) == (committed if isolation == "read_committed" else everything)
    assert read.positions == intercepted.ends((topic, 0))
    assert intercepted.lag(group) == {(topic, 0): 0}


class Lines(logging.Handler):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> tuple[logging.Logger, list[str]]:
    """A logger, and what is written to it."""
    logger, handler = logging.getLogger("librdkafka.fetching"), Lines()
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.DEBUG)
    return logger, handler.lines


def grown(lines: Sequence[str]) -> list[str]:
    """What librdkafka says when it takes an answer for one that had no room for a whole batch."""
    return [line for line in lines if "max fetch bytes" in line or "message size" in line.lower()]


@pytest.mark.integration
def test_librdkafka_passes_a_row_of_dropped_batches_with_the_same_fetch_size(
    intercepted: Intercepted, lines: tuple[logging.Logger, list[str]]
) -> None:
    topic = intercepted.topic("chosen-row")
    row = [dropped(str(number)) for number in range(ALL_DROPPED)]
    batches = [*row, [b"keep between"], *row]
    send(intercepted.cluster.direct, topic, batches)
    logger, written = lines

    read = librdkafka(intercepted.sidecar.bootstrap, [topic], "row", How(fetch_bytes=SMALL), logger, "fetch,msg")

    assert list(read.values(topic)) == [b"keep between"]
    assert read.positions == intercepted.ends((topic, 0))
    assert any("Fetch topic" in line for line in written)
    assert grown(written) == []


@pytest.mark.integration
def test_librdkafka_at_the_end_of_the_log_continues_after_each_dropped_batch(
    intercepted: Intercepted, lines: tuple[logging.Logger, list[str]]
) -> None:
    topic = intercepted.topic("chosen-live")
    logger, written = lines
    consumer = Consumer({
        "bootstrap.servers": intercepted.sidecar.bootstrap, "logger": logger, "debug": "fetch,msg", "group.id": "live",
        "enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": WAIT_MS,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    sender, ends, values = Sender(intercepted.cluster.direct, topic), [0], list[bytes | None]()

    def end() -> int:
        for message in consumer.consume(100, timeout=0.05):
            if (error := message.error()) is None:
                values.append(message.value())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                offset = message.offset()
                assert offset is not None
                ends.append(offset)
        return ends[-1]

    try:
        for number in range(1, ALL_DROPPED + 1):
            sender.batch(*dropped("live"))
            eventually(end, lambda at: at == 3 * number, "the end moves on")  # noqa: B023
        assert consumer.position([TopicPartition(topic, 0)])[0].offset == ends[-1]
        sender.batch(b"keep at last")
        eventually(end, lambda at: at == 3 * ALL_DROPPED + 1, "the last record")
        [committed] = consumer.commit(asynchronous=False)
        assert committed.offset == 3 * ALL_DROPPED + 1
    finally:
        consumer.close()
    assert values == [b"keep at last"]
    assert sorted(ends) == ends
    assert grown(written) == []


@pytest.mark.integration
def test_a_fetch_session_of_java_reads_intercepted_and_other_topics(
    intercepted: Intercepted, readers: Mapping[str, Reader]
) -> None:
    chosen, others = intercepted.topic("chosen-session", 2), intercepted.topic("others-session", 3)
    row = [dropped(str(number)) for number in range(ALL_DROPPED)]
    batches = [*row, mixed("a"), *row, mixed("b"), dropped("tail")]
    for topic, partitions in ((chosen, 2), (others, 3)):
        for partition in range(partitions):
            send(intercepted.cluster.direct, topic, batches, partition=partition)
    before = intercepted.metric('intercepted_batches_total{api_key="Fetch"')

    how = How(fetch_bytes=SMALL)
    read = readers["java"](intercepted.sidecar.bootstrap, [chosen, others], "session", how)

    for partition in range(2):
        assert read.of(chosen, partition) == list(expected(chosen, batches, partition))
    for partition in range(3):
        assert list(read.values(others, partition)) == [value for batch in batches for value in batch]
    end = sum(map(len, batches))
    assert read.positions == {(chosen, 0): end, (chosen, 1): end, (others, 0): end, (others, 1): end, (others, 2): end}
    assert {*intercepted.lag("session").values()} == {0}
    assert intercepted.metric('intercepted_batches_total{api_key="Fetch"') == before + 2 * len(batches)


@pytest.mark.integration
def test_interceptors_do_not_see_what_a_client_is_not_shown(
    intercepted: Intercepted, readers: Mapping[str, Reader]
) -> None:
    topic = intercepted.topic("chosen-unseen")
    sender = Sender(intercepted.cluster.direct, topic, transactional_id=topic)
    for ends in (sender.commit, sender.abort, sender.commit):
        sender.begin()
        sender.batch(b"keep", b"drop")
        ends()
    for isolation in ISOLATIONS:
        how = How(isolation)
        readers["librdkafka"](intercepted.sidecar.bootstrap, [topic], f"unseen-{isolation}", how)
    seen = [event["offset"] for event in intercepted.events("on_consume", topic=topic)]
    assert seen == [0, 1, 3, 4, 6, 7, 0, 1, 6, 7]
