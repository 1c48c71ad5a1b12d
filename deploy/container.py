"""The sidecar's container in a pod, and its volumes: the same for `kafka-sidecar inject` and the Helm chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAME = "kafka-sidecar"
VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"  # of the application
CONFIG_VOLUME, TMP_VOLUME = f"{NAME}-config", f"{NAME}-tmp"
TOKEN_VOLUME = f"{NAME}-admin-token"
CONFIG_FOLDER = "/etc/kafka-sidecar"
TOKEN_FOLDER = "/etc/kafka-sidecar-admin"  # noqa: S105 - of a file that has one
CONFIG_FILE = f"{CONFIG_FOLDER}/kafka-sidecar.yaml"
ADMIN_PORT_NAME = "sidecar-admin"  # names of ports are unique in a pod, and applications have an "admin"
UID = 10001

RESOURCES = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": UID,
    "runAsGroup": UID,  # without it the group would be 0
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sidecar:
    """What differs from one sidecar's container to another's."""

    image: str
    config_map: str | None = None
    """Name of a ConfigMap with kafka-sidecar.yaml and the files that it names."""
    bootstrap_servers: Mapping[str, Any] | None = None
    """The brokers as a variable's `value` or `valueFrom`; None: the file has them."""
    port: int = 19092
    admin_port: int = 9190
    token_secret: str | None = None
    """Name of a Secret whose key `token` the pages of the admin port need."""
    is_plain: bool = False
    """An ordinary container, for Kubernetes before 1.29, in place of a native sidecar."""
    exit_when_unused: str | None = None
    """Of a plain container in a pod that has to end: how long after its last client."""
    pull_policy: str | None = None
    resources: Mapping[str, Any] = field(default_factory=lambda: RESOURCES)

    @property
    def address(self) -> str:
        """Where the application reaches Kafka."""
        return f"127.0.0.1:{self.port}"


def build_container(sidecar: Sidecar) -> Fields:
    """The container: of `initContainers` if it is a native sidecar, else of `containers`."""
    image: Fields = {"image": sidecar.image}
    if sidecar.pull_policy is not None:
        image["imagePullPolicy"] = sidecar.pull_policy
    return {
        "name": NAME,
        **image,
        **({} if sidecar.is_plain else {"restartPolicy": "Always"}),
        "args": ["run", "--config", CONFIG_FILE] if sidecar.config_map else ["run"],
        "env": _variables(sidecar),
        "ports": [{"name": ADMIN_PORT_NAME, "containerPort": sidecar.admin_port}],
        **({"lifecycle": _wait_for_the_application()} if sidecar.is_plain else {}),
        "startupProbe": {**_probe("/livez"), "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": _probe("/livez"),
        "readinessProbe": _probe("/readyz"),
        "resources": dict(sidecar.resources),
        "securityContext": SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(sidecar),
    }


def build_volumes(sidecar: Sidecar) -> list[Fields]:
    """The volumes that the container mounts."""
    config = [{"name": CONFIG_VOLUME, "configMap": {"name": sidecar.config_map}}] if sidecar.config_map else []
    # The files are root's, and the pod's fsGroup is the application's: with a stricter mode the sidecar could not read.
    secret = {"secretName": sidecar.token_secret}
    token = [{"name": TOKEN_VOLUME, "secret": secret}] if sidecar.token_secret else []
    return [*config, *token, {"name": TMP_VOLUME, "emptyDir": {}}]


def _variables(sidecar: Sidecar) -> list[Fields]:
    """They override the file, so the probes and the application always find the sidecar."""
    addresses = {
        "KAFKA_SIDECAR__LISTEN": {"value": sidecar.address},
        "KAFKA_SIDECAR__ADMIN__LISTEN": {"value": f"0.0.0.0:{sidecar.admin_port}"},  # probes come from the node
    }
    if sidecar.token_secret:
        addresses["KAFKA_SIDECAR__ADMIN__TOKEN_FILE"] = {"value": f"{TOKEN_FOLDER}/token"}
    brokers, unused = sidecar.bootstrap_servers, sidecar.exit_when_unused
    variables = {
        **addresses,
        **({"KAFKA_SIDECAR__BOOTSTRAP_SERVERS": brokers} if brokers is not None else {}),
        **({"KAFKA_SIDECAR__CONNECTIONS__EXIT_WHEN_UNUSED": {"value": unused}} if unused is not None else {}),
    }
    return [{"name": name, **value} for name, value in variables.items()]


def _probe(path: str) -> Fields:
    return {"httpGet": {"path": path, "port": ADMIN_PORT_NAME}}


def _wait_for_the_application() -> Fields:
    """Both get SIGTERM at the same moment, and a sidecar that drains accepts no connections."""
    return {"preStop": {"exec": {"command": ["sleep", "15"]}}}


def _mounts(sidecar: Sidecar) -> list[Fields]:
    # A folder: a file that is mounted as a subPath never changes.
    config = [{"name": CONFIG_VOLUME, "mountPath": CONFIG_FOLDER, "readOnly": True}] if sidecar.config_map else []
    token = [{"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}] if sidecar.token_secret else []
    return [*config, *token, {"name": TMP_VOLUME, "mountPath": "/tmp"}]  # noqa: S108 - in the container, a volume of its own
