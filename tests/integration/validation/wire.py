"""One connection that speaks in bytes: Produce requests of any version, of batches that no client would send."""

from __future__ import annotations

import datetime
import itertools
import socket
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from support import oracle
from support.produce_requests import without_id

from kafka_sidecar.codec.apis import ApiKey

LIMIT_S = 30.0
TIMEOUT = datetime.timedelta(seconds=10)
METADATA_VERSION = 12
FIRST_WITH_IDS = 13
FIRST_WITH_RECORD_ERRORS = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said of one partition."""

    code: int
    base_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    message: str | None = None


class Wire:
    """A connection to a broker or a sidecar."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), LIMIT_S)
        self._numbers = itertools.count(1)

    def produce(
        self, version: int, topics: Mapping[str, Mapping[int, bytes]], acks: int = -1
    ) -> dict[tuple[str, int], Answer]:
        """Send the records of each partition; what each is answered, in the order of the answer."""
        ids = self.ids(topics) if version >= FIRST_WITH_IDS else {}
        data = [
            {
                "name": name,
                "topic_id": ids.get(name),
                "partition_data": [{"index": index, "records": records} for index, records in partitions.items()],
            }
            for name, partitions in topics.items()
        ]
        said = self.ask(ApiKey.PRODUCE, version, acks=acks, timeout=TIMEOUT, topic_data=data)
        names = {uuid.UUID(bytes=topic_id): name for name, topic_id in ids.items()}
        return {
            (names[topic.topic_id] if ids else topic.name, partition.index): _answer(version, partition)
            for topic in said.responses
            for partition in topic.partition_responses
        }

    def produce_to_no_topic(self, records: bytes) -> int:
        """The error code for a topic whose id is zero."""
        data = [{"topic_id": None, "partition_data": [{"index": 0, "records": records}]}]
        said = self.ask(ApiKey.PRODUCE, FIRST_WITH_IDS, acks=-1, timeout=TIMEOUT, topic_data=data)
        return int(said.responses[0].partition_responses[0].error_code)

    def ids(self, topics: Iterable[str]) -> dict[str, bytes]:
        """The ids of topics, by their names; empty where the broker does not know it yet."""
        said = self.ask(ApiKey.METADATA, METADATA_VERSION, topics=[{"name": name} for name in topics])
        return {topic.name: topic.topic_id.bytes if topic.topic_id else b"" for topic in said.topics}

    def ask(self, key: int, version: int, **values: Any) -> Any:
        """Send a request; kio's message of the answer."""
        number = next(self._numbers)
        self._socket.sendall(oracle.request_frame(oracle.request(key, version, **values), number))
        length = self._exactly(4)
        answered, message = oracle.read_response(key, version, length + self._exactly(int.from_bytes(length, "big")))
        assert answered == number
        return message

    def _exactly(self, size: int) -> bytes:
        """Raises EOFError when the connection ends."""
        found = bytearray()
        while len(found) < size:
            chunk = self._socket.recv(size - len(found))
            if not chunk:
                raise EOFError
            found += chunk
        return bytes(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()


def _answer(version: int, partition: Any) -> Answer:
    if version < FIRST_WITH_RECORD_ERRORS:
        return Answer(int(partition.error_code), partition.base_offset)
    errors = tuple((error.batch_index, _text(error.batch_index_error_message)) for error in partition.record_errors)
    return Answer(int(partition.error_code), partition.base_offset, errors, _text(partition.error_message))


def _text(message: str | None) -> str | None:
    """Without the sidecar's id; a broker's messages have none."""
    return without_id(message) if message is not None and "explain" in message else message
