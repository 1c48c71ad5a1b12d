"""The pod that rendered manifests describe, and the sidecar's container in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NAME = "kafka-sidecar"


def pod_of(manifests: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The `spec` of the Deployment's pods."""
    (deployment,) = [one for one in manifests if one["kind"] == "Deployment"]
    return dict(deployment["spec"]["template"]["spec"])


def container_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The sidecar, wherever it is."""
    (container,) = [one for one in [*(pod.get("initContainers") or []), *pod["containers"]] if one["name"] == NAME]
    return dict(container)


def is_native(pod: Mapping[str, Any]) -> bool:
    return any(one["name"] == NAME for one in pod.get("initContainers") or [])
