"""Record what a client and its brokers say to each other, for test_golden.py to relay it again.

python tests/golden/record.py mock          # librdkafka and its own mock cluster; needs nothing else
python tests/golden/record.py librdkafka    # librdkafka and a real broker; needs `make kafka`
python tests/golden/record.py java          # Kafka's console tools and a real broker; needs `make kafka`
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "examples")]

from confluent_kafka import libversion  # noqa: E402 - needs the path above, as those below
from golden import talks  # noqa: E402
from golden.tee import Conversation, Tee, addresses  # noqa: E402
from harness.versions import NEWEST  # noqa: E402

ORDER = "C: from the client, B: from the broker. One frame per line, in the order of their coming."
LIBRDKAFKA = f"librdkafka {libversion()[0]}: idempotent producer, one with acks=1"


@contextmanager
def mock() -> Iterator[str]:
    """The addresses of a cluster."""
    import mock_cluster

    _keeper, servers = mock_cluster.start()
    yield servers


@contextmanager
def real() -> Iterator[str]:
    from harness.cluster import Cluster

    with Cluster.start(NEWEST) as cluster:
        yield cluster.direct


RECORDINGS = {
    "mock": (mock, talks.librdkafka_with_acks, f"{LIBRDKAFKA}, a group; its own mock cluster of three."),
    "librdkafka": (real, talks.librdkafka, f"{LIBRDKAFKA}, one with acks=0, a group; Kafka {NEWEST}."),
    "java": (
        real,
        talks.java,
        f"Kafka {NEWEST}: TopicCommand, ConsoleProducer, ConsoleConsumer in both group protocols.",
    ),
}


async def record(servers: str, talk: Callable[[str], None]) -> list[Conversation]:
    async with Tee(addresses(servers)) as tee:
        await asyncio.to_thread(talk, tee.addresses)
        return [conversation for conversation in tee.conversations if conversation.frames]


def save(name: str, about: str, conversations: list[Conversation]) -> None:
    lines = [f"# {about}", f"# {ORDER}"]
    for number, conversation in enumerate(conversations, 1):
        lines += [f"# connection {number}", *(f"{who} {frame.hex()}" for who, frame in conversation.frames)]
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n")


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in RECORDINGS:
        sys.exit(__doc__)
    cluster, talk, about = RECORDINGS[sys.argv[1]]
    with cluster() as servers:
        save(sys.argv[1], about, asyncio.run(record(servers, talk)))


if __name__ == "__main__":
    main()
