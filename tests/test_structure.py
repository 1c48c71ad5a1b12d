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
    holds,
    house,
    page_with,
    picture,
    whole_graph,
    with_import,
)

HOUSE, CODEC, PLUGINS, SPARK, SUGGEST, AUDIT, PROXY, LIBRARIES, FEATURES, SERVER, SECURITY, RELAY, STAGES = contracts()
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
    ("proxy.server.server", "pipeline", HOUSE),
    ("proxy.server.server", "pipeline", SPARK),
    ("policies.plans", "numpy", SPARK),
    ("pipeline.suggest.shape", "pyspark", SUGGEST),
    ("audit", "asyncio", AUDIT),
    ("proxy.telemetry.metrics", "proxy.features.validation.stats", PROXY),
    ("proxy.server.admin.exposition", "proxy.cli.main", PROXY),
    ("proxy.exchanges.commits", "interceptors.contract", LIBRARIES),
    ("proxy.exchanges.fetch", "large_messages.intervals", LIBRARIES),
    ("proxy.relay.session", "policies.contract", LIBRARIES),
    ("proxy.relay.watch", "audit.events", LIBRARIES),
    ("proxy.server.server", "proxy.server.admin.http", SERVER),
    ("proxy.features.topic_configs.kafka_store", "proxy.features.validation.rules", FEATURES),
    ("proxy.features.validation.rules", "proxy.features.interception.interception", FEATURES),
    ("proxy.features.topic_configs.configs", "proxy.features.authorization.acls", FEATURES),
    ("proxy.features.topic_configs.kafka_store", "proxy.features.compose", FEATURES),
    ("proxy.exchanges.produce", "proxy.features.validation.rules", PROXY),
    ("proxy.security.sasl.users", "proxy.security.tls.contexts", SECURITY),
    ("proxy.nodes.rewrites", "proxy.exchanges.sasl", PROXY),
    ("proxy.nodes.rewrites", "proxy.runtime.tasks", PROXY),
    ("proxy.relay.session", "proxy.exchanges.sasl", PROXY),
    ("proxy.config.types", "proxy.telemetry.logs", PROXY),
    ("proxy.relay.session", "socket", RELAY),
    ("proxy.relay.session", "proxy.telemetry.logs", RELAY),  # which imports logging: by a detour
    ("proxy.telemetry.metrics", "asyncio", RELAY),
    ("codec.schema.readers", "threading", RELAY),
    ("proxy.exchanges.sasl", "time", RELAY),
    ("proxy.features.validation.stage", "asyncio", STAGES),
    ("proxy.features.interception.send_stage", "proxy.runtime.threads", STAGES),
    ("proxy.features.large_messages.split_stage", "logging", STAGES),
    ("proxy.features.topic_configs.stages", "proxy.features.topic_configs.configs", STAGES),
]


def test_every_contract_holds() -> None:
    assert broken(graph()) == []


@pytest.mark.parametrize(("importer", "imported", "contract"), FORBIDDEN)
def test_an_import_that_must_not_be_breaks_its_contract(importer: str, imported: str, contract: str) -> None:
    assert not holds(contract, with_import(importer, imported))


def test_every_contract_has_an_import_that_breaks_it() -> None:
    assert {contract for _, _, contract in FORBIDDEN} == set(contracts())


def test_no_two_files_import_each_other_in_any_number_of_steps() -> None:
    assert circles(files(whole_graph())) == []


@pytest.mark.parametrize(
    ("importer", "imported", "circle"),
    [
        ("codec.wire", "codec.schema.fields", ["codec.schema.fields", "codec.wire"]),
        ("codec.records.record", "codec.records.records", ["codec.records.record", "codec.records.records"]),
    ],
)
def test_an_import_that_closes_a_circle_is_found(importer: str, imported: str, circle: list[str]) -> None:
    assert [f"kafka_sidecar.{name}" for name in circle] in circles(files(with_import(importer, imported)))


def test_a_circle_of_several_steps_is_found_once() -> None:
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"a"}}
    assert circles({name: frozenset(others) for name, others in arrows.items()}) == [["a", "b", "c"]]


def test_no_folder_imports_one_above_it() -> None:
    assert [floors.upwards() for floors in house(graph())] == [[], [], [], [], []]


def test_an_arrow_up_is_found() -> None:
    _, proxy, *_ = house(with_import("proxy.telemetry.metrics", "proxy.features.validation.stats"))
    assert proxy.upwards() == [("telemetry", "features")]


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
