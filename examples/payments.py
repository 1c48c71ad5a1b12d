"""Valid and invalid records for topics with policies, and what their producer gets for them."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from ledger import Finding
from rich.box import SIMPLE
from rich.table import Table

from kafka_sidecar.codec.apis import ApiKey, request_header_version, response_header_version
from kafka_sidecar.codec.headers import RequestHeader, ResponseHeader
from kafka_sidecar.codec.message import decode, encode
from kafka_sidecar.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafka_sidecar.codec.records import Header, NewRecord, build_batch

TRACED = {"trace-id": b"4bf92f35"}
VERSION = 11  # of Produce: the newest that names topics
LENGTH = Struct(">i")


class Kind(NamedTuple):
    name: str
    value: bytes
    headers: Mapping[str, bytes] = MappingProxyType({})


# By topic. The values of orders-avro are those of examples/policies/schemas/order.avsc, in Avro's binary encoding: the
# number 1, a text of three bytes, and a branch of a union.
KINDS = {
    "payments": (
        Kind("good", b'{"id": 1, "amount": 12.5, "currency": "CHF"}', TRACED),
        Kind("cut off", b'{"id": 2, "amount": 1', TRACED),
        Kind("not traced", b'{"id": 3, "amount": 7, "currency": "EUR"}'),
        Kind("below zero", b'{"id": 4, "amount": -7, "currency": "EUR"}', TRACED),
    ),
    "orders-avro": (
        Kind("good Avro", b"\x02\x06ann\x00"),
        Kind("no such branch", b"\x02\x06ann\x06"),
    ),
}
GOOD = ("good", "good Avro")
BATCHES = 30  # of each kind


class Payments:
    """A producer that sends each record in a batch of its own, and counts the results."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.results = {(topic, kind.name): Counter[str]() for topic, kinds in KINDS.items() for kind in kinds}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": "demo-payments",
                "enable.idempotence": True,
                "batch.num.messages": 1,
            }
        )

    def send(self) -> None:
        for _ in range(BATCHES):
            for topic, kind in self.results:
                (sent,) = (one for one in KINDS[topic] if one.name == kind)
                self._producer.produce(topic, sent.value, kind, headers={**sent.headers}, on_delivery=self._delivered)
            self._producer.flush(10)
        self._producer.close()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        kind = message.topic() or "", (message.key() or b"").decode()
        self.results[kind]["stored" if error is None else error.name()] += 1

    def findings(self) -> Iterator[Finding]:
        for (topic, kind), counts in self.results.items():
            expected = "stored" if kind in GOOD else "INVALID_RECORD"
            results = ", ".join(f"{number} {result}" for result, number in counts.items())
            yield Finding(counts == {expected: BATCHES}, f"{BATCHES} {kind} records to {topic!r}: {results}")


def response_on_the_wire(bootstrap_servers: str, topic: str) -> PartitionProduceResponse:
    """The response to a batch with one record of each kind (KIP-467)."""
    records = build_batch(
        [
            NewRecord(value=value, headers=tuple(Header(key.encode(), value) for key, value in headers.items()))
            for _, value, headers in KINDS[topic]
        ]
    )
    partition = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=(TopicProduceData(name=topic, partition_data=(partition,)),)
    )
    header = RequestHeader(api_key=ApiKey.PRODUCE, api_version=VERSION, correlation_id=1, client_id="demo-wire")
    frame = encode(header, request_header_version(ApiKey.PRODUCE, VERSION)) + encode(request, VERSION)
    host, _, port = bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection, connection.makefile("rb") as answers:
        connection.sendall(LENGTH.pack(len(frame)) + frame)
        (length,) = LENGTH.unpack(answers.read(LENGTH.size))
        answer = answers.read(length)
    _, at = decode(ResponseHeader, answer, response_header_version(ApiKey.PRODUCE, VERSION))
    response, _ = decode(ProduceResponse, answer, VERSION, at)
    return response.responses[0].partition_responses[0]


def reasons_table(topic: str, response: PartitionProduceResponse) -> Table:
    """The record errors of a response."""
    kinds = KINDS[topic]
    table = Table(
        box=SIMPLE,
        title=f"One batch of {len(kinds)} records for {topic!r}, rejected: {KafkaError(response.error_code).name()}",
        caption=f"What {topic!r} takes is in examples/demo.yaml.",
    )
    for column in ("record", "kind", "error message"):
        table.add_column(column)
    messages = {error.batch_index: error.batch_index_error_message for error in response.record_errors}
    for index, kind in enumerate(kinds):
        table.add_row(str(index), kind.name, messages.get(index, "not stored either: its batch is rejected"))
    return table
