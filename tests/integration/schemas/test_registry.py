"""A registry that this project did not write, filled by Confluent's own client: our questions are answered."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from harness.schema_registry import NEEDS_GO, SchemaRegistryServer, has_go, schema_registry

from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.registries import open_registry
from kafka_sidecar.schemas.registry import (
    Answer,
    CompatibleWith,
    LatestOf,
    NotFetchedError,
    Question,
    Registry,
    RegistryError,
    RegistrySettings,
    SchemaOf,
    VersionsOf,
)

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not has_go(), reason=NEEDS_GO)]

PRICE = '{"type": "record", "name": "Price", "fields": [{"name": "cents", "type": "long"}]}'
ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "price", "type": "Price"}]}'
JSON_PRICE = '{"$id": "http://acme/price.json", "type": "object", "required": ["cents"]}'
JSON_ORDER = '{"$id": "http://acme/order.json", "properties": {"price": {"$ref": "price.json"}}}'
PROTO_PRICE = 'syntax = "proto3"; package acme; message Price { int64 cents = 1; }'
PROTO_ORDER = 'syntax = "proto3"; package acme; import "price.proto"; message Order { Price price = 1; }'


@pytest.fixture(name="server", scope="module")
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryServer]:
    with schema_registry(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(name="client", scope="module")
def _client(server: SchemaRegistryServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": server.url})


def opened(server: SchemaRegistryServer, **more: Any) -> Registry:
    return open_registry(RegistrySettings("main", (server.url,), **more))


async def ask(registry: Registry, question: Question) -> Answer:
    try:
        return registry.get(question)
    except NotFetchedError:
        await registry.fetch(question)
        return registry.get(question)


def answer(server: SchemaRegistryServer, question: Question, **settings: Any) -> Any:
    return asyncio.run(ask(opened(server, **settings), question))


def register(client: SchemaRegistryClient, subject: str, language: str, texts: tuple[str, str], name: str) -> int:
    """Both texts, the second one with a reference to the first."""
    price, order = texts
    client.register_schema(f"{subject}-price", Schema(price, language))
    reference = SchemaReference(name=name, subject=f"{subject}-price", version=1)
    return client.register_schema(f"{subject}-value", Schema(order, language, [reference]))


LANGUAGES = {
    "AVRO": ((PRICE, ORDER), "Price", b"\2", b""),
    "JSON": ((JSON_PRICE, JSON_ORDER), "price.json", b'{"price": {"cents": 1}}', b'{"price": {}}'),
    "PROTOBUF": ((PROTO_PRICE, PROTO_ORDER), "price.proto", b"\x0a\2\x08\1", b"\x0a\x05\x08"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_schema_with_references_is_found_by_its_id_and_by_its_guid(
    server: SchemaRegistryServer, client: SchemaRegistryClient, language: str
) -> None:
    texts, name, good, bad = LANGUAGES[language]
    number = register(client, f"by-id-{language}", language, texts, name)
    guid = guid_of(server, f"by-id-{language}-value")
    assert answer(server, VersionsOf(SchemaId("guid", guid))) == {(f"by-id-{language}-value", 1)}
    for schema_id in (SchemaId("id", number), SchemaId("guid", guid)):
        schema = answer(server, SchemaOf(schema_id))
        assert schema.find_fault(good, 0, len(good), 128) is None
        assert schema.find_fault(bad, 0, len(bad), 128) is not None


def guid_of(server: SchemaRegistryServer, subject: str) -> str:
    """Clients do not show it yet."""
    with urllib.request.urlopen(f"{server.url}/subjects/{subject}/versions/1", timeout=10) as response:
        return str(json.load(response)["guid"])


def test_the_questions_about_subjects(server: SchemaRegistryServer, client: SchemaRegistryClient) -> None:
    number = register(client, "questions", "AVRO", (PRICE, ORDER), "Price")
    one, subject = SchemaId("id", number), "questions-value"
    assert answer(server, VersionsOf(one)) == {(subject, 1)}
    assert answer(server, LatestOf(subject)) == (1, one)
    assert answer(server, CompatibleWith(subject, one)) is True
    second = client.register_schema(subject, Schema('"string"', "AVRO"))
    assert answer(server, LatestOf(subject)) == (1, one)  # for its time
    assert answer(server, LatestOf(subject), subjects_ttl_s=1) == (2, SchemaId("id", second))


def test_what_is_not_there_and_what_was_deleted(server: SchemaRegistryServer, client: SchemaRegistryClient) -> None:
    unknown = SchemaId("id", 999_999)
    assert answer(server, SchemaOf(unknown)) is None
    assert answer(server, VersionsOf(unknown)) == frozenset()
    assert answer(server, LatestOf("none-value")) is None
    assert answer(server, SchemaOf(SchemaId("guid", "00000000-0000-4000-8000-000000000000"))) is None
    number = client.register_schema("deleted-value", Schema('"bytes"', "AVRO"))
    client.delete_subject("deleted-value")
    assert answer(server, VersionsOf(SchemaId("id", number))) == frozenset()
    assert answer(server, LatestOf("deleted-value")) is None
    assert answer(server, SchemaOf(SchemaId("id", number))) is not None


def test_a_context_is_a_part_of_the_address(server: SchemaRegistryServer, client: SchemaRegistryClient) -> None:
    number = client.register_schema(":.team:orders-value", Schema('"int"', "AVRO"))
    other = client.register_schema("orders-value", Schema('"float"', "AVRO"))
    registry = open_registry(RegistrySettings("main", (f"{server.url}/contexts/.team",)))
    assert asyncio.run(ask(registry, SchemaOf(SchemaId("id", number)))) is not None
    assert asyncio.run(ask(registry, SchemaOf(SchemaId("id", other)))) is None
    versions: Any = asyncio.run(ask(registry, VersionsOf(SchemaId("id", number))))
    assert versions == {(":.team:orders-value", 1)}
    assert asyncio.run(ask(registry, LatestOf(":.team:orders-value"))) == (1, SchemaId("id", number))


def test_an_outage_of_the_registry_is_not_noticed_by_those_whose_schemas_are_known(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("outage")
    server = SchemaRegistryServer(folder)
    number = SchemaRegistryClient({"url": server.url}).register_schema("a-value", Schema('"string"', "AVRO"))
    registry = opened(server, subjects_ttl_s=0.1, failure_ttl_s=0.2)

    async def scenario() -> None:
        assert await ask(registry, LatestOf("a-value")) == (1, SchemaId("id", number))
        assert await ask(registry, SchemaOf(SchemaId("id", number))) is not None
        server.stop()
        began = time.monotonic()
        while time.monotonic() - began < 2:
            await asyncio.sleep(0.05)
            assert await ask(registry, LatestOf("a-value")) == (1, SchemaId("id", number))
            assert await ask(registry, SchemaOf(SchemaId("id", number))) is not None
        with pytest.raises(RegistryError, match="cannot be reached: Connection refused"):
            await ask(registry, SchemaOf(SchemaId("id", number + 1)))
        again = SchemaRegistryServer(folder, server.port)
        try:
            await asyncio.sleep(0.3)
            assert await ask(registry, SchemaOf(SchemaId("id", number + 1))) is None
        finally:
            again.stop()

    asyncio.run(scenario())
