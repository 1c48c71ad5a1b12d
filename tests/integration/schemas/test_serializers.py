"""What Confluent's own serializers register and write is accepted at a real broker, by a registry that this project did
not write; and with one byte of the id or the data wrong it is rejected with the exact message."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    prefix_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from harness.schema_registry import NEEDS_GO, has_go, schema_registry
from integration.front import Front, started
from integration.scenarios.target import LIMIT_S, SILENT

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not has_go(), reason=NEEDS_GO)]

STRATEGIES = {
    "topic_name": topic_subject_name_strategy,
    "record_name": record_subject_name_strategy,
    "topic_record_name": topic_record_subject_name_strategy,
}
FORMS = {"prefix": prefix_schema_id_serializer, "header": header_schema_id_serializer}
RULES = """schema_registries:
  main: {{urls: ["{url}"]}}
policies:
{policies}
topics:
{topics}
"""
ORDER = {"type": "record", "name": "shop.Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "item", "type": "shop.Item"}]}  # fmt: skip
ITEM = {"type": "record", "name": "shop.Item", "fields": [{"name": "sku", "type": "string"}]}
PAYMENT = {"$id": "http://acme/payment.json", "title": "Payment", "type": "object", "required": ["amount"],
           "properties": {"amount": {"$ref": "amount.json"}}}  # fmt: skip
AMOUNT = {"$id": "http://acme/amount.json", "type": "number", "minimum": 0}


FILE = FileDescriptorProto(name="shop/refund.proto", package="shop", syntax="proto3")
FILE.message_type.add(name="Refund").field.add(
    name="note", number=1, type=FieldDescriptorProto.TYPE_STRING, label=FieldDescriptorProto.LABEL_OPTIONAL
)
POOL = DescriptorPool()
POOL.AddSerializedFile(FILE.SerializeToString())
Refund: Any = GetMessageClass(POOL.FindMessageTypeByName("shop.Refund"))
FRESH_S = 1.1  # the registry is not asked again for what it has answered a second ago
Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Registered(Front):
    client: SchemaRegistryClient

    def serializer(self, language: str, strategy: str, form: str) -> tuple[Callable[..., bytes], Any]:
        """What writes values, and a value."""
        # Only the registry's answer to who asks for a version has its GUID.
        is_header = form == "header"
        settings = {
            "auto.register.schemas": not is_header, "use.latest.version": is_header,
            "subject.name.strategy": STRATEGIES[strategy], "schema.id.serializer": FORMS[form],
        }  # fmt: skip
        if language == "avro":
            self.client.register_schema("item", Schema(json.dumps(ITEM), "AVRO"))
            text = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("shop.Item", "item", 1)])
            return AvroSerializer(self.client, text, conf=settings), {"id": 7, "item": {"sku": "a"}}
        if language == "json":
            self.client.register_schema("amount", Schema(json.dumps(AMOUNT), "JSON"))
            text = Schema(json.dumps(PAYMENT), "JSON", [SchemaReference("amount.json", "amount", 1)])
            return JSONSerializer(text, self.client, conf=settings), {"amount": 1.5}
        settings["use.deprecated.format"] = False
        return ProtobufSerializer(Refund, self.client, conf=settings), Refund(note="late")

    def send(self, topic: str, value: bytes | None, headers: Headers) -> KafkaError | None:
        errors: list[KafkaError | None] = []
        settings: dict[str, Any] = {"bootstrap.servers": self.sidecar.bootstrap, "logger": SILENT}
        producer = Producer(settings)
        producer.produce(topic, value, headers=headers, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(LIMIT_S) == 0
        return errors[0]

    def rejection(self, topic: str) -> str:
        """The message of the last rejection of a topic."""
        lines = [line for line in self.lines() if line["message"] == "records rejected" and line["topic"] == topic]
        return str(lines[-1]["detail"])


def zeroed(headers: Headers) -> Headers:
    """With a GUID that no schema has."""
    return [(name, content[:1] + bytes(16) + content[17:]) for name, content in headers if isinstance(content, bytes)]


@pytest.fixture(scope="module")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registered]:
    folder = tmp_path_factory.mktemp("registered")
    policies = "".join(f"  {name}: {{type: schema, registry: main, subject: {name}}}\n" for name in STRATEGIES)
    topics = "".join(f'  - {{name: "{name}-*", policy: {name}}}\n' for name in STRATEGIES)
    with schema_registry(folder) as server:
        rules = RULES.format(url=server.url, policies=policies.rstrip(), topics=topics.rstrip())
        with started(Path(folder), rules) as (cluster, sidecar):
            yield Registered(cluster, sidecar, SchemaRegistryClient({"url": server.url}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("language", ["avro", "json", "protobuf"])
def test_what_serializers_write_is_stored_byte_for_byte_and_what_is_changed_is_rejected(
    registered: Registered, language: str, strategy: str, form: str
) -> None:
    topic = registered.topic(f"{strategy}-{language}-{form}")
    headers: Headers = []
    serialize, value = registered.serializer(language, strategy, "prefix")
    serialize(value, SerializationContext(topic, MessageField.VALUE, []))  # registers
    serialize, value = registered.serializer(language, strategy, form)
    data = serialize(value, SerializationContext(topic, MessageField.VALUE, headers))
    time.sleep(FRESH_S)
    assert registered.send(topic, data, headers) is None
    assert registered.send(topic, None, []) is None
    for wrong, others, message in [
        (data[:-1], headers, "to be of the schema"),
        *(
            [(b"\0\0\0\xff\xff" + data[5:], headers, "to have a schema that the registry knows, which id 65535 is not")]
            if form == "prefix"
            else [
                (data, zeroed(headers), "guid 0000000"),
                (data, [], "to have the id of a schema"),
            ]
        ),
    ]:
        error = registered.send(topic, wrong, others)
        assert error is not None, message
        assert error.code() == KafkaError.INVALID_RECORD
        assert message in registered.rejection(topic)
    assert registered.stored(topic) == [data, None]
    other = registered.topic(f"topic_name-{language}-{form}-beside-{strategy}")
    error = registered.send(other, data, headers)
    assert error is not None, "the schema is of another topic's subject"
    assert f"to have a schema of the subject {other}-value" in registered.rejection(other)
