"""The connection to a cluster: what is read, in which order, and how long it is waited for a broker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import NodeNotReadyError, TopicAuthorizationFailedError

from kafka_sidecar.codec.batch_layout import CONTROL, TRANSACTIONAL
from kafka_sidecar.codec.records import NewRecord, build_batch
from kafka_sidecar.proxy.cli.dead_letters import cluster as module
from kafka_sidecar.proxy.cli.dead_letters.cluster import Cluster, ClusterError, connect

NOT_LEADER, DENIED = 6, 29
ABORT = bytes((0, 0, 0, 0))


class Client:
    """As aiokafka's: answers requests from a list; an error in it is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.updates = 0
        self.cluster = SimpleNamespace(
            partitions_for_topic=lambda topic: {1, 0} if topic == "dlq" else None,
            leader_for_partition=lambda partition: 1,
        )

    async def set_topics(self, topics: set[str]) -> None: ...

    async def force_metadata_update(self) -> None:
        self.updates += 1

    async def send(self, node: int, request: Any, group: int = 0) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def coordinator_lookup(self, kind: int, key: str) -> int:
        return 3


def cluster_of(client: Client, start: int = 0) -> Cluster:
    async def beginning_offsets(partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, start)

    async def topics() -> set[str]:
        return {"a.dlq", "b.dlq", "b"}

    return Cluster(SimpleNamespace(_client=client, beginning_offsets=beginning_offsets, topics=topics))


def fetched(*parts: bytes, stable: int, code: int = 0, aborted: Any = None) -> Any:
    row = (0, code, stable, stable, 0, aborted, -1, b"".join(parts))
    return SimpleNamespace(topics=[("dlq", [row])])


def batch(offset: int, *values: bytes, **more: Any) -> bytes:
    return build_batch([NewRecord(value) for value in values], base_offset=offset, **more)


async def read(cluster: Cluster, first: int = 0) -> list[tuple[int, bytes | None]]:
    return [(offset, one.value) async for part in cluster.read("dlq", 0, first) for offset, one in part.records]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "MAX_PAUSE_S", 0.001)
    monkeypatch.setattr(module, "PATIENCE_S", 0.2)


async def test_a_partition_is_read_to_the_end_that_it_had_at_first() -> None:
    client = Client(fetched(batch(0, b"a", b"b"), stable=3), fetched(batch(2, b"c", b"later"), stable=9))
    assert await read(cluster_of(client)) == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_a_batch_is_read_from_the_offset_that_is_wanted() -> None:
    client = Client(fetched(batch(0, b"a", b"b", b"c"), stable=3))
    assert await read(cluster_of(client, start=1)) == [(1, b"b"), (2, b"c")]
    assert await read(cluster_of(client), first=2) == [(2, b"c")]


async def test_records_of_aborted_transactions_are_not_read() -> None:
    marker = build_batch([NewRecord(bytes(6), ABORT)], base_offset=1, attributes=TRANSACTIONAL | CONTROL, producer_id=5)
    data = [batch(0, b"a", attributes=TRANSACTIONAL, producer_id=5), marker, batch(2, b"b")]
    client = Client(fetched(*data, stable=3, aborted=[(5, 0)]))
    assert await read(cluster_of(client)) == [(2, b"b")]


async def test_an_end_that_is_compacted_ends_it() -> None:
    client = Client(fetched(batch(0, b"a"), stable=5), fetched(stable=5))
    assert await read(cluster_of(client)) == [(0, b"a")]
    assert len(client.asked) == 1 + module.MAX_EMPTY


async def test_a_damaged_batch_is_named() -> None:
    data = bytearray(batch(4, b"abcdef"))
    data[-3:] = b"\xff\xff\xff"
    with pytest.raises(ClusterError, match="dlq, partition 0, from offset 0 on: "):
        await read(cluster_of(Client(fetched(bytes(data[:-2]) + b"\xff\xff", stable=5))))


async def test_a_new_leader_is_asked_again() -> None:
    client = Client(fetched(stable=1, code=NOT_LEADER), NodeNotReadyError(), fetched(batch(0, b"a"), stable=1))
    assert await read(cluster_of(client)) == [(0, b"a")]
    assert client.updates == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (fetched(stable=1, code=DENIED), "dlq, partition 0: TOPIC_AUTHORIZATION_FAILED"),
        (TopicAuthorizationFailedError(), "TopicAuthorizationFailedError"),
        (fetched(stable=1, code=999), "dlq, partition 0: error 999"),
        (fetched(stable=1, code=NOT_LEADER), "no answer within 0.2 s: NotLeaderForPartitionError"),
        (NodeNotReadyError("node 1"), "no answer within 0.2 s"),
        (OSError("gone"), "no answer within 0.2 s: gone"),
    ],
)
async def test_what_does_not_end_by_waiting_is_an_error_of_one_line(answer: Any, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        await read(cluster_of(Client(answer)))


async def test_a_partition_without_a_leader_is_waited_for() -> None:
    client = Client(fetched(stable=0))
    client.cluster.leader_for_partition = lambda partition: -1
    with pytest.raises(ClusterError, match="a partition has no leader"):
        await read(cluster_of(client))


async def test_what_a_group_has_committed_is_read_with_its_metadata() -> None:
    def answer(*row: Any) -> Any:
        return SimpleNamespace(topics=[("dlq", [row])], error_code=0)

    cluster = cluster_of(Client(answer(0, 7, "1:2:x", 0)))
    assert await cluster.committed("g", "dlq", 0) == (7, "1:2:x")
    assert await cluster_of(Client(answer(0, -1, None, 0))).committed("g", "dlq", 0) == (-1, "")
    with pytest.raises(ClusterError, match="group g: GROUP_AUTHORIZATION_FAILED"):
        await cluster_of(Client(answer(0, -1, "", 30))).committed("g", "dlq", 0)
    with pytest.raises(ClusterError, match="group g: GROUP_AUTHORIZATION_FAILED"):
        await cluster_of(Client(SimpleNamespace(topics=[], error_code=30))).committed("g", "dlq", 0)


async def test_topics_are_found_by_names_and_patterns() -> None:
    cluster = cluster_of(Client())
    assert await cluster.expand(["*.dlq", "x", "b.dlq"]) == ["a.dlq", "b.dlq", "x"]
    assert await cluster.partitions("dlq") == [0, 1]
    assert await cluster.has_partition("dlq", 1)
    assert not await cluster.has_partition("dlq", 2)
    assert not await cluster.has_partition("none", 0)
    with pytest.raises(ClusterError, match="topic none does not exist"):
        await cluster.partitions("none")


def failing(error: Exception) -> Callable[..., Any]:
    async def fails(*_: Any) -> Any:
        raise error

    return fails


async def test_offsets_and_topics_that_cannot_be_found_are_named() -> None:
    cluster = Cluster(
        SimpleNamespace(_client=Client(), beginning_offsets=failing(OSError("x")), topics=failing(OSError("y")))
    )
    with pytest.raises(ClusterError, match="dlq, partition 0: x"):
        await cluster.start_of("dlq", 0)
    with pytest.raises(ClusterError, match="topics cannot be listed: y"):
        await cluster.expand(["*"])


async def test_an_address_where_nothing_answers_is_named() -> None:
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1: cannot be reached"):
        async with connect({"bootstrap_servers": ["127.0.0.1:1"]}):
            pass
