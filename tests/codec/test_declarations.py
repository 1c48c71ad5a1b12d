"""Our declarations against Kafka's own: a new release that changes a message is seen here first."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fuzz.samples import roots
from harness.definitions import OLD_CLIENTS, Definition, definitions
from support.examples import for_each

from kafka_sidecar.codec.message import Struct
from kafka_sidecar.codec.schema.fields import Field, Versions, parse_versions

MESSAGES = [
    "AddOffsetsToTxn", "AddPartitionsToTxn", "AlterClientQuotas", "AlterConfigs", "AlterPartitionReassignments",
    "AlterReplicaLogDirs", "AlterShareGroupOffsets", "AlterUserScramCredentials", "ApiVersions",
    "ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "CreateAcls", "CreatePartitions", "CreateTopics", "DeleteAcls",
    "DeleteGroups",
    "DeleteRecords", "DeleteShareGroupOffsets", "DeleteTopics", "DescribeConfigs", "DescribeGroups",
    "DescribeProducers", "DescribeShareGroupOffsets", "DescribeTopicPartitions", "DescribeTransactions",
    "ElectLeaders", "EndTxn", "Fetch", "FindCoordinator", "Heartbeat", "IncrementalAlterConfigs", "InitProducerId",
    "JoinGroup", "LeaveGroup", "ListOffsets", "Metadata", "OffsetCommit", "OffsetDelete", "OffsetFetch",
    "OffsetForLeaderEpoch", "Produce", "SaslAuthenticate", "SaslHandshake", "ShareAcknowledge", "ShareFetch",
    "ShareGroupDescribe", "ShareGroupHeartbeat", "StreamsGroupDescribe", "StreamsGroupHeartbeat",
    "StreamsGroupTopologyDescriptionUpdate", "SyncGroup", "TxnOffsetCommit", "WriteTxnMarkers",
]  # fmt: skip
ONLY_THE_RESPONSE = [  # because it names brokers, lists what not everybody may see, or is a rejection
    "AddRaftVoter", "CreateDelegationToken", "DescribeAcls", "DescribeClientQuotas",
    "DescribeCluster", "DescribeDelegationToken", "DescribeLogDirs", "DescribeQuorum", "DescribeUserScramCredentials",
    "ExpireDelegationToken", "ListConfigResources", "ListGroups", "ListPartitionReassignments", "ListTransactions",
    "RemoveRaftVoter", "RenewDelegationToken", "UnregisterBroker", "UnregisterController", "UpdateFeatures",
]  # fmt: skip
# Versions that brokers before 4.0 take too (KIP-896): the first of them, and the last.
OLD = {
    "ProduceRequest": (0, 2),
    "ProduceResponse": (0, 2),
    "OffsetCommitRequest": (0, 1),
    "OffsetCommitResponse": (0, 1),
    "OffsetFetchRequest": (0, 0),
    "OffsetFetchResponse": (0, 0),
    "CreateTopicsRequest": (0, 1),
    "CreateTopicsResponse": (0, 1),
    "DeleteTopicsRequest": (0, 0),
    "DeleteTopicsResponse": (0, 0),
}
# The two names that say what they are without the class's name in them.
RENAMED = {"request_api_key": "api_key", "request_api_version": "api_version"}
EMPTY = {"string": "", "bytes": b"", "records": b"", "bool": False, "float64": 0.0, "uuid": bytes(16), "array": ()}


def kafkas(field: Definition, common: dict[str, Any], since: int) -> dict[str, Any]:
    """A field of Kafka's JSON in the shape in which the two are compared, with the parts of valid versions."""
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
        "fields": parts
        and [kafkas(part, common, since) for part in parts if parse_versions(part["versions"]).high >= since],
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


def ours(field: Field, since: int) -> dict[str, Any]:
    """A field of ours in that shape, with the parts that there are in some version from ``since`` on."""
    nested = isinstance(field.of, type)
    default = field.default
    if isinstance(default, Struct) and default == field.of():
        default = "a struct of defaults"
    return {
        "name": field.name,
        "kind": field.kind,
        "of": field.of.__name__ if nested else field.of,
        "fields": [ours(part, since) for part in field.of.declaration_.fields if part.versions.high >= since]
        if nested
        else None,
        "versions": field.versions,
        "nullable": field.nullable,
        "default": default,
        "tag": field.tag,
        "tagged": field.tagged,
        "flexible": field.flexible,
    }


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@for_each(roots(), lambda cls: cls.__name__)
def test_each_declaration_agrees_with_kafkas_definition(cls: type[Struct]) -> None:
    kafka = definitions()[cls.__name__]
    common = {struct["name"]: struct["fields"] for struct in kafka.get("commonStructs", ())}
    declared = cls.declaration_
    assert declared.api_key == kafka.get("apiKey")
    valid = parse_versions(kafka["validVersions"])
    first, _ = OLD.get(cls.__name__, (valid.low, valid.low))
    assert declared.versions == Versions(first, valid.high)
    assert str(declared.flexible) == kafka["flexibleVersions"]
    compared = [ours(field, valid.low) for field in declared.fields]
    assert compared == [kafkas(field, common, valid.low) for field in kafka["fields"]]


@pytest.mark.parametrize("name", OLD)
def test_an_old_version_has_the_fields_that_it_had_before_kafka_4(name: str) -> None:
    (cls,) = (cls for cls in roots() if cls.__name__ == name)
    kafka = definitions(OLD_CLIENTS)[name]
    first, last = OLD[name]
    assert first == parse_versions(kafka["validVersions"]).low
    assert last + 1 == parse_versions(definitions()[name]["validVersions"]).low
    for version in range(first, last + 1):
        fields = [ours(field, version) for field in cls.declaration_.fields]
        assert at_version(fields, version) == at_version(
            [kafkas(field, {}, version) for field in kafka["fields"]], version
        )


def at_version(fields: list[dict[str, Any]], version: int) -> list[dict[str, Any]]:
    """What there is on the wire in one version."""
    return [
        {
            "name": field["name"],
            "kind": field["kind"],
            "fields": field["fields"] and at_version(field["fields"], version),
            "is_nullable": version in field["nullable"],
            "default": field["default"],
        }
        for field in fields
        if version in field["versions"]
    ]


def test_the_messages_that_the_proxy_decodes_are_declared() -> None:
    wanted = {name + side for name in MESSAGES for side in ("Request", "Response")}
    wanted |= {f"{name}Response" for name in ONLY_THE_RESPONSE}
    assert {cls.__name__ for cls in roots()} == wanted | {"RequestHeader", "ResponseHeader"}
