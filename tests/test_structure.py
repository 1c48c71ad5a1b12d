"""The structure: contracts hold and can break, no circles, no arrow up, and the picture in the design is the code's."""

from __future__ import annotations

import pytest
from support.structure import (
    PAGE,
    broken,
    circles,
    contracts,
    files,
    graph,
    house,
    page_with,
    picture,
    whole_graph,
    with_import,
)

HOUSE, CODEC, PLUGINS, SPARK, AUDIT, PROXY, RELAY, STAGES = contracts()
# An import that must not be, and the contract that forbids it.
FORBIDDEN = [
    ("codec.wire", "plugins.settings", HOUSE),
    ("policies.plans", "interceptors.contract", HOUSE),
    ("interceptors.guard", "proxy.runtime.tasks", HOUSE),
    ("codec.wire", "time", CODEC),
    ("policies.contract", "logging", PLUGINS),
    ("interceptors.guard", "asyncio", PLUGINS),
    ("large_messages.segment", "socket", PLUGINS),
    ("audit", "policies.plans", HOUSE),
    ("large_messages.segment", "audit", HOUSE),
    ("proxy.server", "pipeline", HOUSE),
    ("proxy.server", "pipeline", SPARK),
    ("policies.plans", "numpy", SPARK),
    ("audit", "asyncio", AUDIT),
    ("proxy.telemetry.metrics", "proxy.validation.stats", PROXY),
    ("proxy.admin.exposition", "proxy.cli.main", PROXY),
    ("proxy.server", "proxy.admin.http", PROXY),
    ("proxy.topic_configs.store", "proxy.validation.rules", PROXY),
    ("proxy.validation.rules", "proxy.interception.interception", PROXY),
    ("proxy.interception.services", "proxy.validation.rules", PROXY),
    ("proxy.topic_configs.store", "proxy.features", PROXY),
    ("proxy.nodes.rewrites", "proxy.exchanges.sasl", PROXY),
    ("proxy.nodes.rewrites", "proxy.runtime.tasks", PROXY),
    ("proxy.relay.session", "proxy.exchanges.sasl", PROXY),
    ("proxy.config.types", "proxy.telemetry.logs", PROXY),
    ("proxy.relay.session", "socket", RELAY),
    ("proxy.relay.session", "proxy.telemetry.logs", RELAY),  # which imports logging: by a detour
    ("proxy.telemetry.metrics", "asyncio", RELAY),
    ("codec.schema.readers", "threading", RELAY),
    ("proxy.exchanges.sasl", "time", RELAY),
    ("proxy.validation.stage", "asyncio", STAGES),
    ("proxy.interception.send_stage", "proxy.runtime.threads", STAGES),
    ("proxy.large_messages.split_stage", "logging", STAGES),
    ("proxy.topic_configs.alter_configs", "proxy.topic_configs.configs", STAGES),
]


def test_every_contract_holds() -> None:
    assert broken(graph()) == []


@pytest.mark.parametrize(("importer", "imported", "contract"), FORBIDDEN)
def test_an_import_that_must_not_be_breaks_its_contract(importer: str, imported: str, contract: str) -> None:
    assert contract in broken(with_import(importer, imported))


def test_every_contract_has_an_import_that_breaks_it() -> None:
    assert {contract for _, _, contract in FORBIDDEN} == set(contracts())


def test_no_two_files_import_each_other_in_any_number_of_steps() -> None:
    assert circles(files(whole_graph())) == []


@pytest.mark.parametrize(
    ("importer", "imported", "circle"),
    [
        ("codec.wire", "codec.cursor", ["codec.cursor", "codec.wire"]),
        ("codec.records.record", "codec.records.records", ["codec.records.record", "codec.records.records"]),
    ],
)
def test_an_import_that_closes_a_circle_is_found(importer: str, imported: str, circle: list[str]) -> None:
    assert [f"kafka_sidecar.{name}" for name in circle] in circles(files(with_import(importer, imported)))


def test_a_circle_of_several_steps_is_found_once() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"a"}}
    assert circles({name: frozenset(others) for name, others in arrows.items()}) == [["a", "b", "c"]]


def test_no_folder_imports_one_above_it() -> None:
    assert [floors.upwards() for floors in house(graph())] == [[], []]


def test_an_arrow_up_is_found() -> None:
    _, proxy = house(with_import("proxy.telemetry.metrics", "proxy.validation.stats"))
    assert proxy.upwards() == [("telemetry", "validation")]


def test_every_folder_has_its_floor() -> None:
    for floors in house(graph()):
        there = {path.parent.name for path in floors.where.glob("*/__init__.py")}
        assert there <= set(floors.folders)


def test_the_picture_is_that_of_the_code() -> None:
    assert page_with(picture(graph())) == PAGE.read_text(encoding="utf-8"), "`make picture` draws it again"


def test_a_new_import_changes_the_picture() -> None:
    assert "config" not in proxy_row("relay", picture(graph()))
    assert "config" in proxy_row("relay", picture(with_import("proxy.relay.session", "proxy.config.types")))


def proxy_row(folder: str, text: str) -> str:
    (row,) = (line for line in text.splitlines() if line.startswith(f"| [`{folder}/`]"))
    return row
