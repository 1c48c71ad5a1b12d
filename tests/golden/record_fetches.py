"""Record nine consumers up to a Fetch response whose last records are slices, for test_marker_or_hold.py.

python tests/golden/record_fetches.py [CLIENT...]    # needs `make kafka`; five of them `go` or `npm`, too
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from confluent_kafka import libversion  # noqa: E402 - needs the path above, as those below
from golden.record import record, save  # noqa: E402
from golden.tee import BROKER, CLIENT, Conversation  # noqa: E402
from harness.cluster import Cluster  # noqa: E402
from harness.jvm import java  # noqa: E402
from harness.versions import NEWEST  # noqa: E402
from integration.large_messages import other_consumers  # noqa: E402
from integration.large_messages.stepped import Place, clients  # noqa: E402
from integration.large_messages.written_logs import PRODUCE  # noqa: E402
from integration.scenarios.target import create_topic  # noqa: E402
from integration.validation.wire import Wire  # noqa: E402
from support.large_logs import Log, message_id, sliced  # noqa: E402

Talk = Callable[[str, str], object]  # with servers, of a topic

FOLDER = HERE / "fetches"
FETCH, API_VERSIONS = 1, 18
VALUE = bytes(range(100))
SLICES = 3  # without a carrier
RECORDS = 1 + SLICES


def write(servers: str, topic: str) -> None:
    """One record that is shown, and slices."""
    create_topic(servers, topic, 1)
    log = Log()
    log.add(b"shown")
    for data in sliced(VALUE, SLICES + 1, message_id(1)):
        log.append(data)
    with Wire(servers) as wire:
        for data in log.batches:
            assert wire.produce(PRODUCE, {topic: {0: bytes(8) + data[8:]}})[topic, 0].code == 0


def console(servers: str, topic: str) -> None:
    """Kafka's own console consumer."""
    flags = ["--partition", "0", "--offset", "0", "--max-messages", str(RECORDS)]
    command = java(
        NEWEST,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server",
        servers,
        "--topic",
        topic,
        *flags,
    )
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def talks() -> dict[str, tuple[str, Talk]]:
    """By client, its version and what it does."""
    stepped = clients({})

    def one_by_one(name: str) -> Talk:
        return lambda servers, topic: stepped[name](Place(servers, topic, "golden"), *["poll"] * RECORDS)

    def in_another_language(name: str) -> Talk:
        return lambda servers, topic: other_consumers.read(name, servers, topic, RECORDS)

    own = {"librdkafka": libversion()[0], "aiokafka": installed("aiokafka"), "kafka-python": installed("kafka-python")}
    others = {name: (other_consumers.version(name), in_another_language(name)) for name in other_consumers.TOOLS}
    return {"java": (NEWEST, console), **{name: (own[name], one_by_one(name)) for name in own}, **others}


def with_slices(conversations: list[Conversation]) -> list[Conversation]:
    """The connection on which they were fetched, up to that response. Before it, if it does not say which versions the
    broker has, the first exchange of the one that does.
    """
    for conversation in conversations:
        fetches: set[bytes] = set()  # correlation ids
        for at, (who, frame) in enumerate(conversation.frames):
            if who == CLIENT and key_of(frame) == FETCH:
                fetches.add(frame[8:12])
            if who == BROKER and frame[4:8] in fetches and b"_lm" in frame:
                found = Conversation(conversation.frames[: at + 1])
                has_versions = API_VERSIONS in map(key_of, found.said_by(CLIENT))
                return [found] if has_versions else [*versions(conversations), found]
    raise AssertionError("no response has slices")


def versions(conversations: list[Conversation]) -> list[Conversation]:
    """The first ApiVersions of a client."""
    asked = (one for one in conversations if key_of(one.frames[0][1]) == API_VERSIONS)
    return [Conversation(next(asked).frames[:2])]


def key_of(request: bytes) -> int:
    return int.from_bytes(request[4:6], "big")


def main() -> None:
    known = talks()
    FOLDER.mkdir(exist_ok=True)
    with Cluster.start(NEWEST) as cluster:
        for name in sys.argv[1:] or known:
            version, talk = known[name]
            topic = f"large-{name}"
            write(cluster.direct, topic)

            def talk_there(servers: str, topic: str = topic, talk: Talk = talk) -> None:
                talk(servers, topic)

            found = with_slices(asyncio.run(record(cluster.direct, talk_there)))
            save(f"fetches/{name}", f"{name} {version}; Kafka {NEWEST}.", found)


if __name__ == "__main__":
    main()
