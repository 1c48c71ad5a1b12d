"""The table of what is relayed: which pairs it has, and that no response which names a broker slips through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness.definitions import Definition, definitions

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.schema.fields import parse_versions
from kafka_sidecar.proxy.nodes.rewrites import Rewrites, local_response
from kafka_sidecar.proxy.relay.exchange import RouteError
from kafka_sidecar.proxy.relay.routes import Routes, versions
from kafka_sidecar.proxy.telemetry.metrics import Metrics

# Hosts that are no brokers': of ACLs, and of the applications that use Kafka Streams.
OTHER_HOSTS = {
    "DescribeAclsResponse",
    "DeleteAclsResponse",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatResponse",
}


def routes() -> Routes:
    metrics = Metrics()
    return Routes(metrics, Rewrites(lambda node, host, port: (host, port), lambda *_: None).response, local_response)


def row(key: int, version: int) -> int:
    return key << 16 | version


def hosts(definition: Definition, common: dict[str, Definition]) -> Iterator[range]:
    """The versions of each field below this one that holds a host."""
    for field in definition.get("fields", ()):
        covered = parse_versions(field["versions"])
        if field["name"] == "Host":
            yield range(covered.low, covered.high + 1)
        shared = common.get(field["type"].removeprefix("[]"), {})
        for inner in [*hosts(field, common), *hosts(shared, common)]:
            yield range(max(covered.low, inner.start), min(covered.high + 1, inner.stop))


def naming_brokers() -> Iterator[tuple[int, int]]:
    """(api key, version) of every response in Kafka's own definitions that has a host in it."""
    for name, definition in definitions().items():
        if definition["type"] == "response" and name not in OTHER_HOSTS:
            valid = parse_versions(definition["validVersions"])
            common = {struct["name"]: struct for struct in definition.get("commonStructs", ())}
            for covered in hosts(definition, common):
                yield from (
                    (definition["apiKey"], version)
                    for version in range(valid.low, valid.high + 1)
                    if version in covered
                )


def test_the_definitions_name_brokers_where_we_know_them_to() -> None:
    found = set(naming_brokers())
    assert {(3, 0), (3, 13), (10, 0), (10, 6), (60, 2), (0, 10), (1, 16), (78, 1), (79, 2), (55, 2), (52, 1)} <= found
    assert found.isdisjoint({(0, 9), (1, 15), (55, 1), (29, 1)})


def test_a_response_that_names_brokers_is_rewritten_or_not_relayed() -> None:
    assert [(key, version) for key, version in sorted(set(naming_brokers())) if leaks(key, version)] == []


def leaks(key: int, version: int) -> bool:
    try:
        return routes().add(row(key, version)).rewrite is None
    except RouteError:
        return False


def test_every_api_of_kafka_is_in_the_table_or_omitted_for_a_reason() -> None:
    omitted = {APIS[key].name for key in APIS if versions(key) is None}
    assert omitted == {
        "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "Vote", "BeginQuorumEpoch",
        "EndQuorumEpoch", "FetchSnapshot", "Envelope", "BrokerRegistration", "BrokerHeartbeat",
        "ControllerRegistration", "UpdateRaftVoter", "AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs",
        "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
        "ReadShareGroupStateSummary",
    }  # fmt: skip


def test_a_row_is_made_once_and_then_found() -> None:
    table = routes()
    assert table.get(row(ApiKey.METADATA, 12)) is None
    made = table.add(row(ApiKey.METADATA, 12))
    assert table.get(row(ApiKey.METADATA, 12)) is made
    assert (made.key, made.version, made.counts.name) == (3, 12, "Metadata")


def test_all_versions_of_an_api_are_counted_together() -> None:
    table = routes()
    assert table.add(row(ApiKey.FETCH, 4)).counts is table.add(row(ApiKey.FETCH, 17)).counts


@pytest.mark.parametrize(
    ("key", "cause"), [(95, "unsupported_api"), (52, "unsupported_api"), (17, "unsupported_version")]
)
def test_a_pair_that_is_not_relayed_gets_no_row(key: int, cause: str) -> None:
    table = routes()
    for _ in range(2):
        with pytest.raises(RouteError) as error:
            table.add(row(key, 0))
        assert error.value.cause == cause
        assert table.get(row(key, 0)) is None


def test_only_produce_has_acks_and_only_api_versions_introduces_the_client() -> None:
    table = routes()
    made = [table.add(row(key, served[1])) for key in APIS if (served := versions(key)) is not None]
    assert [route.key for route in made if route.is_produce] == [ApiKey.PRODUCE]
    assert [route.key for route in made if route.introduces] == [ApiKey.API_VERSIONS]
