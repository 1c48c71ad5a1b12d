"""Whether a ConfigMap of a manifest names the brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import yaml

from kafka_sidecar.deploy.yaml_tree import Document, Mapping, Node, Sequence

FILE = "kafka-sidecar.yaml"
BROKERS = ("bootstrap_servers", "bootstrap.servers")  # ours, and Kafka's name of it


def lacks_brokers(documents: Iterable[Document], name: str) -> bool:
    """Whether the ConfigMap is in the manifest, and its configuration file has no brokers."""
    files = [document.get(found, "data", FILE) for document in documents for found in _find(document, name)]
    return bool(files) and not any(file is None or _has_brokers(file) for file in files)


def _has_brokers(file: Node) -> bool:
    try:
        found = yaml.safe_load(getattr(file, "value", ""))
    except yaml.YAMLError:
        return True  # `kafka-sidecar validate` says what is wrong with it
    return isinstance(found, dict) and any(found.get(key) for key in BROKERS)


def _find(document: Document, name: str, node: Node | None = None) -> Iterator[Mapping]:
    root = document.resolve(node or document.root)
    if not isinstance(root, Mapping):
        return
    items = document.get(root, "items")
    for item in items.children if isinstance(items, Sequence) else ():
        yield from _find(document, name, item)
    if document.text(root, "kind") == "ConfigMap" and document.text(root, "metadata", "name") == name:
        yield root
