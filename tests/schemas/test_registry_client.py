"""What is made of a registry's responses, honest and hostile, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.http_registry import (
    GUID,
    ORDER,
    FakeRegistry,
    answering,
    closing,
    cut_off,
    dripping,
    dripping_headers,
    failing,
    huge,
    no_http,
    redirecting,
    running,
    serve,
    silent,
)
from support.in_process import until

from kafka_sidecar.schemas import registry_client
from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.json_schema import JsonSchema
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
from kafka_sidecar.schemas.registry_client import MAX_REFERENCE_DEPTH, MAX_REFERENCES, Sources

FIRST = SchemaOf(SchemaId("id", 1))


async def ask(registry: Registry, question: Question) -> Answer:
    try:
        return registry.get(question)
    except NotFetchedError:
        await registry.fetch(question)
        return registry.get(question)


def answer(fake: FakeRegistry, question: Question, **settings: Any) -> Any:
    return asyncio.run(ask(open_registry(fake.settings(**settings)), question))


@pytest.fixture(name="fake")
def _fake() -> Iterator[FakeRegistry]:
    with running() as fake:
        yield fake


def test_a_schema_is_avro_if_nothing_else_is_said(fake: FakeRegistry) -> None:
    fake.add("orders-value", ORDER)
    found = answer(fake, FIRST)
    assert isinstance(found, AvroSchema)
    assert found.name == "Order"
    assert fake.requests == ["/schemas/ids/1"]


def test_a_json_schema_has_the_documents_that_it_refers_to(fake: FakeRegistry) -> None:
    fake.add("price", '{"type": "number"}', "JSON")
    fake.add("orders-value", '{"$id": "http://acme/order.json", "properties": {"a": {"$ref": "price.json"}}}', "JSON",
        (("price.json", "price", 1),))  # fmt: skip
    found = answer(fake, SchemaOf(SchemaId("id", 2)))
    assert isinstance(found, JsonSchema)
    assert found.find_fault(b'{"a": 1}', 0, 8) is None
    assert found.find_fault(b'{"a":"1"}', 0, 9) is not None
    assert "/subjects/price/versions/1?deleted=true" in fake.requests


def test_references_are_fetched_with_their_own_and_each_once(fake: FakeRegistry) -> None:
    fake.add("currency", '{"type": "enum", "name": "Currency", "symbols": ["EUR"]}')
    price = '{"type": "record", "name": "Price", "fields": [{"name": "c", "type": "Currency"}]}'
    fake.add("price", price, references=(("Currency", "currency", 1),))
    fields = '[{"name": "p", "type": "Price"}, {"name": "c", "type": "Currency"}]'
    order = f'{{"type": "record", "name": "Order", "fields": {fields}}}'
    fake.add("orders/value", order, references=(("Price", "price", 1), ("Currency", "currency", 1)))
    found = answer(fake, SchemaOf(SchemaId("id", 3)))
    assert found.find_fault(b"\0\0", 0, 2, 10) is None
    assert fake.count("/subjects/currency") == 1


def test_a_guid_is_looked_up_as_one(fake: FakeRegistry) -> None:
    fake.guids[GUID] = fake.add("orders-value", ORDER)
    assert answer(fake, SchemaOf(SchemaId("guid", GUID))).name == "Order"
    assert answer(fake, VersionsOf(SchemaId("guid", GUID))) == {("orders-value", 1)}
    assert f"/schemas/guids/{GUID}" in fake.requests


def test_the_four_questions(fake: FakeRegistry) -> None:
    number = fake.add("orders-value", ORDER)
    fake.add("orders-value", '"string"')
    fake.subjects[":.team:orders-value"] = {4: number}
    one = SchemaId("id", number)
    assert answer(fake, VersionsOf(one)) == {("orders-value", 1), (":.team:orders-value", 4)}
    assert answer(fake, LatestOf("orders-value")) == (2, SchemaId("id", 2))
    assert answer(fake, CompatibleWith("orders-value", one)) is True
    assert fake.bodies == [{"schema": ORDER}]
    fake.compatible = False
    assert answer(fake, CompatibleWith("orders-value", one), subjects_ttl_s=1) is False


def test_compatibility_is_asked_with_type_and_references(fake: FakeRegistry) -> None:
    fake.add("price", '{"type": "number"}', "JSON")
    fake.add("orders-value", '{"$ref": "p"}', "JSON", (("p", "price", 1),))
    assert answer(fake, CompatibleWith("orders-value", SchemaId("id", 2))) is True
    reference = {"name": "p", "subject": "price", "version": 1}
    assert fake.bodies == [{"schema": '{"$ref": "p"}', "schemaType": "JSON", "references": [reference]}]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (FIRST, None),
        (SchemaOf(SchemaId("guid", GUID)), None),
        (VersionsOf(SchemaId("id", 1)), frozenset()),
        (VersionsOf(SchemaId("guid", GUID)), frozenset()),
        (LatestOf("orders-value"), None),
        (CompatibleWith("orders-value", SchemaId("id", 1)), False),
    ],
    ids=str,
)
def test_what_is_not_there(fake: FakeRegistry, question: Question, expected: Answer) -> None:
    assert answer(fake, question) == expected


def test_there_is_nothing_to_be_compatible_with(fake: FakeRegistry) -> None:
    fake.add("orders-value", ORDER)
    assert answer(fake, CompatibleWith("new", SchemaId("id", 1))) is False


def test_ids_and_subjects_belong_to_the_context(fake: FakeRegistry) -> None:
    fake.add(":.team:price", '{"type": "number"}', "JSON")
    fake.add(":.team:orders-value", '{"$ref": "p"}', "JSON", (("p", "price", 1),))
    one = SchemaId("id", 2)
    answer(fake, SchemaOf(one), context=".team")
    assert answer(fake, VersionsOf(one), context=".team") == {("orders-value", 1)}
    assert answer(fake, LatestOf("orders-value"), context=".team") == (1, one)
    assert answer(fake, LatestOf(":.team:price"), context=".team") == (1, SchemaId("id", 1))
    assert fake.requests == [
        "/schemas/ids/2?subject=%3A.team%3A",
        "/subjects/%3A.team%3Aprice/versions/1?deleted=true",
        "/schemas/ids/2/versions?subject=%3A.team%3A",
        "/subjects/%3A.team%3Aorders-value/versions/latest",
        "/subjects/%3A.team%3Aprice/versions/latest",
    ]


def test_an_id_may_have_a_context_of_its_own(fake: FakeRegistry) -> None:
    fake.add(":.team:price", '{"type": "number"}', "JSON")
    fake.add(":.team:orders-value", '{"$ref": "p"}', "JSON", (("p", "price", 1),))
    one = SchemaId("id", 2, ".team")
    for context in (None, ".other"):
        assert answer(fake, SchemaOf(one), context=context) is not None
        assert answer(fake, VersionsOf(one), context=context) == {(":.team:orders-value", 1)}
    assert {path for path in fake.requests if "ids" in path} == {
        "/schemas/ids/2?subject=%3A.team%3A", "/schemas/ids/2/versions?subject=%3A.team%3A",
    }  # fmt: skip


def test_a_guid_is_looked_for_in_all_contexts(fake: FakeRegistry) -> None:
    fake.add("a", ORDER)
    fake.answers[f"/schemas/guids/{GUID}/ids"] = 200, [{"context": ".", "id": 1}, {"context": ".team", "id": 1}]
    assert answer(fake, VersionsOf(SchemaId("guid", GUID))) == {("a", 1)}
    assert fake.requests[1:] == ["/schemas/ids/1/versions", "/schemas/ids/1/versions?subject=%3A.team%3A"]


@pytest.mark.parametrize("subject", ["../../admin", "a/b?c=d#e", "ü", "a b", "%2e%2e", "a\r\nX: y"])
def test_a_subject_is_one_part_of_the_path(fake: FakeRegistry, subject: str) -> None:
    number = fake.add(subject, ORDER)
    assert answer(fake, LatestOf(subject)) == (1, SchemaId("id", number))


HOSTILE: list[tuple[Callable[[Any], None], str]] = [
    (silent, "has not responded within 0.5 s"),
    (dripping, "has not responded within 0.5 s"),
    (dripping_headers, "has not responded within 0.5 s"),
    (closing, "cannot be reached: it closes the connection"),
    (cut_off, "does not respond in HTTP: IncompleteRead"),
    (huge, "responds with more than 100000 bytes"),
    (redirecting, "responds with 302: redirects are not followed"),
    (no_http, "does not respond in HTTP"),
    (failing(401), "responds with 401: see username, token_file or token_endpoint"),
    (failing(403, {"error_code": 40301}), "responds to /schemas/ids/1 with 403, error code 40301"),
    (failing(404, b"<html>"), "with 404 and is no schema registry there: see urls"),
    (failing(404, {"error_code": 404}), "with 404, error code 404"),
    (failing(404, {"error_code": [40403]}), "with 404, error code"),
    (failing(422, {"error_code": 42201, "message": "a-secret"}), "with 422, error code 42201"),
    (failing(429), "responds with 429"),
    (failing(500, b"a-secret"), "responds with 500"),
    (failing(503), "responds with 503"),
    (failing(204), "responds to /schemas/ids/1 with 204"),
    (answering(b""), "responds with something that is not JSON: see urls"),
    (answering(b"<html>a-secret</html>"), "is not JSON: see urls"),
    (answering(b"[" * 50_000), "is not JSON: see urls"),
    (answering([]), "the answer to /schemas/ids/1 is no object"),
    (answering(None), "is no object"),
    (answering({}), "an answer has no text as schema"),
    (answering({"schema": 7}), "an answer has no text as schema"),
    (answering({"schema": None}), "an answer has no text as schema"),
    (answering({"schema": '"string"', "schemaType": []}), "an answer has no text as schemaType"),
    (answering({"schema": "x", "schemaType": "THRIFT"}), "id 1 is of the schema type 'THRIFT'; supported are AVRO"),
    (answering({"schema": "{"}), "id 1 cannot be used: "),
    (answering({"schema": "[" * 20_000}), "id 1 cannot be used: "),
    (answering({"schema": '{"type": 7}', "schemaType": "JSON"}), "id 1 cannot be used: "),
    (answering({"schema": '"string"', "references": 7}), "references are no list"),
    (answering({"schema": '"string"', "references": [7]}), "a reference of a schema is no object"),
    (answering({"schema": '"string"', "references": [{"name": "a", "subject": "s", "version": "1"}]}), "no number as"),
    (answering({"schema": '"string"', "references": [{"name": "a", "subject": "s", "version": True}]}), "no number as"),
    (answering({"schema": '"string"', "references": [{"name": "a", "subject": "s", "version": 0}]}), "has the version"),
    (answering({"schema": '"string"', "references": [{"name": [], "subject": "s", "version": 1}]}), "no text as name"),
]  # fmt: skip


@pytest.mark.parametrize(("behaviour", "reason"), HOSTILE, ids=[reason for _, reason in HOSTILE])
def test_a_wrong_response_is_one_clear_line_in_time(
    fake: FakeRegistry, behaviour: Callable[[Any], None], reason: str
) -> None:
    fake.behaviour = behaviour
    with pytest.raises(RegistryError) as error:
        answer(fake, FIRST, max_bytes=100_000, timeout_s=0.5)
    text = str(error.value)
    assert text.startswith("schema registry main: ")
    assert reason in text
    assert "a-secret" not in text
    assert len(text) < 400
    assert len(text.splitlines()) == 1
    assert len(fake.requests) <= 2  # where it closes the connection, once more on a new one


WRONG_ANSWERS: list[tuple[Question, object, str]] = [
    (LatestOf("s"), {"version": "1", "id": 1}, "no number as version"),
    (LatestOf("s"), {"version": 1}, "no number as id"),
    (LatestOf("s"), {"version": -1, "id": 1}, "has the version -1"),
    (VersionsOf(SchemaId("id", 1)), {"subject": "s"}, "is no list"),
    (VersionsOf(SchemaId("id", 1)), [{"subject": 7, "version": 1}], "no text as subject"),
    (VersionsOf(SchemaId("id", 1)), ["s"], "is no object"),
    (VersionsOf(SchemaId("id", 1)), [{"subject": "s", "version": 1}] * 10_001, "is no list of up to 10000"),
    (CompatibleWith("s", SchemaId("id", 1)), {"is_compatible": "true"}, "has no is_compatible"),
]


@pytest.mark.parametrize(("question", "body", "reason"), WRONG_ANSWERS, ids=[reason for *_, reason in WRONG_ANSWERS])
def test_answers_of_wrong_types(fake: FakeRegistry, question: Question, body: object, reason: str) -> None:
    fake.behaviour = answering(body)
    with pytest.raises(RegistryError, match=reason):
        answer(fake, question)


def test_references_in_a_circle_are_an_error(fake: FakeRegistry) -> None:
    fake.add("a", '"string"', references=(("b", "b", 1),))
    fake.add("b", '"string"', references=(("c", "a", 1),))
    with pytest.raises(RegistryError, match="schemas refer to each other in a circle: 'b', version 1"):
        answer(fake, FIRST)


def test_a_schema_may_not_refer_to_itself(fake: FakeRegistry) -> None:
    fake.add("a", '"string"', references=(("a", "a", 1),))
    with pytest.raises(RegistryError, match="circle"):
        answer(fake, FIRST)


def test_references_have_a_number_and_a_depth(fake: FakeRegistry) -> None:
    many = tuple((f"n{number}", "s", 1) for number in range(MAX_REFERENCES + 1))
    fake.add("s", '"string"')
    fake.add("a", '"string"', references=many)
    with pytest.raises(RegistryError, match=f"refers to more than {MAX_REFERENCES} others"):
        answer(fake, SchemaOf(SchemaId("id", 2)))
    for level in range(MAX_REFERENCE_DEPTH + 2):
        fake.add(f"d{level}", '"string"', references=((f"d{level + 1}", f"d{level + 1}", 1),))
    with pytest.raises(RegistryError, match="nested deeper than"):
        answer(fake, SchemaOf(SchemaId("id", 3)))


def test_references_have_a_size_together(fake: FakeRegistry) -> None:
    fake.add("s", '"' + "a" * 60_000 + '"')
    fake.add("a", '"string"', references=(("x", "s", 1), ("y", "s", 1)))
    with pytest.raises(RegistryError, match="more than 100000 bytes with what it refers to"):
        answer(fake, SchemaOf(SchemaId("id", 2)), max_bytes=100_000)


def test_a_schema_with_many_references_comes_with_a_later_attempt(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_sidecar.schemas.registry_client.MAX_QUESTION_S", 0.6)
    fake.delay_s = 0.1
    for number in range(8):
        fake.add(f"s{number}", f'{{"type": "fixed", "name": "F{number}", "size": 1}}')
    fake.add("a", '"string"', references=tuple((f"F{number}", f"s{number}", 1) for number in range(8)))

    async def scenario() -> None:
        registry = open_registry(fake.settings(failure_ttl_s=0.2))
        with pytest.raises(RegistryError, match="has not responded"):
            await ask(registry, SchemaOf(SchemaId("id", 9)))
        for _ in range(100):
            await asyncio.sleep(0.02)
            with suppress(RegistryError, NotFetchedError):
                assert await ask(registry, SchemaOf(SchemaId("id", 9))) is not None
                return
        raise AssertionError("it never comes")

    asyncio.run(scenario())


def test_references_share_the_time_of_the_question(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_sidecar.schemas.registry_client.MAX_QUESTION_S", 0.5)
    fake.delay_s = 0.1
    for level in range(20):
        fake.add(f"d{level}", '"string"', references=((f"d{level + 1}", f"d{level + 1}", 1),))
    with pytest.raises(RegistryError, match="has not responded"):
        answer(fake, FIRST)
    assert len(fake.requests) <= 6  # of which each takes a fifth of the time


def test_a_reference_that_is_not_there_is_an_error(fake: FakeRegistry) -> None:
    fake.add("a", '"string"', references=(("b", "gone", 2),))
    with pytest.raises(RegistryError, match="refers to 'gone', version 2, which is not there"):
        answer(fake, FIRST)


def test_a_deleted_schema_is_gone_once_its_time_is_over(fake: FakeRegistry) -> None:
    fake.add("a", ORDER)

    async def scenario() -> None:
        registry = open_registry(fake.settings(subjects_ttl_s=0.05))
        assert await ask(registry, LatestOf("a")) == (1, SchemaId("id", 1))
        assert await ask(registry, FIRST) is not None
        fake.subjects.clear()
        fake.schemas.clear()
        await asyncio.sleep(0.1)
        assert await ask(registry, LatestOf("a")) is None
        assert await ask(registry, FIRST) is not None  # records that have its id are still read

    asyncio.run(scenario())


def test_200_who_wait_make_one_request_and_a_few_are_under_way_at_once(fake: FakeRegistry) -> None:
    fake.delay_s = 0.05
    for number in range(20):
        fake.add(f"s{number}", ORDER)

    async def scenario() -> None:
        registry = open_registry(fake.settings())
        await asyncio.gather(*(ask(registry, FIRST) for _ in range(200)))
        assert fake.requests == ["/schemas/ids/1"]
        await asyncio.gather(*(ask(registry, SchemaOf(SchemaId("id", number))) for number in range(2, 21)))

    asyncio.run(scenario())
    assert len(fake.requests) == 20
    assert fake.most_at_once <= 4


def test_the_loop_is_not_blocked_by_a_slow_registry(fake: FakeRegistry) -> None:
    fake.behaviour = silent

    async def scenario() -> None:
        registry = open_registry(fake.settings(timeout_s=1.0))
        waiting = [asyncio.ensure_future(registry.fetch(SchemaOf(SchemaId("id", number)))) for number in range(50)]
        await until(lambda: fake.requests)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(one.done() for one in waiting), "turns of the loop take no time that they wait"
        await asyncio.gather(*waiting)

    asyncio.run(scenario())


def test_several_addresses_are_tried_and_the_one_that_answered_is_the_first(fake: FakeRegistry) -> None:
    for number in range(3):
        fake.add(f"s{number}", ORDER)
    with running() as broken:
        broken.behaviour = failing(503)
        urls = ("http://127.0.0.1:1", broken.url, fake.url)
        registry = open_registry(fake.settings(urls=urls))

        async def scenario() -> None:
            for number in range(1, 4):
                assert await ask(registry, SchemaOf(SchemaId("id", number))) is not None

        asyncio.run(scenario())
    assert len(broken.requests) == 1
    assert len(fake.requests) == 3


def test_a_second_address_takes_over_when_the_first_goes(fake: FakeRegistry) -> None:
    fake.add("s", ORDER)
    first = FakeRegistry()
    first.add("s", ORDER)
    first.add("s", ORDER)
    server = serve(first)
    registry = open_registry(fake.settings(urls=(first.url, fake.url)))

    async def scenario() -> None:
        assert await ask(registry, SchemaOf(SchemaId("id", 2))) is not None
        server.shutdown()
        server.server_close()
        first.behaviour = closing
        assert await ask(registry, FIRST) is not None

    asyncio.run(scenario())
    assert registry.stats.failure is None


def test_a_restart_in_an_outage_has_an_answer_once_it_is_over(fake: FakeRegistry) -> None:
    """Nothing is known then: questions fail quickly, and work as soon as the registry is back."""
    fake.add("s", ORDER)
    fake.behaviour = failing(503)

    async def scenario() -> None:
        registry = open_registry(fake.settings(failure_ttl_s=0.2))
        for _ in range(10):
            with pytest.raises(RegistryError, match="responds with 503"):
                await ask(registry, FIRST)
        assert len(fake.requests) <= 2
        fake.behaviour = None
        await asyncio.sleep(0.25)
        assert await ask(registry, FIRST) is not None

    asyncio.run(scenario())


def test_user_and_password_are_sent_and_a_new_password_is_used(fake: FakeRegistry, tmp_path: Path) -> None:
    fake.add("s", ORDER)
    fake.add("s", ORDER)
    secret = tmp_path / "password"
    secret.write_text("open sesame\n")
    fake.authorization = "Basic YWxpY2U6b3BlbiBzZXNhbWU="  # alice:open sesame
    registry = open_registry(fake.settings(login=(("username", "alice"), ("password_file", str(secret)))))
    assert asyncio.run(ask(registry, FIRST)) is not None
    secret.write_text("other")
    with pytest.raises(RegistryError, match="responds with 401: see username") as error:
        asyncio.run(ask(registry, SchemaOf(SchemaId("id", 2))))
    assert "sesame" not in str(error.value)
    assert "other" not in str(error.value)


def test_further_headers_are_sent(fake: FakeRegistry) -> None:
    fake.add("s", ORDER)
    answer(fake, FIRST, headers=(("target-sr-cluster", "lsrc-1"),))
    assert fake.headers[0]["target-sr-cluster"] == "lsrc-1"
    assert fake.headers[0]["User-Agent"].startswith("kafka-sidecar/")


def test_no_proxy_of_the_environment_is_used(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    fake.add("s", ORDER)
    assert answer(fake, FIRST) is not None


def test_requests_are_counted_by_outcome(fake: FakeRegistry) -> None:
    fake.add("s", ORDER)
    registry = open_registry(fake.settings(timeout_s=1.0))

    async def scenario() -> None:
        await ask(registry, FIRST)
        await ask(registry, LatestOf("none"))
        fake.behaviour = failing(403, {"error_code": 40301})
        await registry.fetch(LatestOf("secret"))
        fake.behaviour = failing(500)
        await registry.fetch(LatestOf("other"))
        fake.behaviour = silent
        await registry.fetch(LatestOf("third"))

    asyncio.run(scenario())
    assert registry.stats.requests == {"ok": 1, "missing": 1, "rejected": 1, "unavailable": 1, "timeout": 1}
    assert sum(registry.stats.durations) == 5
    assert registry.cached[0] == 1


def test_an_id_of_another_kind_of_registry_is_an_error() -> None:
    registry = open_registry(RegistrySettings("main", ("http://127.0.0.1:1",)))
    with pytest.raises(RegistryError, match="its kind is confluent, which has no content id"):
        asyncio.run(ask(registry, SchemaOf(SchemaId("content_id", 1))))


@pytest.fixture(name="apicurio")
def _apicurio(fake: FakeRegistry) -> FakeRegistry:
    api = "/apis/registry/v3"
    price = {"groupId": None, "artifactId": "price", "version": "1", "name": "Price"}
    versions = [
        {"artifactId": "orders", "version": "7", "artifactType": "AVRO"},
        {"artifactId": "o2", "version": "1.0"},
    ]
    order = {"type": "record", "name": "Order", "fields": [{"name": "p", "type": "Price"}]}
    fake.answers = {
        f"{api}/ids/contentIds/5": (200, order),
        f"{api}/ids/globalIds/6": (200, order),
        f"{api}/ids/contentIds/5/references": (200, [price]),
        f"{api}/ids/globalIds/6/references": (200, [price]),
        f"{api}/search/versions": (200, {"count": 1, "versions": versions}),
        f"{api}/groups/default/artifacts/price/versions/1/content": (
            200, {"type": "record", "name": "Price", "fields": [{"name": "c", "type": "int"}]},
        ),
        f"{api}/groups/default/artifacts/price/versions/1/references": (200, []),
        f"{api}/ids/contentIds/9": (404, {"name": "ContentNotFoundException", "status": 404}),
    }  # fmt: skip
    return fake


@pytest.mark.parametrize("schema_id", [SchemaId("content_id", 5), SchemaId("id", 5), SchemaId("global_id", 6)], ids=str)
def test_apicurio_has_content_ids_and_global_ids(apicurio: FakeRegistry, schema_id: SchemaId) -> None:
    found = answer(apicurio, SchemaOf(schema_id), kind="apicurio")
    assert found.name == "Order"
    assert found.find_fault(b"\2", 0, 1, 10) is None
    assert answer(apicurio, VersionsOf(schema_id), kind="apicurio") == {("orders", 7), ("o2", 1)}
    kind = "globalId=6" if schema_id.kind == "global_id" else "contentId=5"
    assert f"/apis/registry/v3/search/versions?{kind}&limit=500" in apicurio.requests


def test_what_apicurio_does_not_have(apicurio: FakeRegistry) -> None:
    assert answer(apicurio, SchemaOf(SchemaId("content_id", 9)), kind="apicurio") is None
    with pytest.raises(RegistryError, match="with 404: this address is not that of an Apicurio Registry 3"):
        answer(apicurio, SchemaOf(SchemaId("content_id", 10)), kind="apicurio")
    with pytest.raises(RegistryError, match="set kind to confluent and urls to its /apis/ccompat/v7"):
        answer(apicurio, LatestOf("orders"), kind="apicurio")
    with pytest.raises(RegistryError, match="which has no guid"):
        answer(apicurio, SchemaOf(SchemaId("guid", GUID)), kind="apicurio")


def test_apicurios_references_in_a_circle_are_an_error(apicurio: FakeRegistry) -> None:
    again = {"groupId": "default", "artifactId": "price", "version": "1", "name": "Other"}
    apicurio.answers["/apis/registry/v3/groups/default/artifacts/price/versions/1/references"] = (200, [again])
    with pytest.raises(RegistryError, match="circle"):
        answer(apicurio, SchemaOf(SchemaId("content_id", 5)), kind="apicurio")


def test_a_protobuf_schema_is_asked_for_as_a_descriptor(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that does not know that has the text again."""
    parsed: list[tuple[str, dict[str, str]]] = []

    def parse(sources: Sources) -> Any:
        parsed.append((sources.text, dict(sources.references)))
        return object()

    monkeypatch.setattr(registry_client, "LANGUAGES", {"PROTOBUF": parse})
    fake.add("price", 'syntax = "proto3"; message Price {}', "PROTOBUF")
    fake.add("orders-value", 'syntax = "proto3"; import "price.proto";', "PROTOBUF", (("price.proto", "price", 1),))
    fake.descriptors = {1: "CgU=", 2: "CgY="}
    for knows, texts in ((False, ("syntax", "syntax")), (True, ("CgY=", "CgU="))):
        fake.knows_formats = knows
        answer(fake, SchemaOf(SchemaId("id", 2)), missing_ttl_s=1 + knows)
        text, references = parsed[-1]
        assert text.startswith(texts[0])
        assert references["price.proto"].startswith(texts[1])
    assert "/schemas/ids/2?format=serialized" in fake.requests
    assert "/subjects/price/versions/1?deleted=true&format=serialized" in fake.requests


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("/ids/contentIds/5/references", {"a": 1}, "references are no list"),
        ("/ids/contentIds/5/references", ["a"], "references are no list"),
        ("/search/versions", {"versions": "x"}, "no list of versions"),
        ("/search/versions", {"versions": [{"artifactId": "a", "artifactType": "XSD"}]}, "is of the schema type 'XSD'"),
        ("/ids/contentIds/5", b"\xff", "not text in UTF-8"),
        ("/groups/default/artifacts/price/versions/1/content", b"\xff", "not text in UTF-8"),
    ],
)
def test_answers_of_apicurio_of_wrong_types(apicurio: FakeRegistry, path: str, body: Any, problem: str) -> None:
    apicurio.answers[f"/apis/registry/v3{path}"] = 200, body
    with pytest.raises(RegistryError, match=problem):
        answer(apicurio, SchemaOf(SchemaId("content_id", 5)), kind="apicurio")


def test_apicurios_references_have_a_size_together_and_have_to_be_there(apicurio: FakeRegistry) -> None:
    api, content = "/apis/registry/v3", "/groups/default/artifacts/price/versions/1/content"
    many = [{"artifactId": "price", "version": "1", "name": f"n{number}"} for number in range(5)]
    apicurio.answers[f"{api}/ids/contentIds/5/references"] = 200, many
    apicurio.answers[f"{api}{content}"] = 200, b'"' + b"x" * 4000 + b'"'
    with pytest.raises(RegistryError, match="more than 10000 bytes with what it refers to"):
        answer(apicurio, SchemaOf(SchemaId("content_id", 5)), kind="apicurio", max_bytes=10_000)
    apicurio.answers[f"{api}{content}"] = 404, {"name": "VersionNotFoundException"}
    with pytest.raises(RegistryError, match=r"refers to .*, which is not there"):
        answer(apicurio, SchemaOf(SchemaId("content_id", 5)), kind="apicurio")
