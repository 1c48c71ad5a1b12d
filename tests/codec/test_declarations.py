"""Our declarations against Kafka's own: a new release that changes a message is seen here first."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fuzz.samples import roots
from harness.definitions import Definition, definitions

from kafka_sidecar.codec.message import Struct
from kafka_sidecar.codec.schema.fields import Field
from kafka_sidecar.codec.schema.versions import parse_versions

MESSAGES = [
    "AlterConfigs", "ApiVersions", "CreatePartitions", "CreateTopics", "DeleteRecords", "DeleteTopics",
    "DescribeCluster", "DescribeConfigs", "DescribeQuorum", "Fetch", "FindCoordinator", "IncrementalAlterConfigs",
    "Metadata", "OffsetCommit", "Produce", "SaslAuthenticate", "ShareAcknowledge", "ShareFetch", "TxnOffsetCommit",
]  # fmt: skip
ONLY_THE_RESPONSE = {  # because it names brokers
    "DescribeClusterRequest",
    "DescribeQuorumRequest",
    "FindCoordinatorRequest",
    "ShareAcknowledgeRequest",
    "ShareFetchRequest",
}
# The two names that say what they are without the class's name in them.
RENAMED = {"request_api_key": "api_key", "request_api_version": "api_version"}
EMPTY = {"string": "", "bytes": b"", "records": b"", "bool": False, "float64": 0.0, "uuid": bytes(16), "array": ()}


def kafkas(field: Definition, common: dict[str, Any]) -> dict[str, Any]:
    """A field of Kafka's JSON in the shape in which the two are compared."""
    kind, of = field["type"], None
    if kind.startswith("[]"):
        kind, of = "array", kind[2:]
    elif kind[0].isupper():
        kind, of = "struct", kind
    parts = field.get("fields", common.get(of or ""))
    name = snake_case(field["name"])
    return {
        "name": RENAMED.get(name, name),
        "kind": kind,
        "of": of,
        "fields": parts and [kafkas(part, common) for part in parts],
        "versions": parse_versions(field["versions"]),
        "nullable": parse_versions(field.get("nullableVersions", "none")),
        "default": default_in_kafka(kind, field.get("default")),
        "tag": field.get("tag"),
        "tagged": parse_versions(field.get("taggedVersions", "none")),
        "flexible": parse_versions(field["flexibleVersions"]) if "flexibleVersions" in field else None,
    }


def default_in_kafka(kind: str, text: Any) -> Any:
    if text == "null":
        return None
    if kind == "struct":
        return "a struct of defaults"
    if text is None or text == "":
        return EMPTY.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    return text if kind == "string" else int(str(text), 0)


def ours(field: Field) -> dict[str, Any]:
    nested = isinstance(field.of, type)
    default = field.default
    if isinstance(default, Struct) and default == field.of():
        default = "a struct of defaults"
    return {
        "name": field.name,
        "kind": field.kind,
        "of": field.of.__name__ if nested else field.of,
        "fields": [ours(part) for part in field.of.declaration_.fields] if nested else None,
        "versions": field.versions,
        "nullable": field.nullable,
        "default": default,
        "tag": field.tag,
        "tagged": field.tagged,
        "flexible": field.flexible,
    }


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("cls", roots(), ids=lambda cls: cls.__name__)
def test_each_declaration_agrees_with_kafkas_definition(cls: type[Struct]) -> None:
    kafka = definitions()[cls.__name__]
    common = {struct["name"]: struct["fields"] for struct in kafka.get("commonStructs", ())}
    declared = cls.declaration_
    assert declared.api_key == kafka.get("apiKey")
    assert str(declared.versions) == kafka["validVersions"]
    assert str(declared.flexible) == kafka["flexibleVersions"]
    assert [ours(field) for field in declared.fields] == [kafkas(field, common) for field in kafka["fields"]]


def test_the_messages_that_the_proxy_decodes_are_declared() -> None:
    wanted = {name + side for name in MESSAGES for side in ("Request", "Response")} - ONLY_THE_RESPONSE
    assert {cls.__name__ for cls in roots()} == wanted | {"RequestHeader", "ResponseHeader"}
