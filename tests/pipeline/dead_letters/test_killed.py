"""A sidecar that is killed again and again while it rejects records: what is lost is counted, nothing is there twice,
and the job says which of its numbers are not whole."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest
from confluent_kafka import KafkaError, Message, Producer
from harness import admin_pages, json_lines
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.dead_letters.lettered import read_letter
from integration.front import logged
from integration.scenarios.target import LIMIT_S, SILENT, create_topic, eventually

from pipeline.conftest import SMALL
from pipeline.dead_letters.test_reconciled import reconcile

CONFIG = """
topics:
  - {{name: orders, policy: json, dead_letters: orders.dlq}}
dead_letters: {{spool_folder: {folder}/letters}}
audit:
  topic: counted
  auditor.reporting.interval.ms: 1000
  auditor.reporting.delay.ms: 0
pipeline:
  master: local[2]
  spark: {spark}
"""
EACH = 4  # every fourth record is invalid
# What the sidecar does when it is killed, in turn, as seconds after its start: nothing was reported, some was.
KILLS_S = (0.4, 1.3, 2.2, 3.1)
AT_ONCE = 40


@dataclass
class Shop:
    """An application that goes on whatever happens. Each record has a number of its own."""

    bootstrap: str
    stored: set[int]
    rejected: set[int]  # that the answer says are
    unknown: set[int]  # without an answer
    number: int = 0
    last: Producer | None = None

    def sell(self, seconds: float) -> None:
        producer = Producer({
            "bootstrap.servers": self.bootstrap, "client.id": "shop", "linger.ms": 2, "batch.num.messages": 8,
            "enable.idempotence": False, "message.timeout.ms": 3000, "retries": 0,
        }, logger=SILENT)  # fmt: skip
        self.last = producer
        before, end = len(self.stored), time.monotonic() + seconds
        while time.monotonic() < end or len(self.stored) == before:
            self.send()
            producer.poll(0)
            time.sleep(0.05)  # letters may come at a thousand a second

    def send(self) -> None:
        assert self.last is not None
        for _ in range(AT_ONCE):
            number, self.number = self.number, self.number + 1

            def delivered(error: KafkaError | None, _: Message, number: int = number) -> None:
                found = self.stored if error is None else self.unknown
                (self.rejected if error is not None and error.name() == "INVALID_RECORD" else found).add(number)

            # To a partition of their own: else each batch would be rejected with the record.
            is_bad = number % EACH == 0
            value = b"%d no JSON" % number if is_bad else b"%d" % number
            self.last.produce("orders", value, partition=int(is_bad), on_delivery=delivered)

    def close(self) -> None:
        assert self.last is not None
        assert self.last.flush(LIMIT_S) == 0


@dataclass(frozen=True)
class Seen:
    """What was seen from outside, and what the job says."""

    shop: Shop
    letters: Counter[int]
    stored: set[int]
    counted: int  # letters that the sidecar says were lost by kills
    killed_at: list[float]  # seconds since 1970
    lines: list[str]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("killed")
    file = folder / "sidecar.yaml"
    file.write_text(CONFIG.format(folder=folder, spark=json.dumps(SMALL)))
    with Cluster.start(NEWEST) as cluster:
        create_topic(cluster.direct, "orders", 2)
        create_topic(cluster.direct, "orders.dlq", 1)
        create_topic(cluster.direct, "counted", 1)
        with Sidecar.start(cluster.bootstrap, folder / "log", ["--config", str(file)]) as sidecar:
            shop = Shop(sidecar.bootstrap, set(), set(), set())
            killed_at = []
            for seconds in KILLS_S:
                shop.sell(seconds)
                killed_at.append(kill_with_requests_under_way(cluster, sidecar, shop))
                sidecar.start_again()
                shop.close()
            shop.sell(1.0)
            shop.close()
            eventually(lambda: waiting(sidecar), lambda left: left == 0, "no letter waits")
            assert sidecar.stop() == 0
        lost = [one["letters"] for one in json_lines.read(folder / "log", "dead letters lost")]
        letters = Counter(number_of(read_letter(one).value) for one in logged(cluster.direct, "orders.dlq"))
        stored = {number_of(one.value()) for at in (0, 1) for one in logged(cluster.direct, "orders", at)}
        yield Seen(shop, letters, stored, sum(lost), killed_at, reconcile(file, cluster.direct))


def kill_with_requests_under_way(cluster: Cluster, sidecar: Sidecar, shop: Shop) -> float:
    """The broker does not respond from before a request is forwarded to it until the kill. Returns when that was."""
    broker = cluster.node(1)
    broker.stop()
    try:
        before = forwarded(sidecar)
        shop.send()
        eventually(lambda: forwarded(sidecar), lambda found: found > before, "a request is forwarded")
        at = time.time()
        sidecar.program.kill()
    finally:
        broker.cont()
    return at


def forwarded(sidecar: Sidecar) -> float:
    return metric(sidecar, 'kafka_sidecar_proxy_to_broker_request_total{api_key="Produce"')


def waiting(sidecar: Sidecar) -> float:
    return metric(sidecar, "kafka_sidecar_dead_letters_waiting ")


def metric(sidecar: Sidecar, beginning: str) -> float:
    """The sum over its labels."""
    lines = admin_pages.get(f"{sidecar.admin}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(beginning))


def number_of(value: bytes | None) -> int:
    return int((value or b"").split()[0])


def test_each_rejected_record_is_a_letter_once_or_counted_as_lost(seen: Seen) -> None:
    shop = seen.shop
    assert len(shop.rejected) > 200
    assert len(shop.unknown) > 0  # it was killed with requests under way
    missing = shop.rejected - set(seen.letters)
    assert len(missing) <= seen.counted
    assert [number for number, times in seen.letters.items() if times > 1] == []
    assert set(seen.letters) <= shop.rejected | shop.unknown
    assert shop.stored <= seen.stored
    assert not seen.stored & set(seen.letters)


def test_the_job_names_when_killed_sidecars_have_not_reported_and_raises_no_false_alarm(seen: Seen) -> None:
    (line,) = [line for line in seen.lines if re.match(r"orders: \d+ sent = ", line)]
    found = re.search(r"(\d+) rejected.*; (\d+) dead letters, (\d+)(?: to (\d+))? lost", line)
    assert found is not None
    rejected, letters, least, most = (int(number or 0) for number in found.groups())
    assert letters == len(seen.letters)
    # With the rest of its request a record was on the way to the broker, so that its rejection was never answered.
    may_be_rejected = seen.shop.rejected | {number for number in seen.shop.unknown if number % EACH == 0}
    assert least <= len(may_be_rejected - set(seen.letters))
    assert rejected <= len(may_be_rejected)
    assert least <= (most or least)
    assert "twice" not in line
    holes = [re.match(r"  (\S+) to (\S+), \S+: it ended without its last report", one) for one in seen.lines]
    spans = [(seconds(one[1]), seconds(one[2])) for one in holes if one is not None]
    for at in seen.killed_at[1:]:  # the first process may have reported nothing at all
        assert any(begin <= at <= end for begin, end in spans), (at, spans, seen.lines)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
