"""Large values sent by plain clients through a sidecar; what is in the log is read from the broker directly."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from harness.tool_host import ToolHost
from integration.front import started
from integration.large_messages.senders import LIBRARIES, How, Sender, Sent, senders
from integration.large_messages.stored import LargeFront, Stored
from integration.scenarios.target import LIMIT_S, admin_client, eventually
from integration.validation.wire import Wire

from kafka_sidecar.codec.records import NewRecord, build_batch

pytestmark = pytest.mark.integration

RULES = """
connections: {max_frame: 66MiB}
large_messages:
  topics:
    - {name: "capped-*", max_message: 20000}
    - {name: "large-*"}
"""
LIMIT = 20_000
SMALL, LARGE = b"small", os.urandom(90_000)
SLICES = -(-(len(LARGE) - 1) // (LIMIT - 108))  # of LARGE
MIXED = [b"1", LARGE, b"3", LARGE[::-1], b"5"]
IN_CI = "librdkafka"
FIRST_LIBRARY = [IN_CI, *(pytest.param(one, marks=pytest.mark.matrix) for one in LIBRARIES if one != IN_CI)]
# What the reason of a rejection names. aiokafka does not say what it is.
NAMED = {
    "java": "max.request.size", "librdkafka": "message.max.bytes", "aiokafka": "its maximum size of requests",
    "kafka-python": "max_request_size",
}  # fmt: skip
TOO_LARGE = ("RecordTooLargeException", "MSG_SIZE_TOO_LARGE", "MessageSizeTooLargeError")


@pytest.fixture(scope="module")
def front(java: Mapping[str, ToolHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LargeFront]:
    with started(tmp_path_factory.mktemp("produce"), RULES) as (cluster, sidecar):
        yield LargeFront(cluster, sidecar, java)


@pytest.fixture(scope="module")
def producers(java: Mapping[str, ToolHost]) -> Mapping[str, Sender]:
    return senders(java)


def small_topic(front: LargeFront, name: str) -> str:
    return front.topic(name, max_message_bytes=str(LIMIT))


@pytest.mark.parametrize("library", LIBRARIES)
def test_offsets_are_those_of_the_log_for_small_and_large_values_in_one_batch(
    front: LargeFront, producers: Mapping[str, Sender], library: str
) -> None:
    topic = small_topic(front, f"large-mixed-{library}")
    sent = producers[library](front.sidecar.bootstrap, topic, [[SMALL], MIXED, [SMALL]])
    found = front.assembled(topic)
    assert found.values == [SMALL, *MIXED, SMALL]
    assert [Sent(record.offset) for record in found.records] == sent
    assert found.orphans == 0
    assert {len(record.slices) for record in found.records} == {0, SLICES}


@pytest.mark.parametrize("library", FIRST_LIBRARY)
@pytest.mark.parametrize("acks", ["0", "1"])
def test_without_idempotence_values_are_stored_whole_with_any_acks(
    front: LargeFront, producers: Mapping[str, Sender], library: str, acks: str
) -> None:
    topic = small_topic(front, f"large-acks-{acks}-{library}")
    producers[library](front.sidecar.bootstrap, topic, [MIXED], How(acks=acks, is_idempotent=False))

    def stored() -> Stored:
        return front.assembled(topic)

    assert eventually(stored, lambda found: len(found.records) >= 5, "all records").values == MIXED


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_slices_have_the_codec_of_the_client_and_are_as_few_as_it_allows(
    front: LargeFront, producers: Mapping[str, Sender], codec: str
) -> None:
    topic = small_topic(front, f"large-codec-{codec}")
    lines = b"".join(b'{"id": %d, "text": "%s"}\n' % (at, os.urandom(9).hex().encode()) for at in range(10_000))
    sent = producers["java"](front.sidecar.bootstrap, topic, [[b"1", lines, b"3"]], How(codec))
    found = front.assembled(topic)
    assert found.values == [b"1", lines, b"3"]
    assert [one.offset for one in sent] == [record.offset for record in found.records]
    batches = front.batches(topic)
    assert {one["codec"] for one in batches} == {codec}
    sizes = [int(one["size"]) for one in batches]
    assert max(sizes) <= LIMIT
    assert len(sizes) <= sum(sizes) / LIMIT * 1.15 + 3  # and the two batches with few bytes


def test_a_value_that_compresses_below_the_limit_is_not_touched(
    front: LargeFront, producers: Mapping[str, Sender]
) -> None:
    topic = small_topic(front, "large-compressible")
    producers["java"](front.sidecar.bootstrap, topic, [[bytes(1_000_000)]], How("zstd"))
    (message,) = front.log(topic)
    assert (message.headers(), message.value()) == (None, bytes(1_000_000))


def test_the_carrier_batch_has_the_sequence_numbers_of_the_client_and_slices_have_none(
    front: LargeFront, producers: Mapping[str, Sender]
) -> None:
    topic = small_topic(front, "large-dump")
    producers["java"](front.sidecar.bootstrap, topic, [[LARGE], MIXED])
    batches = front.batches(topic)
    assert {one["valid"] for one in batches} == {"true"}
    slices = [(one["count"], one["sequence"], one["epoch"]) for one in batches if one["pid"] == "-1"]
    assert slices == [("1", "-1", "-1")] * (3 * SLICES)
    carriers = [(one["count"], one["sequence"], one["epoch"]) for one in batches if one["pid"] != "-1"]
    assert carriers == [("1", "0", "0"), ("5", "1", "0")]


def test_a_batch_without_a_producer_id_keeps_its_epoch_and_sequence(front: LargeFront) -> None:
    topic = small_topic(front, "large-no-pid")
    given = [(-1, -1), (0, 0), (0, -1)]
    with Wire(front.sidecar.bootstrap) as wire:
        for epoch, sequence in given:
            data = build_batch([NewRecord(LARGE)], producer_epoch=epoch, base_sequence=sequence)
            assert wire.produce(12, {topic: {0: data}})[topic, 0].code == 0
    batches = front.batches(topic)
    assert len(batches) == 3 * (SLICES + 1)
    carriers = batches[SLICES :: SLICES + 1]
    assert [(int(one["epoch"]), int(one["sequence"])) for one in carriers] == given


def test_a_retry_through_a_second_connection_is_stored_once(front: LargeFront) -> None:
    """The same idempotent batch, sent on several connections at once and again after others."""
    topic = small_topic(front, "large-retry")

    def send(sequence: int) -> tuple[int, int]:
        data = build_batch([NewRecord(LARGE)], producer_id=77_000, producer_epoch=0, base_sequence=sequence)
        with Wire(front.sidecar.bootstrap) as wire:
            answer = wire.produce(12, {topic: {0: data}})[topic, 0]
            return answer.code, answer.base_offset

    with ThreadPoolExecutor(3) as pool:
        (first,) = set(pool.map(send, [0, 0, 0]))
    assert first[0] == 0
    offsets = [send(sequence)[1] for sequence in range(1, 6)]
    assert send(1) == (0, offsets[0])
    assert send(0)[0] in (45, 46)  # the broker remembers five batches
    found = front.assembled(topic)
    assert found.values == [LARGE] * 6
    assert found.orphans == 4 * SLICES


def test_a_limit_that_is_lowered_is_learned_from_the_broker(front: LargeFront, producers: Mapping[str, Sender]) -> None:
    topic = small_topic(front, "large-lowered")
    assert producers["librdkafka"](front.sidecar.bootstrap, topic, [[LARGE]])[0].error == ""
    entry = ConfigEntry("max.message.bytes", "12000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = admin_client(front.cluster.direct)
    admin.incremental_alter_configs([resource])[resource].result(LIMIT_S)
    sent = producers["librdkafka"](front.sidecar.bootstrap, topic, [[LARGE[::-1]], [LARGE]])
    assert [one.error for one in sent] == ["", ""]
    assert front.assembled(topic).values == [LARGE, LARGE[::-1], LARGE]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_value_over_the_cap_is_an_error_of_its_client(
    front: LargeFront, producers: Mapping[str, Sender], library: str
) -> None:
    topic = small_topic(front, f"capped-{library}")
    # The other two do not recover the sequence numbers of a batch that is rejected.
    how = How(is_idempotent=library in ("java", "librdkafka"))
    sent = producers[library](front.sidecar.bootstrap, topic, [[SMALL], [LARGE], [SMALL]], how)
    assert [bool(one.error) for one in sent] == [False, True, False]
    assert sent[1].error in TOO_LARGE
    assert front.assembled(topic).values == [SMALL, SMALL]
    details = [line["detail"] for line in front.lines() if line.get("topic") == topic]
    assert details[0].startswith("a value has 90000 bytes, more than the 20000 of large_messages.topics: max_message")
    assert f"lower {NAMED[library]} of the producer" in details[0]


@pytest.mark.parametrize("library", FIRST_LIBRARY)
def test_ten_megabytes_go_through_a_topic_of_kafkas_default_limit(
    front: LargeFront, producers: Mapping[str, Sender], library: str
) -> None:
    topic, value = front.topic(f"large-default-{library}"), os.urandom(10 << 20)
    (sent,) = producers[library](front.sidecar.bootstrap, topic, [[value]])
    (record,) = front.assembled(topic).records
    assert (record.offset, record.value) == (sent.offset, value)
    assert len(record.slices) == 11


@pytest.mark.matrix
@pytest.mark.parametrize("library", LIBRARIES)
def test_sixty_megabytes_go_through_and_more_than_the_cap_is_rejected(
    front: LargeFront, producers: Mapping[str, Sender], library: str
) -> None:
    topic, value = front.topic(f"large-huge-{library}"), os.urandom(60 << 20)
    how = How(is_idempotent=library in ("java", "librdkafka"))
    sent = producers[library](front.sidecar.bootstrap, topic, [[value], [value + bytes(5 << 20)], [SMALL]], how)
    assert [bool(one.error) for one in sent] == [False, True, False]
    assert sent[1].error in TOO_LARGE
    assert front.assembled(topic).values == [value, SMALL]


@pytest.mark.parametrize("size", [67 << 20, pytest.param(110_000_000, marks=pytest.mark.matrix)])
def test_a_frame_over_the_limit_of_the_sidecar_ends_the_connection_and_names_the_setting(
    front: LargeFront, size: int
) -> None:
    topic, data, peak = front.topic(f"large-frame-{size}"), build_batch([NewRecord(bytes(size))]), front.peak()
    cause = 'disconnects_total{cause="frame_too_large"'
    before = front.metric(cause)
    with Wire(front.sidecar.bootstrap) as wire, pytest.raises((EOFError, ConnectionError)):
        wire.produce(12, {topic: {0: data}})
    eventually(lambda: front.metric(cause), lambda count: count == before + 1, "the cause is counted")
    assert front.peak() - peak < 8 << 20  # nothing of it is buffered
    detail, *_ = (line["detail"] for line in front.lines() if line.get("cause") == "frame_too_large")
    assert re.fullmatch(r"a request of \d+ bytes is over connections.max_frame \(69206016\)", detail)
