"""No object is stored before the broker knows the client and lets it write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from harness import sasl
from harness.cluster import Cluster
from harness.sidecar import Sidecar
from harness.versions import NEWEST
from integration.scenarios.target import LIMIT_S, SILENT, admin_client, create_topic
from integration.validation.wire import Wire

from kafka_sidecar.codec.records import NewRecord, build_batch

pytestmark = pytest.mark.integration

LARGE = bytes(2_000_000)
DATA = build_batch([NewRecord(LARGE, b"k")], codec=1)
MINE, FORBIDDEN = "mine", "forbidden"


@dataclass(frozen=True, slots=True)
class Site:
    cluster: Cluster
    sidecar: Sidecar  # a client of the plain listener
    login: Sidecar  # clients log in to the broker through it
    objects: Path

    def stored(self, topic: str) -> int:
        return len(list(self.objects.glob(f"{topic}/*")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("rights")
    config, objects = folder / "sidecar.yaml", folder / "objects"
    config.write_text(f"large_messages: {{object_store: 'file://{objects}', topics: [{{name: '*', store: object}}]}}\n")
    authorizer = {"super.users": "User:ANONYMOUS", "allow.everyone.if.no.acl.found": "false",
                  "auto.create.topics.enable": "false"}  # fmt: skip
    with Cluster.start(NEWEST, 1, {**sasl.sasl_properties(), **authorizer}) as cluster:
        for topic in (MINE, FORBIDDEN):
            create_topic(cluster.direct, topic, 1)
        admin = admin_client(cluster.direct)
        allowed = AclBinding(ResourceType.TOPIC, MINE, ResourcePatternType.LITERAL, f"User:{sasl.USER}", "*",
                             AclOperation.ALL, AclPermissionType.ALLOW)  # fmt: skip
        for future in admin.create_acls([allowed]).values():
            future.result(LIMIT_S)
        with (
            Sidecar.start(cluster.direct, folder / "plain.log", ["--config", str(config)]) as sidecar,
            Sidecar.start(cluster.bootstrap, folder / "login.log", ["--config", str(config)]) as login,
        ):
            yield Site(cluster, sidecar, login, objects)


@pytest.mark.parametrize("version", [3, 7, 9, 12])
def test_nothing_is_stored_for_a_topic_that_there_is_not(site: Site, version: int) -> None:
    with Wire(site.sidecar.bootstrap) as wire:
        assert wire.produce(version, {"nothing": {0: DATA}})["nothing", 0].code == 3
        assert wire.produce(version, {MINE: {7: DATA}})[MINE, 7].code == 3
    assert site.stored("nothing") == 0


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("version", [3, 7, 9, 12, 13])
def test_a_client_that_may_write_has_its_value_stored_as_an_object(site: Site, version: int, acks: int) -> None:
    before = site.stored(MINE)
    with Wire(site.sidecar.bootstrap) as wire:
        for _ in range(2):
            assert wire.produce(version, {MINE: {0: DATA}}, acks)[MINE, 0].code == 0
    assert site.stored(MINE) == before + 2


def test_nothing_is_stored_for_a_client_that_has_not_logged_in(site: Site) -> None:
    before = site.stored(MINE)
    for _ in range(3):
        with Wire(site.login.bootstrap) as wire, pytest.raises((OSError, EOFError)):
            wire.produce(12, {MINE: {0: DATA}})
    assert site.stored(MINE) == before


@pytest.mark.parametrize(("topic", "error"), [(MINE, None), (FORBIDDEN, "TOPIC_AUTHORIZATION_FAILED")])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_client_that_has_logged_in_stores_where_it_may_write(
    site: Site, topic: str, error: str | None, transactional: bool
) -> None:
    before = site.stored(topic)
    errors: list[str | None] = []
    producer = Producer({
        "bootstrap.servers": site.login.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": sasl.USER, "sasl.password": sasl.PASSWORD, "message.max.bytes": 20_000_000, "logger": SILENT,
        "enable.idempotence": transactional,
    })  # fmt: skip
    producer.produce(topic, LARGE, on_delivery=lambda found, _: errors.append(found.name() if found else None))
    assert producer.flush(LIMIT_S) == 0
    assert errors == [error]
    assert site.stored(topic) == before + (0 if error else 1)
