"""The house: every folder has its link, every module its test, and packages meet at their front doors only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from support.pages import PACKAGES, ROOT, defined_names, modules, tree

PACKAGE = "kafka_sidecar"
# In lines. A lower limit has made files that belong together two.
MAX_FILE_LINES, MAX_FUNCTION_LINES = 700, 40

# Modules without a test file of their own, and where they are tested.
TESTED_IN = {
    "audit/counters.py": "tests/proxy/auditing/test_produce.py",
    "audit/counting.py": "tests/audit/test_abstract.py",
    "audit/event_counters.py": "tests/audit/test_event_auditor.py",
    "audit/event_stats.py": "tests/audit/test_event_auditor.py",
    "audit/events.py": "tests/audit/test_event_auditor.py",
    "audit/tally.py": "tests/audit/test_event_auditor.py",
    "codec/batch_layout.py": "tests/codec/records/test_batch_header.py",
    "codec/cursor.py": "tests/codec/test_scan.py",
    "codec/cython_shim.py": "tests/codec/test_compiled.py",
    "codec/errors.py": "tests/codec/test_hostile_bytes.py",
    "codec/fetch_head.py": "tests/codec/test_glance.py",
    "codec/headers.py": "tests/codec/test_messages.py",
    "codec/message.py": "tests/codec/test_messages.py",
    "codec/noted_requests.py": "tests/codec/test_produce_notes.py",
    "codec/records_walk.py": "tests/codec/test_produce_counts.py",
    "codec/schema/codegen.py": "tests/codec/schema/test_notation.py",
    "codec/schema/fields.py": "tests/codec/schema/test_notation.py",
    "codec/schema/readers.py": "tests/codec/test_round_trips.py",
    "codec/schema/skippers.py": "tests/codec/test_round_trips.py",
    "codec/schema/structs.py": "tests/codec/schema/test_notation.py",
    "codec/schema/versions.py": "tests/codec/schema/test_notation.py",
    "codec/schema/writers.py": "tests/codec/test_round_trips.py",
    "codec/wire.py": "tests/codec/test_hostile_bytes.py",
    "proxy/auditing/produce_results.py": "tests/proxy/auditing/test_produce.py",
    "proxy/security/der.py": "tests/proxy/security/test_subjects.py",
    "proxy/sasl/reauthentication.py": "tests/proxy/sasl/test_gates.py",
    "proxy/exchanges/checked_apis.py": "tests/proxy/exchanges/test_authorization.py",
    "proxy/exchanges/cluster_apis.py": "tests/proxy/exchanges/test_authorization.py",
    "proxy/exchanges/group_apis.py": "tests/proxy/exchanges/test_authorization.py",
    "proxy/exchanges/share_group_apis.py": "tests/proxy/exchanges/test_rejected_elements.py",
    "proxy/exchanges/transaction_apis.py": "tests/proxy/exchanges/test_authorization.py",
    "proxy/exchanges/described_topics.py": "tests/proxy/exchanges/test_authorization.py",
    "proxy/runtime/flow.py": "tests/proxy/runtime/test_pressure.py",
    "proxy/runtime/observer.py": "tests/proxy/test_server.py",
    "proxy/workers/__main__.py": "tests/proxy/workers/test_run.py",
    "proxy/workers/messages.py": "tests/proxy/workers/test_channel.py",
    "large_messages/cutting.py": "tests/large_messages/test_splitting.py",
    "large_messages/assemble.py": "tests/large_messages/test_delivery.py",
    "large_messages/partition_log.py": "tests/large_messages/test_delivery.py",
    "large_messages/reading.py": "tests/large_messages/test_delivery.py",
    "large_messages/report.py": "tests/large_messages/test_delivery.py",
    "large_messages/sub_batches.py": "tests/large_messages/test_delivery.py",
    "proxy/exchanges/held_clients.py": "tests/proxy/interception/test_held_clients.py",
    "proxy/large_messages/assembling.py": "tests/proxy/large_messages/test_from_config.py",
    "proxy/large_messages/assembly_services.py": "tests/proxy/large_messages/test_assemble_stage.py",
    "proxy/large_messages/assembly_stats.py": "tests/proxy/large_messages/test_assemble_stage.py",
    "proxy/large_messages/reads.py": "tests/proxy/large_messages/test_assemble_stage.py",
    "large_messages/segment.py": "tests/large_messages/test_payload_format.py",
    "large_messages/settings.py": "tests/proxy/large_messages/test_from_config.py",
    "proxy/config/large_messages.py": "tests/proxy/large_messages/test_from_config.py",
    "proxy/large_messages/exposition.py": "tests/test_reference.py",
    "proxy/large_messages/client_settings.py": "tests/proxy/large_messages/test_split_stage.py",
    "proxy/large_messages/services.py": "tests/proxy/large_messages/test_split_stage.py",
    "proxy/large_messages/object_needs.py": "tests/proxy/large_messages/test_object_stage.py",
    "proxy/large_messages/slices.py": "tests/proxy/large_messages/test_split_stage.py",
    "proxy/large_messages/topic_limits.py": "tests/proxy/large_messages/test_split_stage.py",
    "proxy/large_messages/stats.py": "tests/test_reference.py",
    "proxy/large_messages/large_messages.py": "tests/proxy/large_messages/test_from_config.py",
    "pipeline/__main__.py": "tests/pipeline/test_cli.py",
    "pipeline/reconcile/rows.py": "tests/pipeline/reconcile/test_job.py",
    "pipeline/reconcile/sql.py": "tests/pipeline/reconcile/test_job.py",
    "pipeline/replay/report.py": "tests/pipeline/replay/test_command.py",
    "pipeline/replay/console.py": "tests/pipeline/replay/test_command.py",
    "plugins/registry.py": "tests/policies/test_registry.py",
    "plugins/violations.py": "tests/proxy/telemetry/test_log_limiter.py",
    "policies/registry.py": "tests/policies/test_registry.py",
    "proxy/__main__.py": "tests/proxy/cli/test_main.py",
    "proxy/auditing/counting.py": "tests/proxy/auditing/test_produce.py",
    "proxy/auditing/group_watch.py": "tests/proxy/auditing/test_groups.py",
    "proxy/auditing/stats.py": "tests/proxy/auditing/test_produce.py",
    "proxy/auditing/taps.py": "tests/proxy/auditing/test_produce.py",
    "proxy/large_messages/object_listing.py": "tests/proxy/cli/test_clean_objects.py",
    "proxy/topic_configs/trail.py": "tests/proxy/topic_configs/test_alter_configs.py",
    "proxy/config/admin.py": "tests/proxy/config/test_loading.py",
    "proxy/config/audit.py": "tests/proxy/auditing/test_from_config.py",
    "proxy/config/pipeline.py": "tests/proxy/config/test_loading.py",
    "proxy/config/sections.py": "tests/proxy/config/test_loading.py",
    "proxy/cli/injection.py": "tests/proxy/cli/test_inject.py",
    "proxy/deploy/edits.py": "tests/proxy/deploy/test_inject.py",
    "proxy/deploy/pods.py": "tests/proxy/deploy/test_inject.py",
    "proxy/deploy/record.py": "tests/proxy/deploy/test_inject.py",
    "proxy/exchanges/commit_apis.py": "tests/proxy/exchanges/test_commits.py",
    "proxy/nodes/endpoints.py": "tests/proxy/nodes/test_rewrites.py",
    "proxy/exchanges/topic_apis.py": "tests/proxy/exchanges/test_denials.py",
    "proxy/exchanges/produce.py": "tests/proxy/validation/test_stage.py",
    "proxy/interception/interception.py": "tests/proxy/test_features.py",
    "proxy/relay/exchange.py": "tests/proxy/relay/test_exchange_driver.py",
    "proxy/relay/loop_budget.py": "tests/proxy/relay/test_exchange_driver.py",
    "proxy/relay/watch.py": "tests/proxy/auditing/test_produce.py",
    "proxy/relay/watched_exchange.py": "tests/proxy/auditing/test_produce.py",
    "proxy/security/alerts.py": "tests/proxy/runtime/test_tls_listener.py",
    "proxy/security/broker_access.py": "tests/proxy/runtime/test_tls_listener.py",
    "proxy/security/ciphers.py": "tests/proxy/security/test_contexts.py",
    "proxy/security/exposition.py": "tests/proxy/security/test_live_tls.py",
    "proxy/security/sides.py": "tests/proxy/config/test_tls.py",
    "proxy/security/subjects.py": "tests/proxy/runtime/test_tls_listener.py",
    "proxy/security/stats.py": "tests/proxy/security/test_live_tls.py",
    "proxy/telemetry/metrics.py": "tests/proxy/admin/test_exposition.py",
    "proxy/telemetry/prometheus.py": "tests/proxy/admin/test_exposition.py",
    "proxy/topic_configs/apis.py": "tests/proxy/topic_configs/test_alter_configs.py",
    "proxy/topic_configs/definitions.py": "tests/proxy/topic_configs/test_alter_configs.py",
    "proxy/topic_configs/kafka_clients.py": "tests/integration/test_topic_configs.py",
    "proxy/topic_configs/keeper.py": "tests/proxy/topic_configs/test_alter_configs.py",
    "proxy/topic_configs/store.py": "tests/proxy/topic_configs/test_kafka_store.py",
}
# All messages are compared with Kafka's own definitions, one by one.
MESSAGES = "tests/codec/test_declarations.py"
# What other packages may import.
FRONT_DOORS = {
    "audit": {"contract", "counters", "event_auditor", "events", "outbox", "registry"},
    "codec": {
        "apis",
        "batch_layout",
        "checkpoint",
        "compiled",
        "crc_parts",
        "cython_shim",
        "envelope",
        "errors",
        "fetch_counts",
        "fetch_head",
        "fetch_positions",
        "glance",
        "group_requests",
        "headers",
        "json",
        "large_bytes",
        "longs",
        "message",
        "messages",
        "pieces",
        "produce_counts",
        "produce_notes",
        "records",
        "response_status",
        "response_tags",
        "scan",
        "share_fetch_counts",
        "topic_names",
        "visibility",
        "wire",
    },
    "large_messages": {
        "back_pointers",
        "cache",
        "claim_check",
        "classify",
        "cutting",
        "delivery",
        "intervals",
        "lm_header",
        "object_reference",
        "offsets",
        "partition_log",
        "payload_format",
        "reading",
        "report",
        "resume_points",
        "segment",
        "segment_index",
        "serializers",
        "settings",
        "special_headers",
        "splitting",
        "stored_assembly",
        "unfinished",
    },
    "plugins": {"class_path", "hooks", "pace", "registry", "remedies", "settings", "units", "violations"},
    "policies": {"catalog", "contract", "plans", "registry", "testing"},
    "interceptors": {
        "catalog",
        "committing",
        "consuming",
        "contract",
        "guard",
        "headers",
        "metrics",
        "producing",
        "records",
        "registry",
        "testing",
        "values",
    },
}


def where_tested(module: Path) -> Path:
    if module.parts[:2] == ("codec", "messages"):
        return ROOT / MESSAGES
    own = Path("tests", *module.parts[:-1], f"test_{module.stem.strip('_')}.py")
    return ROOT / TESTED_IN.get(str(module), own)


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import from our own package; the name is "" where the module itself is imported."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.startswith(PACKAGE):
                yield from ((module, name.name) for name in names)
            case ast.Import(names=names):
                yield from ((name.name, "") for name in names if name.name.startswith(PACKAGE))


def test_every_folder_with_code_has_its_link_and_no_other_is_there() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    links = {path.name: path.resolve() for path in (ROOT / "src" / PACKAGE).iterdir() if path.is_symlink()}
    assert links == {folder: ROOT / folder for folder in folders}
    assert folders == set(PACKAGES)


@pytest.mark.parametrize("module", [path for path in modules(*PACKAGES) if path.stem != "__init__"], ids=str)
def test_every_module_has_a_test(module: Path) -> None:
    assert where_tested(module).is_file()


def test_the_table_of_tests_names_modules_that_exist() -> None:
    assert set(TESTED_IN) - set(map(str, modules(*PACKAGES))) == set()


def test_all_declared_messages_are_compared_with_kafkas() -> None:
    names = [path.stem.title().replace("_", "") for path in modules("codec/messages") if path.stem != "__init__"]
    compared = (ROOT / MESSAGES).read_text()
    apart = {"AlteredClientQuotas": "AlterClientQuotas"}  # a response with structs of the same names as the request's
    assert [name for name in names if f'"{apart.get(name, name)}"' not in compared] == []


@pytest.mark.parametrize("module", modules(*PACKAGES), ids=str)
def test_only_front_doors_of_another_package_are_imported(module: Path) -> None:
    for imported, name in imports(module):
        package, *inside = imported.removeprefix(f"{PACKAGE}.").split(".")
        assert not name.startswith("_") or name == "__version__"
        if package in FRONT_DOORS and package != module.parts[0]:
            assert (inside or [name])[0] in FRONT_DOORS[package]


def test_the_public_list_of_the_codec_holds_what_its_front_door_offers() -> None:
    door = Path("codec/message.py")
    listed = import_module(f"{PACKAGE}.codec.message").__all__
    brought = {name for _, name in imports(door)} | defined_names(door)
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name in brought if name not in {"S", "__all__"}}


@pytest.mark.parametrize("path", modules(*PACKAGES, "tests", "bench", "examples"), ids=str)
def test_no_file_is_longer_than_the_limit(path: Path) -> None:
    assert len((ROOT / path).read_text().splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("module", modules(*PACKAGES), ids=str)
def test_functions_are_short(module: Path) -> None:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < MAX_FUNCTION_LINES, node.name
