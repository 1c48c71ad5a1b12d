"""Records that are values of an Avro schema; the encoding itself is tested in tests/schemas/avro."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.avro_values import ORDER, VALUE, written

from kafka_sidecar.policies.catalog import PolicyCatalog, PolicySettings
from kafka_sidecar.policies.contract import Hints

Refusals = Callable[..., list[tuple[int, str, str]]]
UNLIKE = "Topic orders requires record values to be of the schema shop.Order: "


@pytest.fixture
def schema(tmp_path: Path) -> str:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    return str(file)


def test_a_record_of_another_schema_is_rejected_with_path_and_rule(schema: str, refusals: Refusals) -> None:
    good = written(ORDER, VALUE)
    assert refusals("avro", {"file": schema}, {"value": good}, {"value": good[:-1]}, {"value": None}) == [
        (1, "not_of_schema", f"{UNLIKE}$.items[1]: ends too early at byte {len(good) - 1}"),
    ]


def test_the_key_can_be_validated_and_null_forbidden(schema: str, refusals: Refusals) -> None:
    settings = {"file": schema, "part": "key", "allow_null": False}
    assert refusals("avro", settings, {"key": written(ORDER, VALUE)}, {"key": None}, {"key": b""}) == [
        (1, "null_key", "Topic orders requires record keys not to be null"),
        (2, "not_of_schema", f"{UNLIKE.replace('values', 'keys')}$.id: ends too early at byte 0"),
    ]


def test_the_id_of_confluents_serializers_is_stepped_over(schema: str, refusals: Refusals) -> None:
    good = written(ORDER, VALUE)
    settings = {"file": schema, "prefix": "confluent"}
    values = [b"\0\0\0\0\7" + good, good, b"\0\0\0", b"\0\0\0\0\7" + good[:-1]]
    found = refusals("avro", settings, *({"value": value} for value in values))
    assert [(index, reason) for index, reason, _ in found] == [
        (1, "no_schema_id"),
        (2, "no_schema_id"),
        (3, "not_of_schema"),
    ]


def test_types_of_other_files_are_found(tmp_path: Path, refusals: Refusals) -> None:
    types = tmp_path / "types" / "shop"
    types.mkdir(parents=True)
    item = {"type": "record", "name": "shop.Item", "fields": [{"name": "n", "type": "int"}]}
    (types / "item.avsc").write_text(json.dumps(item))
    root = tmp_path / "root.avsc"
    root.write_text('{"type": "array", "items": "shop.Item"}')
    settings = {"file": str(root), "references": str(tmp_path / "types")}
    found = refusals("avro", settings, {"value": b"\2\2\0"}, {"value": b"\2\2"})
    assert [index for index, *_ in found] == [1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs a schema: configure it under policies: with a file"),
        ({"file": "/nowhere.avsc"}, "file: /nowhere.avsc cannot be read: No such file or directory"),
        ({"file": "order.txt"}, r"file: .*order.txt: is not JSON"),
        ({"file": "order.avsc", "references": "/nowhere"}, "references: /nowhere is not a folder"),
        ({"file": "order.avsc", "prefix": "glue"}, "prefix: write 'none' or 'confluent'"),
    ],
)
def test_a_wrong_setting_is_one_line(settings: dict[str, str], message: str, schema: str, tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("{")
    given = {name: str(tmp_path / text) if text.startswith("order") else text for name, text in settings.items()}
    with pytest.raises(ValueError, match=message) as error:
        PolicyCatalog({"it": PolicySettings("avro", settings=given)})
    assert "\n" not in str(error.value)


def test_it_reads_the_part_that_it_validates_and_its_files_are_watched(schema: str) -> None:
    catalog = PolicyCatalog({"it": PolicySettings("avro", settings={"file": schema, "part": "key"})})
    assert catalog.plan("it").hints == Hints(access_key_bytes=-1)
    assert catalog.files() == {Path(schema)}
    with pytest.raises(ValueError, match="policy avro: needs a schema"):
        PolicyCatalog({}).plan("avro")
