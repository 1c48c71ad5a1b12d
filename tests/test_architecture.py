"""The house: every folder has its link, and packages meet at their front doors only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from support.pages import PACKAGES, ROOT, defined_names, modules, statements, tree

PACKAGE = "kafka_sidecar"
MAX_FILE_LINES = 700  # a lower limit has made two files of what belongs together

# All messages are compared with Kafka's own definitions, one by one.
MESSAGES = "tests/codec/test_declarations.py"
# What other packages may import.
FRONT_DOORS = {
    "audit": {"access", "contract", "counters", "event_auditor", "events", "outbox", "registry"},
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
        "fetch_positions",
        "glance",
        "headers",
        "json",
        "large_bytes",
        "message",
        "messages",
        "pieces",
        "produce_counts",
        "record_sizes",
        "records",
        "response_status",
        "scan",
        "topic_names",
        "visibility",
        "wire",
    },
    "dead_letters": {"buffer", "letter", "letters", "overview", "parcels", "remaining"},
    "large_messages": {
        "back_pointers",
        "cache",
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
        "segment",
        "segment_index",
        "serializers",
        "settings",
        "splitting",
    },
    "plugins": {
        "bounded",
        "calls",
        "class_path",
        "clock",
        "effects",
        "patterns",
        "pace",
        "registry",
        "regular_expressions",
        "settings",
        "units",
        "values",
        "violations",
    },
    "schemas": {
        "avro",
        "ids",
        "json_paths",
        "json_schema",
        "language",
        "masks",
        "own_process",
        "protobuf",
        "registries",
        "registry",
        "sources",
    },
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
    },
}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import from our own package; the name is "" where the module itself is imported."""
    for node in statements(tree(path)):
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


def test_all_declared_messages_are_compared_with_kafkas() -> None:
    names = [path.stem.title().replace("_", "") for path in modules("codec/messages") if path.stem != "__init__"]
    compared = (ROOT / MESSAGES).read_text()
    apart = {"AlteredClientQuotas": "AlterClientQuotas"}  # a response with structs of the same names as the request's
    assert [name for name in names if f'"{apart.get(name, name)}"' not in compared] == []


def past_the_door(module: Path) -> Iterator[str]:
    for imported, name in imports(module):
        package, *inside = imported.removeprefix(f"{PACKAGE}.").split(".")
        is_private = name.startswith("_") and name != "__version__"
        is_of_another = package in FRONT_DOORS and package != module.parts[0]
        if is_private or (is_of_another and (inside or [name])[0] not in FRONT_DOORS[package]):
            yield f"{module}: {imported} {name}"


def test_only_front_doors_of_another_package_are_imported() -> None:
    assert [one for module in modules(*PACKAGES) for one in past_the_door(module)] == []


def test_the_public_list_of_the_codec_holds_what_its_front_door_offers() -> None:
    door = Path("codec/message.py")
    listed = import_module(f"{PACKAGE}.codec.message").__all__
    brought = {name for _, name in imports(door)} | defined_names(door)
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name in brought if name not in {"S", "__all__"}}


def test_no_file_is_longer_than_the_limit() -> None:
    paths = modules(*PACKAGES, "tests", "bench", "examples")
    lines = {path: (ROOT / path).read_bytes().count(b"\n") for path in paths}
    assert {path: count for path, count in lines.items() if count > MAX_FILE_LINES} == {}
