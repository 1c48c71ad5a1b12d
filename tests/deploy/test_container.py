"""The sidecar's container: what it runs with, and what differs before Kubernetes 1.29."""

from __future__ import annotations

from support.pages import settings

from kafka_sidecar.deploy.container import (
    CONFIG_VOLUME,
    TMP_VOLUME,
    TOKEN_VOLUME,
    Sidecar,
    build_container,
    build_volumes,
)
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import ENV_PREFIX
from kafka_sidecar.proxy.config.types import host_port
from kafka_sidecar.proxy.server.admin.http import DEFAULT_ADMIN

BROKERS = {"value": "kafka:9092"}


def test_the_ports_are_the_programs_own_defaults() -> None:
    sidecar = Sidecar("image")
    assert sidecar.address == Config.model_fields["listen"].default
    assert sidecar.admin_port == host_port(DEFAULT_ADMIN)[1]


def test_every_variable_is_a_setting() -> None:
    sidecar = Sidecar("image", bootstrap_servers=BROKERS, exit_when_unused="20s")
    names = [variable["name"] for variable in build_container(sidecar)["env"]]
    assert len(names) == 4
    assert {name.removeprefix(ENV_PREFIX).lower().replace("__", ".") for name in names} <= set(settings())


def test_a_native_sidecar_is_started_before_the_application_and_restarted_always() -> None:
    container = build_container(Sidecar("image", bootstrap_servers=BROKERS))
    assert container["restartPolicy"] == "Always"
    assert container["startupProbe"]["httpGet"]["path"] == "/livez"
    assert "lifecycle" not in container


def test_a_plain_container_stops_after_the_application() -> None:
    container = build_container(Sidecar("image", bootstrap_servers=BROKERS, is_plain=True))
    assert "restartPolicy" not in container
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "15"]


def test_a_config_map_is_mounted_as_a_folder_and_its_file_is_named() -> None:
    sidecar = Sidecar("image", config_map="orders-kafka")
    container, volumes = build_container(sidecar), build_volumes(sidecar)
    assert container["args"] == ["run", "--config", "/etc/kafka-sidecar/kafka-sidecar.yaml"]
    assert {"name": CONFIG_VOLUME, "configMap": {"name": "orders-kafka"}} in volumes
    assert [mount["name"] for mount in container["volumeMounts"]] == [volume["name"] for volume in volumes]
    assert "KAFKA_SIDECAR__BOOTSTRAP_SERVERS" not in {variable["name"] for variable in container["env"]}


def test_without_a_config_map_the_brokers_are_a_variable() -> None:
    container = build_container(Sidecar("image", bootstrap_servers=BROKERS))
    assert container["args"] == ["run"]
    assert {"name": "KAFKA_SIDECAR__BOOTSTRAP_SERVERS", **BROKERS} in container["env"]
    assert [volume["name"] for volume in build_volumes(Sidecar("image"))] == [TMP_VOLUME]


def test_brokers_can_come_from_where_the_application_had_them() -> None:
    reference = {"valueFrom": {"configMapKeyRef": {"name": "kafka", "key": "brokers"}}}
    container = build_container(Sidecar("image", bootstrap_servers=reference))
    assert {"name": "KAFKA_SIDECAR__BOOTSTRAP_SERVERS", **reference} in container["env"]


def test_nothing_may_be_written_but_the_volume_for_temporary_files() -> None:
    security = build_container(Sidecar("image"))["securityContext"]
    assert (security["runAsUser"], security["readOnlyRootFilesystem"]) == (10001, True)
    assert build_container(Sidecar("image"))["volumeMounts"] == [{"name": TMP_VOLUME, "mountPath": "/tmp"}]


def test_the_pull_policy_is_kubernetes_own_unless_set() -> None:
    assert "imagePullPolicy" not in build_container(Sidecar("image"))
    assert build_container(Sidecar("image", pull_policy="Always"))["imagePullPolicy"] == "Always"


def test_the_token_of_the_admin_port_is_a_file_of_a_secret() -> None:
    sidecar = Sidecar("image", config_map="config", token_secret="admin")
    container = build_container(sidecar)
    (variable,) = [one for one in container["env"] if one["name"].endswith("TOKEN_FILE")]
    assert variable["name"].removeprefix(ENV_PREFIX).lower().replace("__", ".") in settings()
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == TOKEN_VOLUME]
    assert variable["value"] == f"{mount['mountPath']}/token"
    assert {"name": TOKEN_VOLUME, "secret": {"secretName": "admin"}} in build_volumes(sidecar)
    assert [one["name"] for one in build_volumes(sidecar)] == [one["name"] for one in container["volumeMounts"]]
