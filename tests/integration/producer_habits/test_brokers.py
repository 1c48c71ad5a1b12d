"""What a broker has in place of habits that are required: what it does with producers that send otherwise."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from harness.tool_host import ToolHost
from integration.front import Front
from integration.producer_habits.asked import LARGE, Sends
from integration.producer_habits.senders import java as java_sender
from integration.producer_habits.senders import librdkafka
from integration.validation.waves import STORED

pytestmark = pytest.mark.integration


def test_min_insync_replicas_holds_for_acks_all_alone(asking: Front) -> None:
    topic = asking.topic("few-replicas", min_insync_replicas="2")
    assert librdkafka(asking.cluster.direct, topic, Sends(acks="1")) == STORED
    required = asking.topic("acks-all-beside-a-broker")
    assert librdkafka(asking.sidecar.bootstrap, required, Sends(acks="1")).error == "POLICY_VIOLATION"


def test_a_topics_compression_type_rejects_no_other_codec(asking: Front) -> None:
    topic = asking.topic("zstd-topic", compression_type="zstd")
    for codec in ("none", "gzip", "zstd"):
        assert librdkafka(asking.cluster.direct, topic, Sends(codec=codec, value_bytes=LARGE)) == STORED
    required = asking.topic("compression-beside-a-broker")
    found = librdkafka(asking.sidecar.bootstrap, required, Sends(codec="gzip", value_bytes=LARGE))
    assert found.error == "POLICY_VIOLATION"


def test_a_batch_over_max_message_bytes_is_split_by_javas_producer_and_one_over_max_batch_bytes_is_not(
    asking: Front, java: Mapping[str, ToolHost]
) -> None:
    send, large = java_sender(java), Sends(value_bytes=LARGE)
    topic = asking.topic("small-topic", max_message_bytes="2048")
    assert send(asking.cluster.direct, topic, large) == STORED
    assert len(asking.stored(topic)) == 3
    required = asking.topic("bytes-beside-a-broker")
    assert send(asking.sidecar.bootstrap, required, large).error == "PolicyViolationException"
