"""Records that were written past the sidecar and that a policy rejects: what consumers get of them through it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import admin_pages
from harness.versions import NEWEST
from integration.cells import parameters
from integration.interception.batches import HEADERS, KEY, Sender, send
from integration.interception.intercepted import Intercepted
from integration.interception.reads import ISOLATIONS, How, Isolation, Reader, Seen
from integration.interception.share_readers import begin_at_the_start, lag, read_all, read_with_java
from integration.scenarios.target import eventually
from integration.validation.waves import CODECS

pytestmark = pytest.mark.integration

READERS = ("java", "librdkafka", "aiokafka", "kafka-python")
SMALL = 1  # bytes: a broker gives one batch in each answer
BAD = b"not JSON %d"
MARK = ("kafka_sidecar.invalid", b"json/not_json")


def bad(count: int = 3) -> list[bytes]:
    return [BAD % number for number in range(count)]


def good(number: int) -> bytes:
    return b'{"good": %d}' % number


BATCHES = [
    bad(), [BAD % 0, good(1), BAD % 2, good(2), BAD % 3], bad(), bad(), [good(3)], [good(4), BAD % 1], bad(), bad(1),
]  # fmt: skip
END = sum(map(len, BATCHES))


def expected(topic: str, values: Sequence[bytes | None]) -> Iterator[Seen]:
    """What a consumer gets of values that fill a log from its beginning."""
    for offset, value in enumerate(values):
        if value is None:
            continue
        if value.startswith(b"{") or topic.startswith("shadow"):
            yield Seen(topic, 0, offset, KEY, value, tuple(HEADERS))
        elif topic.startswith("marked"):
            yield Seen(topic, 0, offset, KEY, value, (*HEADERS, MARK))
        elif topic.startswith("named"):
            yield Seen(topic, 0, offset, KEY, value, (*HEADERS, ("bad", MARK[1])))


@dataclass(frozen=True, slots=True)
class Cell:
    client: str
    codec: str
    action: str

    @property
    def is_core(self) -> bool:
        """Whether every change is tested with it: each client, each codec, each action."""
        place = CODECS.index(self.codec) + READERS.index(self.client)
        return place % len(READERS) == {"hidden": 1, "marked": 2}[self.action]

    def __str__(self) -> str:
        return f"{self.action}-{self.client}-{self.codec}"


CELLS = tuple(Cell(client, codec, action) for client in READERS for codec in CODECS for action in ("hidden", "marked"))


@pytest.mark.parametrize("cell", parameters(CELLS))
def test_rejected_records_are_hidden_or_marked_and_no_lag_remains(
    checked: Intercepted, readers: Mapping[str, Reader], cell: Cell
) -> None:
    topic, group = checked.topic(str(cell)), f"group-{cell}"
    send(checked.cluster.direct, topic, BATCHES, cell.codec)

    read = readers[cell.client](checked.sidecar.bootstrap, [topic], group, How(fetch_bytes=SMALL))

    assert read.of(topic) == list(expected(topic, [value for batch in BATCHES for value in batch]))
    assert read.positions == {(topic, 0): END}
    assert checked.lag(group) == {(topic, 0): 0}


@pytest.mark.parametrize("client", READERS)
def test_no_lag_remains_of_records_that_are_hidden_at_the_end_of_a_batch(
    checked: Intercepted, readers: Mapping[str, Reader], client: str
) -> None:
    topic = checked.topic(f"hidden-tail-{client}")
    send(checked.cluster.direct, topic, [[good(1)], [good(2), *bad(2)]], "zstd")
    read = readers[client](checked.sidecar.bootstrap, [topic], topic, How())
    assert [*read.values(topic)] == [good(1), good(2)]
    assert read.positions == {(topic, 0): 4}
    assert checked.lag(topic) == {(topic, 0): 0}


@pytest.mark.parametrize(("topic", "action"), [("named-own", "mark"), ("shadow-all", "shadow")])
def test_a_policy_and_header_of_its_own_and_shadow(
    checked: Intercepted, readers: Mapping[str, Reader], topic: str, action: str
) -> None:
    send(checked.cluster.direct, checked.topic(topic), BATCHES, "zstd")
    read = readers["java"](checked.sidecar.bootstrap, [topic], topic, How())
    assert read.of(topic) == list(expected(topic, [value for batch in BATCHES for value in batch]))
    labels = f'action="{action}",policy="json",reason="not_json",topic="{topic}"'
    counted = f"rejected_fetched_records_total{{{labels}}}"
    eventually(lambda: checked.metric(counted), lambda found: found == END - 4, "what is counted")


def test_a_policy_of_headers_hides_whole_batches(checked: Intercepted, readers: Mapping[str, Reader]) -> None:
    topic = checked.topic("few-records")
    send(checked.cluster.direct, topic, [[b"a"], [b"b", b"c", b"d"], [b"e", b"f"], [b"g", b"h", b"i"]], "lz4")
    for client, read in readers.items():
        found = read(checked.sidecar.bootstrap, [topic], f"few-{client}", How())
        assert [*found.values(topic)] == [b"a", b"e", b"f"]
        assert found.positions == {(topic, 0): 9}


def test_all_of_many_rejected_records_are_hidden(checked: Intercepted, readers: Mapping[str, Reader]) -> None:
    """More of one batch than a response to a producer would name."""
    topic = checked.topic("hidden-many")
    send(checked.cluster.direct, topic, [[*bad(1200), good(1), *bad(1300), good(2)]], "zstd")
    read = readers["java"](checked.sidecar.bootstrap, [topic], topic, How())
    assert [*read.values(topic)] == [good(1), good(2)]
    assert checked.lag(topic) == {(topic, 0): 0}


@pytest.fixture(scope="module")
def transactions(checked: Intercepted) -> tuple[str, list[Seen], list[Seen]]:
    """A topic with transactions that cross each other; all that is visible in it, and what of it is committed."""
    topic, direct = checked.topic("hidden-transactions"), checked.cluster.direct
    one, other = (Sender(direct, topic, "lz4", f"{topic}-{name}") for name in ("one", "other"))
    plain, log = Sender(direct, topic), list[tuple[bytes, bool] | None]()

    def batch(sender: Sender, committed: bool, *values: bytes) -> None:
        sender.batch(*values)
        log.extend((value, committed) for value in values)

    def ended(end: object) -> None:
        assert callable(end)
        end()
        log.append(None)
        eventually(lambda: checked.ends((topic, 0))[topic, 0], lambda found: found == len(log), "the marker")

    one.begin()
    batch(one, True, *bad(), good(1))
    other.begin()
    batch(other, False, good(2), *bad())
    batch(plain, True, *bad())
    ended(other.abort)
    batch(one, True, *bad())
    ended(one.commit)
    other.begin()
    batch(other, True, *bad())
    ended(other.commit)
    one.begin()
    batch(one, False, good(3))
    batch(plain, True, good(4), *bad(1))
    ended(one.abort)
    batch(plain, True, *bad())
    everything = [entry[0] if entry else None for entry in log]
    committed = [entry[0] if entry and entry[1] else None for entry in log]
    return topic, [*expected(topic, everything)], [*expected(topic, committed)]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("client", READERS)
def test_transactions_are_seen_as_their_ends_say(
    checked: Intercepted,
    readers: Mapping[str, Reader],
    transactions: tuple[str, list[Seen], list[Seen]],
    client: str,
    isolation: Isolation,
) -> None:
    topic, everything, committed = transactions
    group = f"{client}-{isolation}-transactions"
    read = readers[client](checked.sidecar.bootstrap, [topic], group, How(isolation, fetch_bytes=SMALL))
    assert read.of(topic) == (committed if isolation == "read_committed" else everything)
    assert checked.lag(group) == {(topic, 0): 0}


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_share_groups_get_the_others_and_go_on(checked: Intercepted, mode: str) -> None:
    topic = checked.topic(f"hidden-share-{mode}")
    send(checked.cluster.direct, topic, BATCHES, "gzip")
    group = begin_at_the_start(checked, topic)
    values = [message.value() for message in read_all(checked, group, topic, mode)]
    assert values == [good(1), good(2), good(3), good(4)]


def test_javas_share_consumer_does_too(checked: Intercepted) -> None:
    topic = checked.topic("hidden-share-java")
    send(checked.cluster.direct, topic, BATCHES, "snappy")
    group = begin_at_the_start(checked, topic)
    assert read_with_java(checked, group, topic) == [good(number).decode() for number in (1, 2, 3, 4)]
    assert lag(checked, group, topic) == 0


def test_kafkas_console_consumer_shows_the_mark(checked: Intercepted) -> None:
    topic = checked.topic("marked-console")
    send(checked.cluster.direct, topic, [[good(1), *bad(1)]])
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    shown = checked.java[NEWEST].run(
        tool, "--bootstrap-server", checked.sidecar.bootstrap, "--topic", topic, "--from-beginning",
        "--max-messages", 2, "--formatter-property", "print.headers=true",
    ).splitlines()  # fmt: skip
    assert shown == [
        'h:1,h:null\t{"good": 1}',
        "h:1,h:null,kafka_sidecar.invalid:json/not_json\tnot JSON 0",
    ]


@pytest.mark.parametrize("client", READERS)
@pytest.mark.parametrize("action", ["hidden", "marked"])
def test_while_a_policy_cannot_decide_consumers_wait_and_lose_nothing(
    checked: Intercepted, readers: Mapping[str, Reader], down: Path, client: str, action: str
) -> None:
    topic = checked.topic(f"down-{action}-{client}")
    send(checked.cluster.direct, topic, [[b"a", b"bad b"], [b"c"], [b"bad d"]])
    down.touch()
    threading.Timer(3, down.unlink).start()
    began = time.monotonic()
    read = readers[client](checked.sidecar.bootstrap, [topic], topic, How())
    assert time.monotonic() - began > 2.5
    assert [*read.values(topic)] == ([b"a", b"c"] if action == "hidden" else [b"a", b"bad b", b"c", b"bad d"])
    assert checked.lag(topic) == {(topic, 0): 0}
    withheld = checked.metric('validated_fetched_batches_total{api_key="Fetch",result="withheld"}')
    assert 1 <= withheld < 30 * len(READERS)  # it does not ask in a loop


def test_share_groups_wait_too(checked: Intercepted, down: Path) -> None:
    topic = checked.topic("down-hidden-share")
    send(checked.cluster.direct, topic, [[b"a", b"bad b"], [b"c"]])
    group = begin_at_the_start(checked, topic)
    down.touch()
    threading.Timer(3, down.unlink).start()
    assert [message.value() for message in read_all(checked, group, topic, "implicit")] == [b"a", b"c"]


def test_large_messages_are_whole_when_a_policy_sees_them(checked: Intercepted, readers: Mapping[str, Reader]) -> None:
    topic = checked.topic("large-values", max_message_bytes="100000")
    value = b'{"large": "' + b"x" * 300_000 + b'"}'
    sender = Sender(checked.sidecar.bootstrap, topic)
    sender.batch(value)
    Sender(checked.cluster.direct, topic).batch(*bad())
    Sender(checked.cluster.direct, topic).batch(good(1))
    for client, reader in readers.items():
        read = reader(checked.sidecar.bootstrap, [topic], f"large-{client}", How())
        assert [*read.values(topic)] == [value, good(1)]


def test_a_log_line_has_an_id_that_can_be_explained(checked: Intercepted, readers: Mapping[str, Reader]) -> None:
    topic = checked.topic("hidden-explained")
    send(checked.cluster.direct, topic, [[*bad(2), good(1)]])
    readers["librdkafka"](checked.sidecar.bootstrap, [topic], topic, How())
    (line,) = (one for one in checked.lines() if one["message"] == "fetched records rejected" and one["topic"] == topic)
    found = json.loads(admin_pages.get(f"{checked.sidecar.admin}/rejections/{line['rejection']}").text)
    assert (found["outcome"], found["policy"], found["rejected_records"]) == ("hidden from the consumer", "json", 2)
    assert BAD[:8] not in checked.sidecar.log.read_bytes()
