"""Schemas in files, at a real broker: alone, and beside large messages, masked fields and reloads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from integration.front import Front, logged, started
from integration.scenarios.target import LIMIT_S, SILENT, eventually
from support.avro_values import ORDER, VALUE, written

pytestmark = pytest.mark.integration

PREFIX = b"\0\0\0\0\7"
RULES = """policies:
  order: {type: avro, file: order.avsc, prefix: confluent}
  payment: {type: json_schema, file: payment.json}
  refund: {type: protobuf, file: refund.proto, prefix: confluent, message: Refund, unknown_fields: reject}
topics:
  - {name: order*, policy: order}
  - {name: payment*, policy: payment}
  - {name: refund*, policy: refund}
large_messages:
  topics: [{name: orders-large}, {name: refunds-large}]
interceptors:
  - {type: mask_fields, topics: ["payment*"], fields: ["$.card"]}
"""
PAYMENT = {"type": "object", "properties": {"amount": {"type": "number", "minimum": 0}}, "required": ["amount"]}

# A type that message indexes name (the second one), and a value with a number and a text.
REFUND = """syntax = "proto3"; package shop;
message Order { int64 id = 1; }
message Refund { int64 id = 1; string why = 2; }
"""
REFUNDED = PREFIX + b"\2\2\x08\7\x12\4late"


@dataclass(frozen=True, slots=True)
class Schemas(Front):
    folder: Path

    def send(self, topic: str, *values: bytes | None, codec: str = "lz4") -> KafkaError | None:
        """The error of a batch of these values, if it gets one."""
        errors: list[KafkaError | None] = []
        settings: dict[str, Any] = {
            "bootstrap.servers": self.sidecar.bootstrap, "compression.type": codec, "linger.ms": 200,
            "message.max.bytes": 20_000_000, "logger": SILENT,
        }  # fmt: skip
        producer = Producer(settings)
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(LIMIT_S) == 0
        return next((error for error in errors if error is not None), None)

    def read(self, topic: str) -> list[bytes | None]:
        """The values that a consumer gets through the sidecar."""
        return [message.value() for message in logged(self.sidecar.bootstrap, topic)]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schemas]:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "order.avsc").write_text(json.dumps(ORDER))
    (folder / "payment.json").write_text(json.dumps(PAYMENT))
    (folder / "refund.proto").write_text(REFUND)
    with started(folder, RULES) as (cluster, sidecar):
        yield Schemas(cluster, sidecar, folder)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_values_of_the_schema_are_stored_byte_for_byte_and_others_are_rejected(schemas: Schemas, codec: str) -> None:
    topic, good = schemas.topic(f"orders-{codec}"), PREFIX + written(ORDER, VALUE)
    assert schemas.send(topic, good, None, codec=codec) is None
    for wrong in (good[:-1], good[len(PREFIX) :], good + b"\0"):
        error = schemas.send(topic, wrong, codec=codec)
        assert error is not None
        assert error.code() == KafkaError.INVALID_RECORD
    assert schemas.stored(topic) == [good, None]
    lines = [line for line in schemas.lines() if line["message"] == "records rejected" and line["topic"] == topic]
    assert {line["reason"] for line in lines} == {"not_of_schema", "no_schema_id"}


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (REFUNDED[:-1], "$.why: ends too early at byte 9"),
        (REFUNDED[:-1] + b"\xff", "$.why: text that is not UTF-8 at byte 9"),
        (REFUNDED + b"\x18\1", "$: a field that the schema does not have at byte 10"),
        (PREFIX + b"\0\x08\7", "$: another message than shop.Refund at byte 0"),
        (PREFIX + b"\2\4\x08\7", "$: message indexes that the schema does not have at byte 0"),
    ],
    ids=["cut-off", "text", "unknown-field", "other-message", "indexes"],
)
def test_messages_are_stored_byte_for_byte_and_others_are_rejected_with_path_and_rule(
    schemas: Schemas, wrong: bytes, rule: str, request: pytest.FixtureRequest
) -> None:
    topic = schemas.topic(f"refunds-{request.node.callspec.id}")
    assert schemas.send(topic, REFUNDED, None) is None
    error = schemas.send(topic, REFUNDED, wrong)
    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    (line,) = [line for line in schemas.lines() if line["message"] == "records rejected" and line["topic"] == topic]
    assert rule in json.dumps(line)
    assert schemas.stored(topic) == [REFUNDED, None]


def test_a_rejection_says_path_and_rule(schemas: Schemas) -> None:
    topic = schemas.topic("payments-rejected")
    assert schemas.send(topic, b'{"amount": 1}') is None
    assert schemas.send(topic, b'{"amount": -1}') is not None
    (line,) = [line for line in schemas.lines() if line["message"] == "records rejected" and line["topic"] == topic]
    assert "$.amount: minimum 0" in json.dumps(line)


def test_a_masked_field_is_masked_and_the_rest_is_validated(schemas: Schemas) -> None:
    topic = schemas.topic("payments-masked")
    assert schemas.send(topic, b'{"amount": 1, "card": "4111"}') is None
    assert schemas.stored(topic) == [b'{"amount": 1, "card": "4111"}']
    (seen,) = schemas.read(topic)
    assert seen is not None
    assert b"4111" not in seen


def test_a_large_value_is_validated_whole(schemas: Schemas) -> None:
    topic = schemas.topic("orders-large")
    large = PREFIX + written(ORDER, {**VALUE, "notes": {"k": "x" * 5_000_000}})
    assert schemas.send(topic, large[:-1], codec="none") is not None
    assert schemas.send(topic, large, codec="none") is None
    assert schemas.read(topic) == [large]


def test_a_large_message_of_protobuf_is_validated_whole(schemas: Schemas) -> None:
    topic = schemas.topic("refunds-large")
    large = PREFIX + b"\2\2\x12\xc0\x96\xb1\x02" + b"x" * 5_000_000
    assert schemas.send(topic, large[:-1], codec="none") is not None
    assert schemas.send(topic, large[:-1] + b"\xff", codec="none") is not None
    assert schemas.send(topic, large, codec="none") is None
    assert schemas.read(topic) == [large]


def test_a_new_schema_applies_once_its_file_is_replaced(schemas: Schemas) -> None:
    topic, file = schemas.topic("payments-reloaded"), schemas.folder / "payment.json"
    assert schemas.send(topic, b'{"amount": 1}') is None
    new = file.with_suffix(".new")
    new.write_text(json.dumps({**PAYMENT, "required": ["amount", "currency"]}))
    new.replace(file)
    eventually(
        lambda: [line for line in schemas.lines() if line["message"] == "configuration applied"], bool, "it is applied"
    )
    assert schemas.send(topic, b'{"amount": 1}') is not None
    assert schemas.send(topic, b'{"amount": 1, "currency": "CHF"}') is None
