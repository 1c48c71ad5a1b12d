"""Conditions and masks on Avro values and on JSON after the id of a schema, at a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from integration.front import started
from integration.scenarios.target import eventually
from integration.validation.test_schemas import PREFIX, Schemas
from support.avro_values import ORDER, VALUE, written

pytestmark = pytest.mark.integration

RULES = """policies:
  many:
    type: cel
    schema: {language: avro, file: order.avsc}
    prefix: confluent
    expression: value == null || value.items.exists(item, item.price > 1.0) && value.state == "SENT"
  cheap: {type: cel, prefix: confluent, expression: value.amount < 10}
topics:
  - {name: order*, policy: many}
  - {name: payment*, policy: cheap}
large_messages:
  topics: [{name: orders-large}]
interceptors:
  - type: mask_fields
    topics: ["order*"]
    fields: ["$..sku", "$.id"]
    schema: {language: avro, file: order.avsc}
    prefix: confluent
    unreadable: drop
  - {type: mask_fields, name: cards, topics: ["payment*"], fields: ["$.card"]}
"""
GOOD = PREFIX + written(ORDER, VALUE)


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Schemas]:
    folder = tmp_path_factory.mktemp("decoded")
    (folder / "order.avsc").write_text(json.dumps(ORDER))
    with started(folder, RULES) as (cluster, sidecar):
        yield Schemas(cluster, sidecar, folder)


def masked(value: bytes) -> bytes:
    """The text and the number of `VALUE` that the interceptor hides, replaced."""
    assert value.startswith(PREFIX + b"\x0e")  # the id, 7
    return PREFIX + b"\0" + value[len(PREFIX) + 1 :].replace(b"\x02a\x02", b"\x06***\x02")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_condition_on_avro_values_holds_and_consumers_get_their_fields_masked(schemas: Schemas, codec: str) -> None:
    topic = schemas.topic(f"orders-{codec}")
    assert schemas.send(topic, GOOD, None, codec=codec) is None
    for wrong in (PREFIX + written(ORDER, {**VALUE, "state": "NEW"}), GOOD[:-1], GOOD[len(PREFIX) :]):
        error = schemas.send(topic, wrong, codec=codec)
        assert error is not None
        assert error.code() == KafkaError.INVALID_RECORD
    assert schemas.stored(topic) == [GOOD, None]
    assert schemas.read(topic) == [masked(GOOD), None]
    lines = [line for line in schemas.lines() if line["message"] == "records rejected" and line["topic"] == topic]
    assert {line["reason"] for line in lines} == {"condition", "not_of_schema", "no_schema_id"}


def test_json_after_the_id_of_a_schema_is_seen_and_masked(schemas: Schemas) -> None:
    topic = schemas.topic("payments")
    value = PREFIX + b'{"amount": 1, "card": "4111"}'
    assert schemas.send(topic, value) is None
    assert schemas.send(topic, value.replace(b"1,", b"11,")) is not None
    assert schemas.stored(topic) == [value]
    assert schemas.read(topic) == [value.replace(b"4111", b"***")]


def test_a_large_value_is_masked_whole(schemas: Schemas) -> None:
    topic = schemas.topic("orders-large")
    large = PREFIX + written(ORDER, {**VALUE, "notes": {"k": "x" * 5_000_000}})
    assert schemas.send(topic, large, codec="none") is None
    assert schemas.read(topic) == [masked(large)]


def test_a_new_schema_applies_to_conditions_and_masks_once_its_file_is_replaced(schemas: Schemas) -> None:
    topic, file = schemas.topic("orders-reloaded"), schemas.folder / "order.avsc"
    evolved = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}
    newer = PREFIX + written(evolved, {**VALUE, "note": "n"})
    assert schemas.send(topic, newer) is not None
    new = file.with_suffix(".new")
    new.write_text(json.dumps(evolved))
    new.replace(file)
    eventually(
        lambda: [line for line in schemas.lines() if line["message"] == "configuration applied"], bool, "it is applied"
    )
    assert schemas.send(topic, GOOD) is not None
    assert schemas.send(topic, newer) is None
    assert schemas.read(topic) == [masked(newer)]
