"""What the audit says of large messages, beside an interceptor that hides some, with and without authorization."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer, ShareConsumer
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.tool_host import ToolHost
from harness.versions import NEWEST
from integration.front import Front, logged
from integration.interception.reads import How, Reader
from integration.large_messages.written_logs import write
from integration.lent import plain_cluster
from integration.scenarios.target import LIMIT_S, SILENT, headers_of
from support.large_logs import Log

pytestmark = pytest.mark.integration

HOUR = 3_600_000
COUNTS = ("count", "large_count", "segment_count", "hidden_count")
COUNT_AT = 21  # of the number of segments, 4 bytes, in the header _lm: docs/reference/large-messages.md
INTERCEPTOR = """from kafka_sidecar.interceptors.contract import ConsumerInterceptor

class Marks(ConsumerInterceptor):
    def on_consume(self, records):
        left = [record for record in records if not record.value.startswith(b"drop")]
        for record in left:
            record.headers.add("seen", b"yes")
        return left
"""
CONFIG = """
audit: {{topic: {audit}, partitions: 1, auditor.reporting.interval.ms: 86400000, auditor.bucket.ms: 3600000}}
interceptors: [{{type: "marks:Marks", class_path: "{folder}"}}]
large_messages:
  object_store: "file://{folder}/objects"
  topics: [{{name: "large-*"}}, {{name: "object-*", store: object, object_above: 100KiB}}]
"""
RULES = """
authorization:
  rules:
    - {permission: deny, topics: ["kept"], operations: [all]}
    - {topics: ["*"], groups: ["*"]}
"""
Sums = Mapping[tuple[str, ...], tuple[int, ...]]


@pytest.fixture(scope="module", name="cluster")
def _cluster() -> Iterator[Cluster]:
    with plain_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["open", "authorized"])
def site(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Front, str]]:
    """A sidecar, and what its topics' names end with."""
    (tmp_path / "marks.py").write_text(INTERCEPTOR)
    config = tmp_path / "sidecar.yaml"
    rules = RULES if request.param == "authorized" else ""
    config.write_text(CONFIG.format(audit=f"audit-{request.param}", folder=tmp_path) + rules)
    with Sidecar.start(cluster.bootstrap, tmp_path / "sidecar.log", ["--config", str(config)]) as sidecar:
        yield Front(cluster, sidecar), request.param


def value(kind: bytes, size: int) -> bytes:
    """No codec makes it small."""
    return kind + b" " + bytes((at * at + size) % 251 for at in range(size))


def send(front: Front, topic: str, batches: Sequence[tuple[int, Sequence[bytes]]]) -> None:
    """Each batch with its event time."""
    errors = list[KafkaError | None]()

    def report(error: KafkaError | None, _: Message) -> None:
        errors.append(error)

    producer = Producer({
        "bootstrap.servers": front.sidecar.bootstrap, "logger": SILENT, "linger.ms": 200, "message.max.bytes": 9_000_000
    })  # fmt: skip
    for at, values in batches:
        for one in values:
            producer.produce(topic, one, b"key", timestamp=at, on_delivery=report)
        assert producer.flush(LIMIT_S) == 0
    assert errors == [None] * sum(len(values) for _, values in batches)


def share(front: Front, host: ToolHost, topics: Sequence[str], count: int) -> None:
    """A share group gets so many records of these topics."""
    group = "members"
    where = ("--bootstrap-server", front.cluster.direct, "--entity-type", "groups", "--entity-name", group)
    host.run(
        "org.apache.kafka.tools.ConfigCommand", *where, "--alter", "--add-config", "share.auto.offset.reset=earliest"
    )
    found = 0
    deadline = time.monotonic() + LIMIT_S
    with ShareConsumer(
        {"bootstrap.servers": front.sidecar.bootstrap, "group.id": group, "logger": SILENT}
    ) as consumer:  # fmt: skip
        consumer.subscribe(list(topics))
        while found < count:
            assert time.monotonic() < deadline, found
            for message in consumer.poll(0.5):
                assert message.error() is None
                found += 1


