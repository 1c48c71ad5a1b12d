"""What operators see of producers that do not send as required: pages, commands, lines, metrics."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest
from harness import admin_pages
from harness.sidecar import COMMAND
from harness.tool_host import ToolHost
from integration.front import Front
from integration.producer_habits.asked import LARGE, TRANSACTIONAL, Sends
from integration.producer_habits.senders import aiokafka, librdkafka, senders
from integration.validation import producers as validated_producers
from integration.validation.waves import STORED, Outcome, Sent, Wave

pytestmark = pytest.mark.integration


def page(asking: Front, path: str) -> Any:
    return json.loads(admin_pages.get(f"{asking.sidecar.admin}{path}").text)


def command(asking: Front, *words: str) -> str:
    words = (str(COMMAND), *words, "--admin", asking.sidecar.admin)
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def test_in_shadow_everything_is_stored_and_each_client_is_listed_with_its_habits(asking: Front) -> None:
    topic = asking.topic("shadow-listed")
    for sends in (
        Sends(acks="1", client_id="plain", value_bytes=LARGE),
        Sends(idempotent=True, client_id="good", codec="zstd", value_bytes=LARGE),
    ):
        assert librdkafka(asking.sidecar.bootstrap, topic, sends) == STORED
    assert aiokafka(asking.sidecar.bootstrap, topic, Sends(client_id="other", value_bytes=LARGE)) == STORED
    listed = page(asking, f"/producers?topic={topic}")["producers"]
    assert [one["client_id"] for one in listed] == ["other", "good", "plain"]
    other, good, plain = listed
    assert (plain["acks"], plain["compression"], plain["idempotent"]) == ({"1": 1}, {"none": 1}, 0)
    assert plain["not_as_required"] == {"acks": 1, "idempotence": 1, "compression": 1}
    assert (good["acks"], good["compression"], good["idempotent"]) == ({"all": 1}, {"zstd": 1}, 1)
    assert (good["not_as_required"], good["records"], good["mean_records"]) == ({}, 3, 3.0)
    assert "-rdkafka-" in plain["software"]
    assert other["software"] is None
    assert plain["mean_batch_bytes"] > 3 * LARGE > good["mean_batch_bytes"]
    lines = [line for line in asking.lines() if line.get("topic") == topic]
    assert {line["message"] for line in lines} == {"producer would be rejected"}
    assert {line["client_id"] for line in lines} == {"plain", "other"}
    assert asking.metric(f'producer_violations_total{{habit="compression",mode="shadow",topic="{topic}"') == 2


def test_the_id_of_a_rejection_is_explained(asking: Front, java: Mapping[str, ToolHost]) -> None:
    topic = asking.topic("several-explained")
    sends = Sends(acks="1", client_id="Orders", value_bytes=LARGE)
    result = senders(java)["java"](asking.sidecar.bootstrap, topic, sends)
    assert result.text.count(f"Topic {topic} requires") == 3
    assert "; and 1 more (kafka-sidecar explain " in result.text
    found = result.text.rpartition(" ")[2].rstrip(")")
    printed = " ".join(command(asking, "explain", found).split())
    assert f"User:ANONYMOUS, produce to {topic} (1 time since " in printed
    for habit in ("acks", "client_id", "compression", "idempotence"):
        assert f"{habit}: Topic {topic} requires" in printed
    assert "set enable.idempotence=true" in printed
    assert "client software apache-kafka-java" in printed
    (listed,) = [one for one in page(asking, "/rejections")["rejections"] if one["id"] == found]
    assert (listed["policy"], listed["reason"]) == ("(producers)", "acks, client_id, compression, idempotence")
    assert librdkafka(asking.sidecar.bootstrap, topic, sends).error == "POLICY_VIOLATION"  # with another id
    assert len([one for one in page(asking, "/rejections")["rejections"] if one["topic"] == topic]) == 2


def test_what_is_required_of_a_topic_is_printed(asking: Front) -> None:
    topic = asking.topic("compression-printed")
    printed = command(asking, "topics", topic)
    assert "  producers: compression zstd or lz4 (from producers (entry 6), mode enforce)" in printed.splitlines()


def test_a_transaction_in_which_a_batch_is_rejected_is_aborted_and_the_next_one_is_committed(
    asking: Front, java: Mapping[str, ToolHost]
) -> None:
    """The first batch has too many records for the topic, the second has not."""
    topic = asking.topic("records-in-transactions")
    send = validated_producers.java(java)
    many: Wave = [Sent(f"many-{number}") for number in range(3)]
    few: Wave = [Sent(f"few-{number}") for number in range(2)]
    outcome: Outcome = send(asking.sidecar.bootstrap, topic, "none", "transactional", [many, few])
    assert {one.error for one in outcome.of(many)} == {"PolicyViolationException"}
    assert outcome.of(few) == [STORED] * 2
    assert [bool(end) for end in outcome.ends] == [True, False]
    assert asking.stored(topic, isolation="read_committed") == [b"few-0", b"few-1"]


def test_an_idempotent_producer_goes_on_after_a_rejection(asking: Front, java: Mapping[str, ToolHost]) -> None:
    topic = asking.topic("records-idempotent")
    many: Wave = [Sent(f"many-{number}") for number in range(3)]
    few: Wave = [Sent("few")]
    for client in ("java", "librdkafka"):
        send = validated_producers.clients(java)[client]
        outcome = send(asking.sidecar.bootstrap, topic, "none", "idempotent", [few, many, few])
        assert {one.error for one in outcome.of(many)} <= {"PolicyViolationException", "POLICY_VIOLATION"}
    assert asking.stored(topic) == [b"few"] * 4


def test_transactional_is_a_share_of_batches(asking: Front) -> None:
    topic = asking.topic("in-transactions-share")
    assert librdkafka(asking.sidecar.bootstrap, topic, TRANSACTIONAL) == STORED
    (one,) = page(asking, f"/producers?topic={topic}")["producers"]
    assert (one["transactional"], one["idempotent"]) == (1, 1)
