"""Records whose schema is in a registry. Values are written by fastavro; ids as Confluent's serializers write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.avro_values import ORDER, VALUE, written
from support.schema_registry import RegistryInMemory

from kafka_sidecar.codec.checkpoint import Stop, StoppedError, stoppable
from kafka_sidecar.plugins.settings import FileSettings
from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import TopicMetadata, UnavailableError
from kafka_sidecar.policies.plans import PolicyFailedError, ResolveRequired
from kafka_sidecar.schemas.avro.schema import AvroSchema
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.json_schema import JsonSchema
from kafka_sidecar.schemas.registry import Answer, CompatibleWith, LatestOf, Question, SchemaOf, VersionsOf

GUID = UUID("3f2504e0-4f89-41d3-9a0c-0305e82c3301")
AVRO, JSON, NEWER, BY_GUID = SchemaId("id", 7), SchemaId("id", 8), SchemaId("id", 9), SchemaId("guid", str(GUID))
ORDERS = AvroSchema.parse(json.dumps(ORDER))
ANSWERS: dict[Question, Answer] = {
    SchemaOf(AVRO): ORDERS,
    SchemaOf(BY_GUID): ORDERS,
    SchemaOf(NEWER): ORDERS,
    SchemaOf(JSON): JsonSchema('{"title": "Order", "type": "object", "required": ["id"]}'),
    VersionsOf(AVRO): frozenset({("orders-value", 1), ("shop.Order", 1), ("orders-shop.Order", 4)}),
    VersionsOf(BY_GUID): frozenset({("orders-value", 1)}),
    VersionsOf(NEWER): frozenset({("orders-value", 2), ("orders-key", 1)}),
    VersionsOf(JSON): frozenset({("refunds-value", 1), ("Order", 1)}),
    LatestOf("orders-value"): (2, NEWER),
    CompatibleWith("orders-value", AVRO): True,
    CompatibleWith("orders-value", NEWER): False,
}
GOOD = written(ORDER, VALUE)
NEEDS = "Topic orders requires record values "
WITHOUT_ID = (NEEDS + "to have the id of a schema", "no_schema_id")
OF_ANOTHER = NEEDS + "to have a schema of the subject orders-value, which id {} is not"


def framed(number: int, data: bytes = GOOD) -> bytes:
    return b"\0" + number.to_bytes(4) + data


@pytest.fixture
def registry() -> RegistryInMemory:
    return RegistryInMemory(ANSWERS)


Validate = Callable[..., list[tuple[int, str, str]]]


@pytest.fixture
def plan_of(registry: RegistryInMemory) -> Callable[..., Any]:
    def of(argument: str = "", **settings: Any) -> Any:
        given = FileSettings({"registry": "main", **settings}, Path(), {"main": registry})
        catalog = PolicyCatalog({"it": PolicySettings("schema", settings=given)})
        return catalog.plan(f'it:"{argument}"' if argument else "it")

    return of


@pytest.fixture
def validate(plan_of: Callable[..., Any], batch: Callable[..., Any], orders: TopicMetadata) -> Validate:
    def of(*records: dict[str, Any], argument: str = "", **settings: Any) -> list[tuple[int, str, str]]:
        found = plan_of(argument, **settings).validate(orders, batch(*records), 1 << 20)
        return [(one.index, one.message, one.reason) for one in found]

    return of


def value(data: bytes | None, **headers: bytes) -> dict[str, Any]:
    return {"value": data, "headers": list(headers.items())}


def test_a_record_of_the_topics_schema_is_accepted_in_every_form_that_is(validate: Validate) -> None:
    in_header = b"\1" + GUID.bytes
    assert validate(
        value(framed(7)), value(GOOD, __value_schema_id=in_header), value(GOOD, __value_schema_id=b"\0\0\0\0\7"),
        value(in_header + GOOD), value(None),
    ) == []  # fmt: skip


def test_each_depth_requires_what_those_before_it_do(validate: Validate) -> None:
    records = [value(GOOD[:-1]), value(framed(99)), value(framed(8, b"{}")), value(framed(7, GOOD[:-1]))]
    no_id = (0, *WITHOUT_ID)
    unknown = (1, NEEDS + "to have a schema that the registry knows, which id 99 is not", "unknown_schema")
    another = (2, OF_ANOTHER.format(8), "wrong_subject")
    unlike = (
        3,
        f"{NEEDS}to be of the schema shop.Order: $.items[1]: ends too early at byte {len(GOOD) - 1}",
        "not_of_schema",
    )
    expected = [no_id, unknown, another, unlike]
    for count, depth in enumerate(["id", "known", "subject", "conforms"], 1):
        assert validate(*records, require=depth) == expected[:count]


def test_a_batch_of_several_schemas_is_validated_by_each(validate: Validate) -> None:
    records = [
        value(framed(7)),
        value(framed(8, b"{}")),
        value(framed(8, b'{"id": 1}')),
        value(None),
        value(framed(7, b"")),
    ]
    found = validate(*records, subject="record_name")
    assert [(index, reason) for index, _, reason in found] == [(1, "not_of_schema"), (4, "not_of_schema")]
    assert found[0][1] == NEEDS + "to be of the schema Order: $: required id"


@pytest.mark.parametrize(
    ("strategy", "number", "accepted"),
    [
        ("topic_name", 7, True), ("topic_name", 8, False),
        ("record_name", 7, True), ("record_name", 8, True), ("record_name", 9, False),
        ("topic_record_name", 7, True), ("topic_record_name", 8, False),
    ],
)  # fmt: skip
def test_strategies_of_subjects(validate: Validate, strategy: str, number: int, accepted: bool) -> None:
    found = validate(value(framed(number)), subject=strategy, require="subject")
    assert [reason for *_, reason in found] == ([] if accepted else ["wrong_subject"])
    by_argument = validate(value(framed(number)), argument=f"value={strategy}", require="subject")
    assert by_argument == found


def test_the_newest_version_or_a_compatible_one_can_be_required(validate: Validate) -> None:
    old, newest = value(framed(7)), value(framed(9))
    subject = "of the subject orders-value, which id {} is not"
    assert validate(old, newest, version="latest") == [
        (0, f"{NEEDS}to have the newest schema {subject.format(7)}", "not_latest"),
    ]
    assert validate(old, newest, version="compatible") == [
        (1, f"{NEEDS}to have a schema compatible with the newest of orders-value, which id 9 is not", "not_compatible"),
    ]


async def test_what_was_registered_since_is_asked_for_again_before_a_record_is_rejected(
    plan_of: Callable[..., Any], batch: Callable[..., Any], orders: TopicMetadata, registry: RegistryInMemory
) -> None:
    registry.is_cold = True
    plan = plan_of(version="latest")

    async def reasons(number: int) -> list[str]:
        while True:
            try:
                return [one.reason for one in plan.validate(orders, batch(value(framed(number))), 1 << 20)]
            except ResolveRequired as error:
                await error.rule.policy.resolve(error.key)

    assert await reasons(9) == []
    registry.newer[VersionsOf(AVRO)] = frozenset({("orders-value", 3)})
    registry.newer[LatestOf("orders-value")] = (3, AVRO)
    assert await reasons(7) == []
    assert await reasons(9) == ["not_latest"]


def test_a_batch_in_which_each_record_has_another_id_can_be_stopped(
    plan_of: Callable[..., Any], batch: Callable[..., Any], orders: TopicMetadata
) -> None:
    stop = Stop()
    stop.is_set = True
    with stoppable(stop), pytest.raises(StoppedError):
        plan_of(require="known").validate(orders, batch(value(framed(7)), value(framed(8))), 1 << 20)


def test_keys_and_both_parts(validate: Validate) -> None:
    pair = {"key": framed(9), "value": framed(7)}
    assert validate(pair, part="both") == []
    assert validate(pair, {"key": None, "value": framed(7)}, part="key", allow_null=False) == [
        (1, "Topic orders requires record keys not to be null", "null_key"),
    ]
    swapped = {"key": framed(7), "value": framed(7)}
    assert [reason for *_, reason in validate(swapped, part="both")] == ["wrong_subject"]
    assert validate(swapped, argument="key=record_name", part="both") == []


def test_data_of_the_right_id_and_another_schema_is_rejected_byte_by_byte(validate: Validate) -> None:
    for at in range(len(GOOD)):
        cut = value(framed(7, GOOD[:at]))
        assert [reason for *_, reason in validate(cut)] == ["not_of_schema"]


def test_a_batch_that_names_too_many_schemas_asks_for_a_limited_number(
    validate: Validate, registry: RegistryInMemory
) -> None:
    found = validate(*(value(framed(number + 1000)) for number in range(150)))
    assert [reason for *_, reason in found] == ["unknown_schema"] * 100 + ["too_many_schemas"] * 50
    assert len({question for question in registry.asked if isinstance(question, SchemaOf)}) == 100


async def test_what_is_not_known_is_fetched_at_once(
    plan_of: Callable[..., Any], batch: Callable[..., Any], orders: TopicMetadata, registry: RegistryInMemory
) -> None:
    registry.is_cold = True
    plan = plan_of(version="latest")
    rounds = 0
    while True:
        try:
            found = plan.validate(orders, batch(value(framed(9)), value(framed(7))), 1 << 20)
            break
        except ResolveRequired as error:
            rounds += 1
            await error.rule.policy.resolve(error.key)
    assert [one.reason for one in found] == ["not_latest"]
    assert rounds == 2


def test_while_the_registry_cannot_be_asked_producers_try_again_or_all_is_accepted(
    plan_of: Callable[..., Any], validate: Validate, batch: Callable[..., Any], orders: TopicMetadata,
    registry: RegistryInMemory,
) -> None:  # fmt: skip
    registry.failure = "schema registry main cannot be reached"
    with pytest.raises(PolicyFailedError) as failure:
        plan_of().validate(orders, batch(value(framed(7))), 1 << 20)
    assert isinstance(failure.value.error, UnavailableError)
    assert str(failure.value.error) == "schema registry main cannot be reached"
    assert validate(value(framed(7)), value(b"x"), on_registry_error="allow") == [(1, *WITHOUT_ID)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"registry": "other"},
            "registry: there is no schema registry 'other': add it under schema_registries: (there: main)",
        ),
        ({"registry": None}, "needs a registry: name one of schema_registries: under registry, or set require: id"),
        (
            {"forms": ["confluent", "apicurio"]},
            "forms: confluent and apicurio begin with the same byte: accept one of them",
        ),
        ({"forms": ["glue"]}, "forms: the registry of AWS Glue is not asked: set require: id, or remove glue"),
        ({"forms": []}, "forms: write at least 1"),
    ],
)  # fmt: skip
def test_wrong_settings_name_the_remedy(plan_of: Callable[..., Any], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^policy it: ") as error:
        plan_of(**settings)
    assert str(error.value) == f"policy it: {message}"


def test_an_argument_that_names_no_part_is_a_mistake(plan_of: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"write value=STRATEGY, key=STRATEGY or both; one of topic_name"):
        plan_of("values=topic_name")


def test_ids_alone_need_no_registry(batch: Callable[..., Any], orders: TopicMetadata) -> None:
    settings = {"require": "id", "forms": ["glue", "confluent_header"]}
    plan = PolicyCatalog({"it": PolicySettings("schema", settings=settings)}).plan("it")
    records = [value(b"\3\0" + GUID.bytes), value(b"", __value_schema_id=b"\1" + GUID.bytes), value(b"\0\0\0\0\7")]
    assert [one.index for one in plan.validate(orders, batch(*records), 1 << 20)] == [2]


@pytest.mark.parametrize(
    ("argument", "settings", "expected"),
    [
        ("", {}, ["orders-value"]),
        ("", {"part": "both"}, ["orders-key", "orders-value"]),
        ("", {"subject": "record_name"}, ["(name of the record)"]),
        ("value=topic_record_name key=topic_name", {}, ["orders-(name of the record)", "orders-key"]),
        ("", {"require": "known"}, []),
    ],
)
def test_a_policy_says_which_subjects_a_topic_s_schemas_have_to_be_of(
    argument: str, settings: dict[str, Any], expected: list[str], plan_of: Callable[..., Any]
) -> None:
    (rule,) = plan_of(argument, **settings).rules
    assert rule.policy.subjects("orders", rule.text) == expected