def segments_in_log(front: Front, topic: str) -> list[int]:
    """Of each large message, by the headers of its carrier; all their segments are there."""
    headers = [dict(headers_of(message)) for message in front.log(topic)]
    each = [
        int.from_bytes((found["_lm"] or b"")[COUNT_AT : COUNT_AT + 4], "big") for found in headers if "_lmr" in found
    ]
    assert sum(each) == sum("_lm" in found for found in headers)
    return each


def audited(front: Front, audit: str, topic: str, since: int) -> Sums:
    """By tier, type, group and bucket: hours after ``since``, or an arrival."""
    sums = dict[tuple[str, ...], Counter[str]]()
    for message in logged(front.cluster.direct, audit):
        event = json.loads(message.value() or b"")
        if event["kind"] == "counts" and event["topic"] == topic and event["tier"] != "commit":
            hours = str((event["bucket_start"] - since) // HOUR) if not event["no_timestamp_count"] else "arrival"
            key = event["tier"], event["type"], event["group"] or "", hours
            sums.setdefault(key, Counter()).update({name: event[name] for name in COUNTS})
    return {key: tuple(counts[name] for name in COUNTS) for key, counts in sums.items()}


def test_large_messages_and_their_segments_are_counted_and_hidden_ones_apart(
    site: tuple[Front, str], readers: Mapping[str, Reader], java: Mapping[str, ToolHost]
) -> None:
    front, name = site
    topic, objects = front.topic(f"large-{name}", max_message_bytes="100000"), front.topic(f"object-{name}")
    since = int(time.time() * 1000) // HOUR * HOUR - 3 * HOUR
    small = [b"keep %d" % number for number in range(10)] + [b"drop %d" % number for number in range(4)]
    large = [value(b"keep", 300_000), value(b"drop", 400_000), value(b"keep", 500_000)]
    send(front, topic, [(since, small), *((since + HOUR, [one]) for one in large)])
    send(front, objects, [(since, small), (since + HOUR, [value(b"keep", 200_000), value(b"keep", 300_000)])])
    li = Log()
    li.add_segments(value(b"keep", 5000), 5, 1, (0, 2, 1, 4, 3))
    segmented = write(front, front.topic(f"large-li-{name}"), li)
    topics = [topic, objects, segmented]
    for library in ("librdkafka", "java"):
        read = readers[library](front.sidecar.bootstrap, topics, library, How())
        assert [len(read.of(one)) for one in topics] == [12, 12, 1]
    share(front, java[NEWEST], topics, 25)
    assert front.sidecar.stop() == 0

    first, dropped, last = segments_in_log(front, topic)
    all_, shown = first + dropped + last, first + last
    sent = ("produce_attempt", "ATTEMPT", ""), ("produce_ack", "SUCCESS", "")
    got = (
        ("fetch_delivered", "SUCCESS", "librdkafka"), ("fetch_delivered", "SUCCESS", "java"),
        ("share_delivered", "SUCCESS", "members"),
    )  # fmt: skip
    audit = f"audit-{name}"
    assert audited(front, audit, topic, since) == {
        **{(*tier, "0"): (14, 0, 0, 0) for tier in sent},
        **{(*tier, "1"): (3, 3, all_, 0) for tier in sent},
        **{(*tier, "0"): (10, 0, 0, 4) for tier in got},
        **{(*tier, "1"): (2, 2, shown, 1) for tier in got},
    }
    assert audited(front, audit, objects, since) == {
        **{(*tier, "0"): (14, 0, 0, 0) for tier in sent},
        **{(*tier, "1"): (2, 2, 0, 0) for tier in sent},
        **{(*tier, "0"): (10, 0, 0, 4) for tier in got},
        **{(*tier, "1"): (2, 2, 0, 0) for tier in got},
    }
    li_counts = {key[:3]: counts for key, counts in audited(front, audit, segmented, since).items()}
    assert li_counts == dict.fromkeys(got, (1, 1, 5, 0))
