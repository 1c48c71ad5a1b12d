"""A client that means another node or cluster has the broker's error, through the sidecar as directly (KIP-1242)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from harness import sasl
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.raw import Raw

from kafka_sidecar.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_sidecar.codec.messages.metadata import MetadataRequest, MetadataResponse
from kafka_sidecar.proxy.security.sasl.users import create_verifier, format_user

pytestmark = pytest.mark.integration

USER, PASSWORD = "alice", "pw-of-alice"
INVALID_REQUEST, REBOOTSTRAP_REQUIRED = 42, 129
FIRST_WITH_NODES = 5
NODE = 1


@dataclass(frozen=True, slots=True)
class Site:
    """A broker that wants a login, a sidecar that passes it through, and one that has users of its own."""

    cluster: Cluster
    relay: Sidecar
    gateway: Sidecar

    @property
    def places(self) -> dict[str, str]:
        return {
            "broker": self.cluster.bootstrap,
            "relay, bootstrap": self.relay.bootstrap,
            "relay, node": port_of_the_node(self.relay.bootstrap),
            "gateway, bootstrap": self.gateway.bootstrap,
            "gateway, node": port_of_the_node(self.gateway.bootstrap),
        }


def port_of_the_node(bootstrap: str) -> str:
    with Raw(bootstrap).log_in(USER, PASSWORD) as client:
        (broker,) = client.ask(MetadataRequest(topics=()), 12, MetadataResponse).brokers
    return f"{broker.host}:{broker.port}"


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    work = tmp_path_factory.mktemp("misrouted")
    (work / "password").write_text(PASSWORD)
    (work / "users").write_text(format_user(USER, "SCRAM-SHA-256", create_verifier("SCRAM-SHA-256", PASSWORD)))
    (work / "relay.yaml").write_text("")
    (work / "gateway.yaml").write_text(
        f"clients: {{sasl: {{mechanisms: [SCRAM-SHA-256], users_file: {work / 'users'}}}}}\n"
        "brokers: {security_protocol: SASL_PLAINTEXT, sasl: {mechanism: SCRAM-SHA-256, "
        f"username: {USER}, password_file: {work / 'password'}}}}}\n"
    )

    def started(name: str) -> Sidecar:
        return Sidecar.start(cluster.bootstrap, work / f"{name}.log", ["--config", str(work / f"{name}.yaml")])

    with Cluster.start(NEWEST, 1, sasl.sasl_properties()) as cluster:
        sasl.add_scram_user(cluster.direct, USER, PASSWORD)
        with started("relay") as relay, started("gateway") as gateway:
            yield Site(cluster, relay, gateway)


def asked(cluster_id: str | None, node_id: int) -> ApiVersionsRequest:
    return ApiVersionsRequest(
        client_software_name="raw", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )


# What the client means, by the cluster's id, and the error of the broker.
MEANT: dict[str, tuple[Callable[[str], ApiVersionsRequest], int]] = {
    "nothing": (lambda _: asked(None, -1), 0),
    "this node": (lambda cluster: asked(cluster, NODE), 0),
    "another node": (lambda cluster: asked(cluster, NODE + 1), REBOOTSTRAP_REQUIRED),
    "another cluster": (lambda _: asked("A" * 22, NODE), REBOOTSTRAP_REQUIRED),
    "a cluster without a node": (lambda cluster: asked(cluster, -1), INVALID_REQUEST),
    "a node without a cluster": (lambda _: asked(None, NODE), INVALID_REQUEST),
}


@pytest.mark.parametrize("meant", MEANT)
def test_who_means_another_node_or_cluster_has_its_error_wherever_it_has_logged_in(site: Site, meant: str) -> None:
    make, error = MEANT[meant]
    for place, bootstrap in site.places.items():
        with Raw(bootstrap).log_in(USER, PASSWORD) as client:
            answer = client.ask(make(site.cluster.id), FIRST_WITH_NODES, ApiVersionsResponse)
        assert (place, answer.error_code) == (place, error)
        assert bool(answer.api_keys) == (not error)


def test_no_client_has_that_error_before_its_login(site: Site) -> None:
    for place, bootstrap in site.places.items():
        with Raw(bootstrap) as client:
            answer = client.ask(asked("A" * 22, NODE + 1), FIRST_WITH_NODES, ApiVersionsResponse)
        assert (place, answer.error_code) == (place, 0)
