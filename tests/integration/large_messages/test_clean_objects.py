"""Objects to which no record refers are deleted, and no others, with transactions, compression and a busy producer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from integration.large_messages.groups import Groups
from integration.scenarios.target import LIMIT_S, SILENT

pytestmark = pytest.mark.integration
OLD_S = 2 * 3600


def producer(groups: Groups, **settings: Any) -> Producer:
    common = {"bootstrap.servers": groups.sidecar.bootstrap, "logger": SILENT, "message.max.bytes": 20_000_000}
    return Producer({**common, **settings})


def send(groups: Groups, topic: str, count: int, **settings: Any) -> None:
    one = producer(groups, **settings)
    for number in range(count):
        one.produce(topic, os.urandom(700_000), b"%d" % number)
    assert one.flush(LIMIT_S) == 0


def objects(groups: Groups, topic: str) -> set[Path]:
    return set(groups.objects.glob(f"{topic}/*"))


def run(groups: Groups, folder: Path, pattern: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, for the topics of a pattern."""
    config = folder / "clean.yaml"
    topics = f"[{{name: '{pattern}', store: object}}]"
    config.write_text(
        f"bootstrap_servers: {groups.cluster.direct}\n"
        f"large_messages: {{object_store: 'file://{groups.objects}', topics: {topics}}}\n"
    )
    command = [sys.executable, "-m", "kafka_sidecar", "clean-objects", "--config", str(config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def clean(groups: Groups, folder: Path, *arguments: str) -> dict[str, Any]:
    """What it prints of each topic."""
    done = run(groups, folder, "object-*", "--json", *arguments)
    assert done.stderr == ""
    return {one["topic"]: one for one in map(json.loads, done.stdout.splitlines())}


def test_what_no_record_refers_to_is_deleted_once_it_is_old(groups: Groups, tmp_path: Path) -> None:
    topic = groups.new_topic("object", partitions=2)
    send(groups, topic, 4, **{"compression.type": "lz4"})
    aborted = producer(groups, **{"transactional.id": f"tx-{topic}"})
    aborted.init_transactions(LIMIT_S)
    for end in (aborted.commit_transaction, aborted.abort_transaction):
        aborted.begin_transaction()
        aborted.produce(topic, os.urandom(700_000), partition=0)
        aborted.flush(LIMIT_S)
        end(LIMIT_S)
    referenced = objects(groups, topic)
    assert len(referenced) == 6
    folder = groups.objects / topic
    orphans = [folder / f"{number:032x}" for number in range(3)]
    foreign = folder / "notes.txt"
    for path in (*orphans, foreign):
        path.write_bytes(b"x" * 10)
    for path in (*referenced, *orphans[:2], foreign):
        os.utime(path, (time.time() - OLD_S,) * 2)

    found = clean(groups, tmp_path, "--older-than", "1h")[topic]
    assert (found["listed"], found["referenced"], found["young"], found["unreferenced"]) == (9, 6, 1, 2)
    assert (found["unreferenced_bytes"], found["deleted"], found["trouble"]) == (20, 0, None)
    assert objects(groups, topic) == {*referenced, *orphans, foreign}

    assert clean(groups, tmp_path, "--older-than", "1h", "--delete")[topic]["deleted"] == 2
    assert objects(groups, topic) == {*referenced, orphans[2], foreign}

    admin = AdminClient({"bootstrap.servers": groups.cluster.direct})  # which its futures do not keep
    for future in admin.delete_records([Partition(topic, number, -1) for number in range(2)]).values():
        future.result(LIMIT_S)
    assert clean(groups, tmp_path, "--older-than", "1h", "--delete")[topic]["deleted"] == 6
    assert objects(groups, topic) == {orphans[2], foreign}


def test_a_topic_that_does_not_exist_keeps_its_objects(groups: Groups, tmp_path: Path) -> None:
    folder = groups.objects / "object-gone"
    folder.mkdir(exist_ok=True)
    path = folder / f"{7:032x}"
    path.write_bytes(b"x")
    os.utime(path, (time.time() - OLD_S,) * 2)
    done = run(groups, tmp_path, "object-gone", "--delete")
    assert done.returncode == 1
    assert "object-gone: nothing was deleted: there is no such topic in this cluster" in done.stderr
    assert path.exists()
    path.unlink()
