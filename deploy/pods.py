"""The pods of a manifest: which kinds have one, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka_sidecar.deploy.yaml_tree import Document, Mapping, Node, Sequence

# (API group, kind) -> where the pod's metadata and spec are. All other kinds are left unchanged.
TEMPLATES = {
    ("", "Pod"): (),
    ("", "PodTemplate"): ("template",),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch", "Job"): ("spec", "template"),
}


@dataclass(frozen=True, slots=True)
class Pod:
    """The template of a pod, or the pod itself."""

    kind: str
    name: str
    template: Mapping
    """It has `metadata`, which may be absent, and `spec`."""
    spec: Mapping

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def find_pods(document: Document, node: Node | None = None, kind: str = "", version: str = "") -> Iterator[Pod]:
    """The pods of a document, or of an item of a list, whose own kind and API version may be absent."""
    root = document.resolve(node or document.root)
    if not isinstance(root, Mapping):
        return
    kind, version = document.text(root, "kind") or kind, document.text(root, "apiVersion") or version
    items = document.get(root, "items")
    if kind.endswith("List") and isinstance(items, Sequence):
        for item in items.children:
            yield from find_pods(document, item, kind.removesuffix("List"), version)
        return
    group = version.rpartition("/")[0]
    if (group, kind) in TEMPLATES:
        template = document.get(root, *TEMPLATES[group, kind])
        spec = document.get(template, "spec") if template is not None else None
        if isinstance(template, Mapping) and isinstance(spec, Mapping):
            name = document.text(root, "metadata", "name") or document.text(root, "metadata", "generateName")
            yield Pod(kind, name, template, spec)
