"""The attacks of `make hostile`, each for a moment: nothing grows without bound, and others are served meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from harness.certificates import authority
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from hostile.attacks import ATTACKS, Attack, Security
from hostile.logins import MECHANISM, PASSWORD, USER
from hostile.run import ALL, configuration, create_topics, place_of
from hostile.watch import Watch
from integration.lent import plain_cluster
from integration.scenarios.target import eventually

pytestmark = pytest.mark.integration

ATTACKED_S = 1.5
HONEST_RECORDS = 20
PATIENCE_S = 60.0
RETURNED_S = 10.0
# connections.max_buffered and one frame more; or two threads, each with a batch of validation.max_batch, a changed one
# and the pages of the one before. And the process itself.
MAX_PEAK_MB = 700.0
MAX_LOG_KB = 1000.0
MAX_MORE_FILES = 4  # than before the attack: the sidecar's own connections to brokers
# Of the attacks on the codec, and of those on a feature, some run with every change, more with `make test-all`, and all
# in the full matrix.
QUICK_ROWS = ("44:", "57:", "67:", "76:", "84:", "90:", "95:", "110:")
SHORT_ROWS = (
    *QUICK_ROWS, "31:", "35:", "37:", "39:", "49:", "52:", "58:", "61:", "65:", "66:", "70:", "77:", "80:", "112:",
)  # fmt: skip
QUICK = (*ATTACKS[::8], *(one for one in ALL if one.name.startswith(QUICK_ROWS)))
SHORT = (*ATTACKS, *(one for one in ALL if one.name.startswith(SHORT_ROWS)))
ROWS = (
    *(pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in SHORT),
    *(pytest.param(one, marks=pytest.mark.matrix) for one in ALL if one not in SHORT),
)
CLIENTS: Mapping[Security, Mapping[str, str]] = {
    "PLAINTEXT": {},
    "SSL": {"security.protocol": "SSL"},
    "SASL_PLAINTEXT": {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": MECHANISM,
        "sasl.username": USER, "sasl.password": PASSWORD,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with plain_cluster() as cluster:
        create_topics(cluster)
        yield cluster


@pytest.mark.parametrize("attack", ROWS, ids=lambda attack: attack.name.split(":")[0] + attack.name[-30:])
def test_an_attack_is_bounded_and_honest_clients_are_served(attack: Attack, cluster: Cluster, tmp_path: Path) -> None:
    config, log = tmp_path / "sidecar.yaml", tmp_path / "sidecar.log"
    config.write_text(configuration(attack, tmp_path))
    run = attack.prepare()
    with Sidecar.start(cluster.bootstrap, log, ["--config", str(config)]) as sidecar:
        client: dict[str, Any] = {"bootstrap.servers": sidecar.bootstrap, **CLIENTS[attack.security]}
        if attack.security == "SSL":
            client["ssl.ca.location"] = str(authority().write(tmp_path))
        at = end_of(client)
        with (
            Watch(sidecar.program.pid, place_of(sidecar, ATTACKED_S, cluster.direct).admin) as watch,
            ThreadPoolExecutor(1) as pool,
        ):
            files, resident_mb = watch.open_files(), watch.resident_mb()
            attacking = pool.submit(run, place_of(sidecar, ATTACKED_S, cluster.direct))
            produce(client)
            attacking.result(PATIENCE_S)
        produce(client)
        assert read(client, at) == 2 * HONEST_RECORDS
        eventually(watch.open_files, lambda now: now <= files + MAX_MORE_FILES, "files closed", PATIENCE_S)
        assert watch.peak_mb() < MAX_PEAK_MB
        kept_mb = resident_mb + attack.kept_mb
        eventually(watch.resident_mb, lambda now: now <= kept_mb, "memory returned", RETURNED_S)
        assert log.stat().st_size / 1e3 < MAX_LOG_KB
        assert sidecar.stop() == 0


def produce(client: dict[str, Any]) -> None:
    failures: list[KafkaError] = []
    producer = Producer(client)
    for number in range(HONEST_RECORDS):
        producer.produce(
            "honest", b"%d" % number, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []


def reader(client: dict[str, Any]) -> Consumer:
    return Consumer({**client, "group.id": "honest", "enable.auto.commit": False})


def end_of(client: dict[str, Any]) -> int:
    consumer = reader(client)
    try:
        return int(consumer.get_watermark_offsets(TopicPartition("honest", 0), PATIENCE_S)[1])
    finally:
        consumer.close()


def read(client: dict[str, Any], at: int) -> int:
    """How many records follow there."""
    consumer = reader(client)
    try:
        consumer.assign([TopicPartition("honest", 0, at)])
        found = consumer.consume(2 * HONEST_RECORDS, PATIENCE_S)
        assert [message.error() for message in found] == [None] * len(found)
        return len(found)
    finally:
        consumer.close()
