"""`dead-letters replay` at a broker: what is accepted arrives once, as it was sent."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from harness.processes import spawn
from harness.sidecar import COMMAND
from integration.front import Front
from integration.replays.written import Sent, dead_letters, rejected, write_letters
from integration.scenarios.target import SILENT

from kafka_sidecar.dead_letters.letter import REPLAYED

pytestmark = pytest.mark.integration
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Of Kafka's own dead letters (KIP-1191).
SHARE_GROUP_LETTER: list[tuple[str, str | bytes | None]] = [
    ("__dlq.errors.topic", b"orders"), ("__dlq.errors.partition", b"0"), ("__dlq.errors.offset", b"3"),
    ("__dlq.errors.group", b"g"), ("__dlq.errors.delivery.count", b"1"), ("__dlq.errors.message", b"rejected"),
]  # fmt: skip


def arrived(front: Front, topic: str, partition: int = 0) -> list[tuple[object, ...]]:
    return [
        (one.key(), one.value(), tuple(one.headers() or ()), one.timestamp()[1])
        for one in front.log(topic, partition, "read_committed")
    ]


def test_what_is_accepted_arrives_once_and_what_is_not_can_be_replayed_later(front: Front) -> None:
    front.topic("json-a", 2)
    front.topic("letters-a")
    good = [
        Sent(b"k%d" % n if n % 2 else None, b'{"n": %d}' % n, (("h", b"1"), ("h", None)), 1_700_000_000_000 + n,
             rejected("json-a", partition=n % 2, rejection_id=f"r-{n}"))
        for n in range(40)
    ]  # fmt: skip
    bad = Sent(b"bad", b"{", (), 1_700_000_000_999, rejected("json-a", partition=1, rejection_id="r-bad"))
    write_letters(front.cluster.direct, "letters-a", [*good[:20], bad, *good[20:]])

    at = ("letters-a", "--bootstrap-servers", front.sidecar.bootstrap)
    listed = dead_letters("list", *at)
    assert listed.returncode == 0, listed.stderr
    assert "41" in listed.stdout
    first = dead_letters("replay", *at, "--json")
    assert first.returncode == 1, first.stdout + first.stderr
    report = json.loads(first.stdout)
    assert (report["accepted"], report["rejected"]) == (40, 1)
    for partition in (0, 1):
        assert arrived(front, "json-a", partition) == [
            (one.key, one.value, (*one.headers, (REPLAYED, one.reasons.rejection_id.encode())), one.timestamp)
            for one in good
            if one.reasons.partition == partition
        ]
    again = dead_letters("replay", *at, "--json")
    assert (again.returncode, json.loads(again.stdout)["accepted"], json.loads(again.stdout)["rejected"]) == (1, 0, 1)
    assert len(arrived(front, "json-a", 0)) + len(arrived(front, "json-a", 1)) == 40


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGINT, id="interrupted", marks=pytest.mark.slow)],
)
def test_a_replay_that_is_stopped_in_the_middle_goes_on_and_all_arrive_once(front: Front, number: int) -> None:
    name = f"json-stopped-{int(number)}"
    front.topic(name, 2)
    front.topic(f"letters-{name}", 2)
    for partition in (0, 1):
        write_letters(front.cluster.direct, f"letters-{name}", [
            Sent(b"%d" % n, b'"%d.%d"' % (partition, n), (), 1_700_000_000_000 + n,
                 rejected(name, partition=n % 2, rejection_id=f"{partition}.{n}"))
            for n in range(12_000)
        ], partition, "lz4")  # fmt: skip
    at = (f"letters-{name}", "--bootstrap-servers", front.sidecar.bootstrap)
    stops = 0
    for wanted in (2_000, 9_000, 16_000):
        running = spawn([COMMAND, "dead-letters", "replay", *at], subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE)
        while running.poll() is None and stored(front, name) < wanted:
            time.sleep(0.01)
        if running.poll() is None:
            stops += 1
            running.send_signal(number)
        out, err = running.communicate(timeout=60)
        assert running.returncode == (-number if number == signal.SIGKILL else 130), (out, err)
    assert stops == 3
    last = dead_letters("replay", *at, "--json")
    assert last.returncode == 0, last.stdout + last.stderr
    found = Counter(one[1] for partition in (0, 1) for one in arrived(front, name, partition))
    assert found == Counter(b'"%d.%d"' % (partition, n) for partition in (0, 1) for n in range(12_000))


def stored(front: Front, topic: str) -> int:
    """Offsets of its two partitions."""
    consumer = Consumer({"bootstrap.servers": front.cluster.direct, "group.id": "ends", "logger": SILENT})
    try:
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, one), timeout=10)[1] for one in (0, 1))
    finally:
        consumer.close()


def test_five_codecs_and_any_bytes_arrive_as_they_were_sent(front: Front) -> None:
    front.topic("open-codecs", 5)
    front.topic("letters-codecs", 5)
    sent = [Sent(None, None, (("a", None), ("é", b"\xff")), 1), Sent(b"", b""), Sent(b"\x00\xff", bytes(300_000))]
    for partition, codec in enumerate(CODECS):
        write_letters(front.cluster.direct, "letters-codecs", [
            replace(one, reasons=rejected("open-codecs", partition=partition)) for one in sent
        ], partition, codec)  # fmt: skip
    for number, codec in enumerate(CODECS):
        group = ("--group", codec, "--compression", codec)
        done = dead_letters("replay", "letters-codecs", "--bootstrap-servers", front.sidecar.bootstrap, *group)
        assert done.returncode == 0, done.stdout + done.stderr
        expected = [(one.key, one.value, (*one.headers, (REPLAYED, b"r-1")), one.timestamp) for one in sent]
        for partition in range(len(CODECS)):
            assert arrived(front, "open-codecs", partition) == expected * (number + 1)


def test_one_large_batch_of_which_every_second_record_is_rejected_is_taken_apart(front: Front) -> None:
    front.topic("json-mixed")
    front.topic("letters-mixed")
    letters = [Sent(b"%d" % n, b"{" if n % 2 else b"{}", (), reasons=rejected("json-mixed")) for n in range(1500)]
    write_letters(front.cluster.direct, "letters-mixed", letters)
    done = dead_letters("replay", "letters-mixed", "--bootstrap-servers", front.sidecar.bootstrap, "--json")
    assert (done.returncode, json.loads(done.stdout)["accepted"], json.loads(done.stdout)["rejected"]) == (1, 750, 750)
    assert [one[0] for one in arrived(front, "json-mixed")] == [b"%d" % n for n in range(0, 1500, 2)]


def test_records_that_are_no_letters_are_counted_and_stored_ones_are_passed_over_unless_asked(front: Front) -> None:
    front.topic("open-shadow")
    front.topic("letters-shadow")
    write_letters(front.cluster.direct, "letters-shadow", [
        Sent(b"1", b"1", reasons=rejected("open-shadow", mode="shadow")),
        Sent(b"2", b"2", reasons=rejected("open-shadow")),
    ])  # fmt: skip
    producer = Producer({"bootstrap.servers": front.cluster.direct, "logger": SILENT})
    producer.produce("letters-shadow", b"mine")
    producer.produce("letters-shadow", b"shared", headers=SHARE_GROUP_LETTER)
    producer.flush(30)
    at = ("letters-shadow", "--bootstrap-servers", front.sidecar.bootstrap)
    listed = json.loads(dead_letters("list", *at, "--json").stdout)
    assert (listed["letters"], sum(one["letters"] for one in listed["no_letters"])) == (2, 2)
    assert json.loads(dead_letters("replay", *at, "--dry-run", "--json").stdout)["would_be_sent"] == 1
    first = json.loads(dead_letters("replay", *at, "--json").stdout)
    assert (first["accepted"], first["no_letters"], first["passed_over"]) == (1, 2, 1)
    asked = json.loads(dead_letters("replay", *at, "--json", "--with-shadow").stdout)
    assert asked["accepted"] == 1
    assert [one[1] for one in arrived(front, "open-shadow")] == [b"2", b"1"]


def test_a_record_without_its_partition_is_not_sent(front: Front) -> None:
    front.topic("open-small")
    front.topic("letters-gone")
    write_letters(front.cluster.direct, "letters-gone", [
        Sent(b"1", b"1", reasons=rejected("never-there")),
        Sent(b"2", b"2", reasons=rejected("open-small", partition=7)),
        Sent(b"3", b"3", reasons=rejected("open-small")),
    ])  # fmt: skip
    done = dead_letters("replay", "letters-gone", "--bootstrap-servers", front.sidecar.bootstrap)
    assert done.returncode == 1
    assert done.stdout.count("UNKNOWN_TOPIC_OR_PARTITION") == 2
    assert "1 accepted, 2 rejected" in done.stdout
    assert "never-there" not in AdminClient({"bootstrap.servers": front.cluster.direct}).list_topics(timeout=10).topics
