"""What a group commits passes through `pre_commit`, and `on_commit` hears of what has succeeded: with four client
libraries, both group protocols, in transactions or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from integration.interception.batches import send
from integration.interception.intercepted import Intercepted
from integration.interception.reads import OWN, How, Partition, Reader
from integration.scenarios.target import eventually

pytestmark = pytest.mark.integration

PARTITIONS, RECORDS = 3, 4
FIRST_WITH_IDS = 10  # OffsetCommit
METADATA = "+ключ"  # what is appended
Committed = dict[Partition, tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Way:
    """In which a client commits."""

    client: str
    name: str = "classic"

    def how(self, group: str) -> How:
        if self.name == "transaction":
            return How(transactional_id=group)
        return How(protocol="consumer" if self.name == "consumer" else "classic")

    @property
    def metadata(self) -> str:
        """What the client itself sends; Python's librdkafka sends the end of the C string too."""
        if self.name != "transaction":
            return ""
        return OWN + "\0" if self.client == "librdkafka" else OWN

    @property
    def api(self) -> str:
        return "TxnOffsetCommit" if self.name == "transaction" else "OffsetCommit"

    def __str__(self) -> str:
        return f"{self.client}-{self.name}"


WAYS = (
    Way("java"), Way("java", "consumer"), Way("java", "transaction"),
    Way("librdkafka"), Way("librdkafka", "consumer"), Way("librdkafka", "transaction"),
    Way("aiokafka"), Way("aiokafka", "transaction"), Way("kafka-python"), Way("kafka-python", "transaction"),
)  # fmt: skip
COUNTED = (
    'interceptor_failures_total{hook="pre_commit",interceptor="overflow"',
    'intercepted_offsets_total{result="unknown_topic"',
)
POINTS = ("client_to_proxy", "proxy_to_broker")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_offsets_are_removed_changed_and_added(
    intercepted: Intercepted, readers: Mapping[str, Reader], way: Way
) -> None:
    group = f"changed-{way}"
    filtered, annotated, generating, overflowing, others = topics = [
        intercepted.topic(f"{what}-{way}", PARTITIONS)
        for what in ("filter", "annotate", "generate", "overflow", "others")
    ]
    generated = intercepted.topic(f"{generating}-other")
    send(intercepted.cluster.direct, generated, [[b"v"] * RECORDS])
    _fill(intercepted, topics)
    failures, unknown = intercepted.metrics(*COUNTED)

    read = readers[way.client](intercepted.sidecar.bootstrap, topics, group, way.how(group))

    assert set(read.positions.values()) == {RECORDS}
    as_it_was = (RECORDS, way.metadata)
    by_interceptor: dict[str, Committed] = {
        "filter": {(filtered, 0): as_it_was, (filtered, 2): as_it_was},
        "annotate": {(annotated, number): (RECORDS, way.metadata + METADATA) for number in range(PARTITIONS)},
        "generate": {(generated, 0): (2, "made too"), **_all(generating, as_it_was)},
        "overflow": _all(overflowing, as_it_was),
    }
    expected = {
        place: offset
        for offsets in (*by_interceptor.values(), _all(others, as_it_was))
        for place, offset in offsets.items()
    }
    # A transaction's end reaches the group a little later.
    eventually(lambda: intercepted.committed(group), lambda found: found == expected, "the commit")
    for does, offsets in by_interceptor.items():
        [event] = intercepted.events("on_commit", group=group, does=does)
        assert {(topic, number): (offset, text) for topic, number, offset, text in event["offsets"]} == offsets
        assert way != Way("java", "consumer") or event["version"] >= FIRST_WITH_IDS
        assert event["transactional_id"] == (group if way.name == "transaction" else None)
    lag = {place: RECORDS - offset for place, (offset, _) in expected.items()}
    assert intercepted.lag(group) == lag
    assert intercepted.metrics(*COUNTED) == [failures + 1, unknown]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_commit_of_which_nothing_is_left_succeeds_and_commits_nothing(
    intercepted: Intercepted, readers: Mapping[str, Reader], way: Way
) -> None:
    group = f"emptied-{way}"
    topic = intercepted.topic(f"empty-{way}", PARTITIONS)
    _fill(intercepted, [topic])
    from_client, to_broker = _requests(intercepted, way.api)

    read = readers[way.client](intercepted.sidecar.bootstrap, [topic], group, way.how(group))

    assert set(read.positions.values()) == {RECORDS}
    assert intercepted.committed(group) == {}
    assert intercepted.events("on_commit", group=group) == []
    from_client_now, to_broker_now = _requests(intercepted, way.api)
    assert from_client_now > from_client
    # Since KIP-890 it is this request that begins the transaction, which could not be committed otherwise.
    joins = way == Way("java", "transaction")
    assert to_broker_now == to_broker + joins


def _fill(intercepted: Intercepted, topics: list[str]) -> None:
    for topic in topics:
        for partition in range(PARTITIONS):
            send(intercepted.cluster.direct, topic, [[b"v"] * RECORDS], partition=partition)


def _all(topic: str, offset: tuple[int, str]) -> Committed:
    return {(topic, number): offset for number in range(PARTITIONS)}


def _requests(intercepted: Intercepted, api: str) -> list[float]:
    """From clients, and to the broker."""
    return intercepted.metrics(*(f'{point}_request_total{{api_key="{api}"' for point in POINTS))
