"""KIP-42, KIP-82 and KIP-512, observed: a Java client's interceptors, and ours in a sidecar, are called alike.

docs/reference/interceptors.md has a row for each rule, and what differs; tests/interceptors/test_conformance_table.py
holds that every test that it names exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.interception.conformance import (
    CHAIN,
    CLIENT,
    DIRECT,
    HALF,
    THROUGH,
    Event,
    Stage,
    Transcripts,
    by_place,
    configuration,
    flattened,
    read,
    rounds,
    stored,
    without_half,
)
from integration.lent import plain_cluster
from integration.scenarios.target import LIMIT_S, SILENT, eventually

pytestmark = pytest.mark.integration

PROTOCOLS = ("classic", "consumer")  # of groups; the second is KIP-848's
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = 3, 100
MESSAGE_TOO_LARGE, INVALID_TOPIC, INVALID_TIMESTAMP, INVALID_RECORD = 10, 17, 32, 87


def sidecar_with_the_chain(cluster: Cluster, folder: Path, transcript: Path) -> Sidecar:
    config = folder / "sidecar.yaml"
    config.write_text(configuration(transcript))
    return Sidecar.start(cluster.bootstrap, folder / "sidecar.log", ["--config", str(config)])


@pytest.fixture(scope="module")
def stage(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("conformance")
    with (
        plain_cluster() as cluster,
        sidecar_with_the_chain(cluster, folder, folder / f"{THROUGH}.jsonl") as sidecar,
    ):
        yield Stage(cluster, sidecar, java[NEWEST], folder)
        assert cluster.leaks() == []


@pytest.fixture(scope="module")
def chain(stage: Stage) -> Transcripts:
    """Five records: one left alone, one whose value is changed, one on which the second interceptor fails, one that
    loses a header, and a tombstone."""
    stage.topics("chain", "t")
    return stage.run("chain")


def test_each_gets_every_record_in_order_and_what_the_one_before_it_gave(chain: Transcripts) -> None:
    java, ours = chain.each("on_send")
    assert [event["who"] for event in ours] == [*CHAIN] * 5
    assert [event["value"] for event in ours[3:6]] == ["change", "changed", "changed"]
    assert ours == without_half(java)


def test_after_a_failure_the_next_gets_the_last_good_record(chain: Transcripts) -> None:
    java, ours = ([event for event in events if event["key"] == "k2"] for events in chain.each("on_send"))
    before, failed, after = ours
    assert after["headers"] == failed["headers"] == [["first", "1"]]
    assert java[2]["headers"] == [["first", "1"], HALF]  # Java does not undo what was changed in place
    assert (before["value"], failed["value"], after["value"]) == ("fail", "fail", "fail")


def test_what_is_written_is_what_the_chain_has_left(stage: Stage, chain: Transcripts) -> None:
    java, ours = (stored(stage.cluster.direct, f"{way}.chain.t") for way in (DIRECT, THROUGH))
    assert ours[0]["headers"] == [
        ["h", b"1"], ["h", None], ["", b""], ["\u00e9\u4e2d", b"\xff"], ["first", b"1"], ["third", None]
    ]  # fmt: skip
    assert [record["value"] for record in ours] == [b"plain", b"changed", b"fail", b"remove", None]
    half = [HALF[0], HALF[1].encode()]
    assert ours == [{**one, "headers": [header for header in one["headers"] if header != half]} for one in java]


def test_each_is_notified_of_every_record_in_order_with_its_headers_read_only(chain: Transcripts) -> None:
    java, ours = chain.each("on_acknowledgement")
    assert [event["who"] for event in ours] == [*CHAIN] * 5
    assert all(event["read_only"] for event in ours)
    assert [event["offset"] for event in ours[::3]] == [0, 1, 2, 3, 4]
    assert ours == without_half(java)


def test_interceptors_are_notified_before_the_application(chain: Transcripts) -> None:
    for events in (chain.java, chain.ours):
        for offset in range(5):
            whose = [event["who"] for event in events if event.get("offset") == offset]
            assert whose == [*CHAIN, "application"]


def test_the_applications_own_record_is_read_only_after_send_in_both_runs(chain: Transcripts) -> None:
    java, ours = chain.each("headers_after_send")
    assert java == ours
    assert ours[0]["read_only"]


def test_partition_and_time_are_known_where_java_has_not_chosen_them_yet(stage: Stage) -> None:
    stage.topics("chosen", "t", partitions=3)
    transcripts = stage.run("chosen")
    java, ours = (sorted(events, key=lambda event: str(event["key"])) for events in transcripts.each("on_send"))
    assert {(event["partition"], event["timestamp"]) for event in java} == {(None, None)}
    assert {event["partition"] for event in ours} == {0, 1, 2}
    assert {event["timestamp"] for event in ours} == {"now"}
    unknown = {"partition": None, "timestamp": None}
    assert [{**event, **unknown} for event in ours] == java
    java, ours = (by_place(events) for events in transcripts.each("on_acknowledgement"))
    assert ours == java


@pytest.fixture(scope="module")
def acknowledged(stage: Stage) -> Transcripts:
    for acks in ("all", "1", "0"):
        stage.topics("acknowledged", f"created-{acks}")
        stage.topics("acknowledged", f"appended-{acks}", message_timestamp_type="LogAppendTime")
    java = stage.run("acknowledged").java

    def is_all_sent(seen: list[Event]) -> bool:
        return len([event for event in seen if event["hook"] == "on_acknowledgement"]) >= 3 * 4 * 6

    # With acks=0 the application waits for no response.
    return Transcripts(java, eventually(lambda: stage.seen("acknowledged"), is_all_sent, "all records"))


def test_metadata_of_what_was_written_is_complete(acknowledged: Transcripts) -> None:
    java, ours = (by_place(events) for events in acknowledged.each("on_acknowledgement"))
    assert len(ours) == 3 * 4 * 6
    assert ours == java
    of_all = [event for event in ours if event["topic"].endswith("-all")]
    sizes = [(3, 5), (-1, 6), (8, -1), (0, 0)]
    assert [(event["key_size"], event["value_size"]) for event in of_all[::3]] == sizes * 2
    assert [event["offset"] for event in of_all[::3]] == [0, 1, 2, 3] * 2
    assert [event["timestamp"] for event in of_all[::3]] == ["now"] * 4 + [1000] * 4  # LogAppendTime, CreateTime


def test_with_acks_0_there_is_no_offset_and_no_error(acknowledged: Transcripts) -> None:
    _, ours = acknowledged.each("on_acknowledgement")
    of_none = [event for event in ours if event["topic"].endswith("-0")]
    assert {(event["offset"], event["error"], event["timestamp"]) for event in of_none} == {(-1, None, 1000)}
    assert len(of_none) == 3 * 4 * 2


def test_metadata_of_what_a_broker_refuses_tells_where_it_was_to_go(stage: Stage) -> None:
    stage.topics("refused", "small", max_message_bytes="2000")
    stage.topics("refused", "recent", message_timestamp_before_max_ms="3600000")
    transcripts = stage.run("refused")
    java, ours = transcripts.each("on_acknowledgement")
    assert ours == java
    assert [event["error"] for event in ours[::3]] == [MESSAGE_TOO_LARGE, None, INVALID_TIMESTAMP]
    failed = [event for event in ours if event["error"] is not None]
    assert {
        (event["partition"], *map(event.get, ("offset", "timestamp", "key_size", "value_size"))) for event in failed
    } == {(0, -1, -1, -1, -1)}


def test_only_records_that_are_to_blame_have_the_error_of_their_batch(stage: Stage) -> None:
    stage.topics("innocent", "compacted", cleanup_policy="compact")
    java, ours = stage.run("innocent").each("on_acknowledgement")
    assert ours == java
    assert [event["error"] for event in ours[::3]] == [-1, INVALID_RECORD, -1]


def test_interceptors_are_notified_of_each_attempt_and_javas_of_the_last(stage: Stage) -> None:
    stage.topics("retried", "t")
    transcripts = stage.run("retried")
    for hook in ("on_send", "on_acknowledgement"):
        java, ours = transcripts.each(hook)
        assert [event["who"] for event in java] == [*CHAIN] * 2
        assert ours[:3] + ours[-3:] == java
        assert [event["who"] for event in ours] == [*CHAIN] * (len(ours) // 3)
    failed = [event for event in ours if event["error"] is not None]
    assert failed == ours[3:-3] != []
    assert {event["error"] for event in failed} <= {UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID}


def test_what_never_leaves_the_client_is_not_seen(stage: Stage) -> None:
    stage.topics("unsent", "t")
    transcripts = stage.run("unsent")
    java, ours = transcripts.each("on_send")
    assert ([event["key"] for event in java[::3]], ours) == (["k0", "k1", "k2"], [])  # also of a closed producer
    java, ours = transcripts.each("on_acknowledgement")
    failed = [(event["partition"], event["error"]) for event in java[::3]]
    assert (failed, ours) == ([(0, MESSAGE_TOO_LARGE), (0, INVALID_TOPIC), (0, -1)], [])
    seen = [event["who"] for event in transcripts.java if event.get("error") == MESSAGE_TOO_LARGE]
    assert seen == ["application", *CHAIN]  # what send() itself finds out, the callback hears first
    (early,), (same,) = transcripts.each("headers_after_send")
    assert (early["read_only"], same["read_only"]) == (False, False)  # KIP-512: they can be sent again


Value = bytes | None
# Batches of a partition; what an aborted transaction holds is not shown to those who read what is committed.
BATCHES: tuple[tuple[bool, tuple[Value, ...]], ...] = (
    (True, (b"a", b"secret", b"drop 1", None)),
    (True, (b"drop 2", b"drop 3")),
    (False, (b"aborted", b"secret")),
    (True, (b"b",)),
    (True, (b"drop 4",)),
)


def fill(stage: Stage, topic: str) -> None:
    """Each batch in a transaction of its own; the other partition ends with what will be dropped."""
    producer = Producer({"bootstrap.servers": stage.cluster.direct, "logger": SILENT, "transactional.id": topic})
    producer.init_transactions(LIMIT_S)
    for is_committed, values in BATCHES:
        producer.begin_transaction()
        for value in values:
            headers: list[tuple[str, str | bytes | None]] = [("h", b"1"), ("h", None), ("", b"")]
            producer.produce(topic, value, None if value is None else b"k", 0, headers=headers, timestamp=1000)
        producer.flush(LIMIT_S)
        producer.commit_transaction(LIMIT_S) if is_committed else producer.abort_transaction(LIMIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"other partition", b"k", 1, timestamp=2000)
    producer.commit_transaction(LIMIT_S)
    last = Producer({"bootstrap.servers": stage.cluster.direct, "logger": SILENT})
    last.produce(topic, b"drop 5", b"k", 1, timestamp=2000)
    assert last.flush(LIMIT_S) == 0


@pytest.fixture(scope="module", params=PROTOCOLS)
def consumed(request: pytest.FixtureRequest, stage: Stage) -> Transcripts:
    name = f"consumed-{request.param}"
    for topic in stage.topics(name, "t", partitions=2):
        fill(stage, topic)
    return stage.run("consumed", name, f"group.protocol={request.param}")


def test_each_gets_the_records_that_the_application_will_see(consumed: Transcripts) -> None:
    java, ours = consumed.each("on_consume")
    seen, expected = flattened(ours), flattened(java)
    assert [record["value"] for record in seen["first"]] == [
        "a", "secret", "drop 1", None, "drop 2", "drop 3", "b", "drop 4", "other partition", "drop 5"
    ]  # fmt: skip
    assert [record["value"] for record in seen["third"]] == ["a", "masked", None, "b", "other partition"]
    assert seen == {who: without_half(records) for who, records in expected.items()}
    assert any(HALF in record["headers"] for record in expected["third"])


def test_those_of_a_consumer_are_called_in_order(consumed: Transcripts) -> None:
    java, ours = ([event for event in events if event["records"]] for events in consumed.each("on_consume"))
    for events in (java, ours):
        assert [*CHAIN] in rounds(events)
        assert all(whose == [*CHAIN][: len(whose)] for whose in rounds(events))


def test_no_interceptor_is_called_with_no_records(consumed: Transcripts) -> None:
    _, ours = consumed.each("on_consume")
    assert all(event["records"] for event in ours)


def test_the_application_gets_what_the_chain_has_left(consumed: Transcripts) -> None:
    java, ours = (flattened(events)["application"] for events in consumed.each("polled"))
    assert ours == without_half(java)
    assert ours[0]["headers"] == [["h", "1"], ["h", None], ["", ""], ["first", "1"], ["third", None]]


def test_positions_move_on_over_what_is_dropped(consumed: Transcripts) -> None:
    java, ours = consumed.each("positions")
    assert ours == java


@pytest.fixture(scope="module", params=PROTOCOLS)
def commits(request: pytest.FixtureRequest, stage: Stage) -> tuple[Transcripts, str]:
    name = f"commits-{request.param}"
    for topic in stage.topics(name, "t", partitions=2):
        fill(stage, topic)
    return stage.run("commits", name, f"group.protocol={request.param}"), name


def test_each_is_notified_of_committed_offsets(commits: tuple[Transcripts, str]) -> None:
    java, ours = ([event for event in events if event["offsets"]] for events in commits[0].each("on_commit"))
    in_part = [event for event in ours if event["offsets"][0][2:4] == [7, "seven"]]
    assert [event["who"] for event in in_part] == [*CHAIN]
    assert [event for event in ours if event not in in_part] == java
    assert [event["who"] for event in java] == [*CHAIN] * 3
    assert [[one[2:4] for one in event["offsets"]] for event in java[3::3]] == [[[3, "three"]], [[4, "four"]]]


def test_no_interceptor_is_notified_of_a_failed_commit(commits: tuple[Transcripts, str]) -> None:
    java, ours = (
        [one[2] for event in events for one in event["offsets"] or ()] for events in commits[0].each("on_commit")
    )
    assert {5, 6} & {*java, *ours} == set()
    assert 7 in ours  # committed, though the commit failed for the other partition: in Java no interceptor sees it
    assert 7 not in java
    failed, same = commits[0].each("commit_failed")
    assert (len(failed), same) == (2, failed)


def test_interceptors_are_notified_of_a_commit_before_the_application(commits: tuple[Transcripts, str]) -> None:
    for events in (commits[0].java, commits[0].ours):
        seen = [event["who"] for event in events if event.get("offsets") == [["t", 1, 4, "four", -1]]]
        assert seen == [*CHAIN, "application"]


def test_of_a_commit_of_nothing_no_proxy_hears(commits: tuple[Transcripts, str]) -> None:
    java, ours = ([event for event in events if not event["offsets"]] for events in commits[0].each("on_commit"))
    # The classic consumer tells of commitAsync({}) alone, the new one of commitSync({}) as well, and gives null.
    seen: list[list[Event] | None] = [[]] * 3 if commits[1] == "commits-classic" else [None] * 6
    assert ([event["offsets"] for event in java], ours) == (seen, [])


def test_the_group_has_committed_what_the_application_gave(commits: tuple[Transcripts, str]) -> None:
    (java,), (ours,) = commits[0].each("committed")
    assert ours == java
    assert ours["offsets"] == [["t", 0, 3, "three", -1], ["t", 1, 7, "seven", -1]]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_is_notified_of_automatic_commits(stage: Stage, protocol: str) -> None:
    name = f"automatic-{protocol}"
    for topic in stage.topics(name, "t", partitions=2):
        fill(stage, topic)
    transcripts = stage.run("automatic", name, f"group.protocol={protocol}")
    java, ours = ([event for event in events if event["offsets"]] for events in transcripts.each("on_commit"))
    assert [event["who"] for event in ours[:3]] == [*CHAIN]
    assert {str(event["offsets"]) for event in ours} == {str(event["offsets"]) for event in java}


def test_commits_in_a_transaction_are_seen_here_and_never_in_java(stage: Stage) -> None:
    for topic in stage.topics("transaction", "t", partitions=2):
        fill(stage, topic)
    stage.topics("transaction", "out")
    transcripts = stage.run("transaction")
    java, ours = transcripts.each("on_commit")
    assert java == []
    assert [(event["who"], event["offsets"]) for event in ours] == [(who, [["t", 0, 2, "two", -1]]) for who in CHAIN]
    java, ours = transcripts.each("on_acknowledgement")
    assert ours == java
    java, ours = transcripts.each("committed")
    assert ours == java


def test_configure_comes_first_and_close_last_each_once(stage: Stage, tmp_path: Path) -> None:
    stage.topics("lives", "t")
    own, transcript = tmp_path / "java.jsonl", tmp_path / "ours.jsonl"
    with sidecar_with_the_chain(stage.cluster, tmp_path, transcript) as sidecar:
        stage.host.run(CLIENT, "chain", stage.cluster.direct, f"{DIRECT}.lives.", own, "own")
        for _ in range(2):  # one object serves all clients
            stage.host.run(CLIENT, "chain", sidecar.bootstrap, f"{THROUGH}.lives.", transcript, "none")
        assert sidecar.stop() == 0
    java, ours = ([(event["hook"], event["who"]) for event in lives(file)] for file in (own, transcript))
    assert java[:3] == ours[:3] == [("configure", who) for who in CHAIN]
    assert java[-3:] == ours[-3:] == [("close", who) for who in CHAIN]
    assert {hook for hook, _ in java[3:-3]} == {hook for hook, _ in ours[3:-3]} == {"on_send", "on_acknowledgement"}


def lives(transcript: Path) -> list[Event]:
    """What interceptors were called with."""
    return [event for event in read(transcript, "") if event["who"] in CHAIN]
