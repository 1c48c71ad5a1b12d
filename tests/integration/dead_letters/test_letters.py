"""Rejected records are in the dead letter topic as their producer has sent them, whatever sent them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from harness import admin_pages
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.dead_letters.lettered import Lettered, read_letter
from integration.front import logged
from integration.scenarios.target import eventually

from kafka_sidecar.dead_letters.letter import REPLAYED, REST_OF_BATCH

pytestmark = pytest.mark.integration

Headers = Sequence[tuple[str, str | bytes | None]]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GOOD, BAD = b'{"id": 1}', b'{"id": '


def send(
    lettered: Lettered, topic: str, values: Sequence[bytes | None], headers: Headers = (),
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> list[KafkaError | None]:  # fmt: skip
    """What the client gets for each record, all of which are in one batch."""
    producer = Producer({
        "bootstrap.servers": lettered.sidecar.bootstrap, "linger.ms": 200, "client.id": "shop", **settings,
    })  # fmt: skip
    if "transactional.id" in settings:
        producer.init_transactions(20)
        producer.begin_transaction()
    results: list[KafkaError | None] = []
    for index, value in enumerate(values):
        producer.produce(
            topic, value, b"key-%d" % index, timestamp=1_700_000_000_000 + index, headers=list(headers),
            partition=0, on_delivery=lambda error, _: results.append(error),
        )  # fmt: skip
    assert producer.flush(20) == 0
    if "transactional.id" in settings:
        producer.abort_transaction(20)
    return results


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["plain", "idempotent", "transactional"])
def test_a_rejected_batch_is_in_the_dead_letter_topic_as_it_was_sent(lettered: Lettered, codec: str, kind: str) -> None:
    topic = lettered.topic(f"orders-{codec}-{kind}")
    settings: dict[str, Any] = {"compression.type": codec}
    if kind == "idempotent":
        settings["enable.idempotence"] = True
    elif kind == "transactional":
        settings["transactional.id"] = topic
    own: Headers = [("trace", b"\x00\xff"), ("empty", b""), ("null", None), ("trace", b"twice")]
    values = [GOOD, BAD, b"[" * 50, GOOD]
    results = send(lettered, topic, values, own, settings)
    assert all(error is not None for error in results)
    found = lettered.letters(f"{topic}.dlq", 4)
    assert [one.value for one in found] == values
    assert [one.key for one in found] == [b"key-%d" % index for index in range(4)]
    assert [one.timestamp for one in found] == [1_700_000_000_000 + index for index in range(4)]
    assert all([(header.key, header.value) for header in one.headers] == list(own) for one in found)
    reasons = [one.reasons for one in found]
    assert [one.reason for one in reasons] == [REST_OF_BATCH, "not_json", "not_json", REST_OF_BATCH]
    assert {(one.topic, one.partition, one.policy, one.mode, one.client_id) for one in reasons} == {
        (topic, 0, "json", "enforce", "shop")
    }
    assert [one.index for one in reasons] == [0, 1, 2, 3]
    assert len({one.rejection_id for one in reasons}) == 1
    sequences = [one.sequence for one in reasons]
    assert sequences == ([None] * 4 if kind == "plain" else [0, 1, 2, 3])
    explained = json.loads(admin_pages.get(f"{lettered.sidecar.admin}/rejections/{reasons[0].rejection_id}").text)
    assert explained["dead_letter_topic"] == f"{topic}.dlq"
    assert lettered.stored(topic) == []


def test_only_faulty_records_are_kept_where_that_is_asked_for(lettered: Lettered) -> None:
    topic = lettered.topic("faulty-1")
    send(lettered, topic, [GOOD, BAD, GOOD])
    [letter] = lettered.letters(f"{topic}.dlq", 1)
    assert (letter.value, letter.reasons.index, letter.reasons.reason) == (BAD, 1, "not_json")


def test_in_shadow_the_record_is_stored_and_the_faulty_one_copied(lettered: Lettered) -> None:
    topic = lettered.topic("shadow-1")
    assert send(lettered, topic, [GOOD, BAD, GOOD]) == [None] * 3
    [letter] = lettered.letters(f"{topic}.dlq", 1)
    assert (letter.value, letter.reasons.mode) == (BAD, "shadow")
    assert lettered.stored(topic) == [GOOD, BAD, GOOD]


def test_a_replayed_record_becomes_no_letter_again(lettered: Lettered) -> None:
    topic = lettered.topic("replayed")
    [before] = lettered.metrics('dead_letters_dropped_total{reason="replayed"}')
    send(lettered, topic, [BAD], [(REPLAYED, b"abc-1")])
    send(lettered, topic, [BAD])
    assert len(lettered.letters(f"{topic}.dlq", 1)) == 1
    assert lettered.metric('dead_letters_dropped_total{reason="replayed"}') == before + 1


def test_letters_of_a_dead_letter_topic_are_none(lettered: Lettered) -> None:
    topic = lettered.topic("loops.dlq")
    assert send(lettered, topic, [BAD]) == [None]


@pytest.mark.parametrize("codec", CODECS)
def test_kafkas_console_consumer_reads_a_letter(lettered: Lettered, codec: str, java: Mapping[str, ToolHost]) -> None:
    topic = lettered.topic(f"console-{codec}")
    send(lettered, topic, [BAD], [("own", b"header")], {"compression.type": codec})
    lettered.letters(f"{topic}.dlq", 1)
    shown = java[NEWEST].run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", lettered.cluster.direct,
        "--topic", f"{topic}.dlq", "--from-beginning", "--max-messages", 1, "--timeout-ms", 20000,
        "--formatter-property", "print.headers=true", "--formatter-property", "print.key=true",
        "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    time, headers, key, value = shown.rstrip("\n").split("\t")
    assert (time, key, value) == ("CreateTime:1700000000000", "key-0", BAD.decode())
    assert headers.startswith(f"own:header,__dlq.errors.topic:{topic},__dlq.errors.partition:0,")


def test_a_letter_that_the_topic_does_not_allow_is_sent_in_slices_or_counted(
    lettered: Lettered, java: Mapping[str, ToolHost]
) -> None:
    value = b'"' + os.urandom(3 << 20).hex().encode()
    settings: dict[str, Any] = {"message.max.bytes": 20 << 20, "compression.type": "none"}
    large, other = lettered.topic("large-1"), lettered.topic("small-1")
    before = lettered.metric('dead_letters_sent_total{topic="large-1.dlq"}')
    dropped = lettered.metric('dead_letters_dropped_total{reason="too_large"}')
    send(lettered, large, [value], [("own", b"header")], settings)
    send(lettered, other, [value], settings=settings)
    eventually(lambda: lettered.metric('dead_letters_sent_total{topic="large-1.dlq"}'), lambda n: n == before + 1, "")
    found = (one for partition in range(3) for one in logged(lettered.sidecar.bootstrap, f"{large}.dlq", partition))
    [letter] = map(read_letter, found)
    assert (letter.value, letter.key, letter.timestamp) == (value, b"key-0", 1_700_000_000_000)
    assert [(one.key, one.value) for one in letter.headers] == [("own", b"header")]
    shown = java[NEWEST].run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", lettered.sidecar.bootstrap,
        "--topic", f"{large}.dlq", "--from-beginning", "--max-messages", 1, "--timeout-ms", 20000,
    )  # fmt: skip
    assert shown.rstrip("\n").encode() == value
    eventually(
        lambda: lettered.metric('dead_letters_dropped_total{reason="too_large"}'), lambda n: n == dropped + 1, "a drop"
    )
