"""What readers get of records that features change or hide: the same from any offset, by requests of any kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from integration.front import Front, started
from integration.raw import Raw
from integration.scenarios.target import LIMIT_S, SILENT
from integration.walks import Got, Partition, Walk, walks

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.integration

RULES = """
topics:
  - {name: "hidden-*", policy: json, consume: hide}
  - {name: "all-*", policy: json, consume: hide}
  - {name: "marked-*", policy: json, consume: mark}
interceptors:
  - {type: "mask_fields", name: masks, topics: ["masked-*", "all-*"], fields: ["$.card"]}
  - {type: "add_header", name: ours, topics: ["headers-*", "all-*"], headers: {ours: "x"}}
large_messages: {topics: [{name: "large-*"}, {name: "all-*"}]}
"""
TOPICS = {"hidden-w": "small", "marked-w": "small", "masked-w": "small", "headers-w": "small"}
TOPICS |= {"large-w": "large", "all-w": "large"}
SMALL_LIMIT = 10_000  # bytes of a batch, in the topics of large messages
CARD = "4111"
CHECKED = ("hidden-w", "marked-w", "all-w")
MASKED = ("masked-w", "all-w")
ROUNDS, SEEDS = 5, 2
Sent = dict[Partition, list[tuple[bytes, bool]]]  # values, and whether their transaction was aborted
VERSIONS = range(APIS[ApiKey.FETCH].min_version, APIS[ApiKey.FETCH].max_version + 1)


@pytest.fixture(scope="module", name="front")
def _front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with started(tmp_path_factory.mktemp("walks"), RULES) as (cluster, sidecar):
        yield Front(cluster, sidecar)


@pytest.fixture(scope="module", name="sent")
def _sent(front: Front) -> Sent:
    """What is in the logs: batches of every codec, in transactions or not, some of them aborted."""
    random, sent = Random("walks"), Sent()
    for topic, kind in TOPICS.items():
        front.topic(topic, 2, **({"max_message_bytes": str(SMALL_LIMIT)} if kind == "large" else {}))
    for codec in ("none", "gzip", "lz4", "zstd"):
        for past in (False, True):
            at = front.cluster.direct if past else front.sidecar.bootstrap
            settings = {
                "bootstrap.servers": at, "logger": SILENT, "compression.codec": codec, "linger.ms": 5000,
                "message.max.bytes": 1 << 20, "transactional.id": f"walks-{codec}-{past}",
            }  # fmt: skip
            producer = Producer(settings)
            producer.init_transactions(LIMIT_S)
            for topic in TOPICS:
                for _ in range(ROUNDS):
                    partition, is_aborted = (topic, random.choice((0, 1))), random.random() < 0.3
                    values = [_value(random, topic, past) for _ in range(random.choice((1, 2, 3, 8)))]
                    producer.begin_transaction()
                    for value in values:
                        producer.produce(topic, value, b"k", partition[1])
                    assert producer.flush(LIMIT_S) == 0
                    (producer.abort_transaction if is_aborted else producer.commit_transaction)(LIMIT_S)
                    sent.setdefault(partition, []).extend((value, is_aborted) for value in values)
    return sent


def _value(random: Random, topic: str, past: bool) -> bytes:
    """``past``: it is written past the sidecar, where no policy rejects it and no message is split."""
    if past and topic in CHECKED and random.random() < 0.6:
        return b"not JSON %d" % random.getrandbits(40)
    size = random.randint(15_000, 60_000) if TOPICS[topic] == "large" and not past and random.random() < 0.5 else 40
    return json.dumps({"card": CARD, "text": random.randbytes(size // 2).hex()}).encode()


def is_visible(topic: str, value: bytes) -> bool:
    return value.startswith(b"{") or not topic.startswith(("hidden", "all"))


def text_of(value: bytes | None) -> object:
    """By which a value is known, however it is masked and written."""
    return json.loads(value)["text"] if value is not None and value.startswith(b"{") else value


def introduced(bootstrap: str) -> Raw:
    """A client that tells its name: of others, old ones get no control batches of the sidecar's own."""
    raw = Raw(bootstrap)
    raw.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3, ApiVersionsResponse)
    return raw


@pytest.fixture(scope="module", name="ends")
def _ends(front: Front, sent: Sent) -> dict[Partition, int]:
    consumer = Consumer({"bootstrap.servers": front.cluster.direct, "group.id": "walks", "logger": SILENT})
    try:
        return {one: consumer.get_watermark_offsets(TopicPartition(*one), LIMIT_S)[1] for one in sent}
    finally:
        consumer.close()


def test_readers_get_the_same_from_any_offset_by_any_requests(
    front: Front, sent: Sent, ends: dict[Partition, int]
) -> None:
    with introduced(front.sidecar.bootstrap) as raw, Raw(front.sidecar.bootstrap) as unnamed:
        topics = raw.ask(MetadataRequest(topics=None), 12, MetadataResponse).topics
        ids = {topic.name or "": topic.topic_id for topic in topics}
        whole = {}
        for isolation in (0, 1):
            start = dict.fromkeys(ends, 0)
            whole[isolation] = Walk(raw, Random(0), ids, ends, start, max(VERSIONS), isolation).run()
            assert {one: list(map(text_of, values_of(got))) for one, got in whole[isolation].items()} == {
                one: [
                    text_of(value)
                    for value, is_aborted in values
                    if is_visible(one[0], value) and not (isolation and is_aborted)
                ]
                for one, values in sent.items()
            }
        masked = [value for one, got in whole[0].items() if one[0] in MASKED for value in values_of(got)]
        assert not [value for value in masked if b'"%s"' % CARD.encode() in (value or b"")]
        for version in VERSIONS:
            for seed in range(SEEDS):
                for walk in walks(unnamed if seed % 2 else raw, f"{version} {seed}", ids, ends, version):
                    starts, of_all = dict(walk.positions), whole[walk.isolation]
                    got = walk.run()
                    for one, start_at in starts.items():
                        expected = [found for found in of_all[one] if found[0] >= start_at]
                        where = f"version {version}, seed {seed}, isolation {walk.isolation}, {one} from {start_at}"
                        assert got.get(one, []) == expected, where


def values_of(got: list[Got]) -> list[bytes | None]:
    return [value for _, value in got]
