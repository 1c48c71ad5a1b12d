"""Adds the sidecar to the pods of a manifest, and removes it again.

An annotation of the pod has what cannot be seen in it: what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kafka_sidecar.deploy import yaml_tree
from kafka_sidecar.deploy.config_maps import lacks_brokers
from kafka_sidecar.deploy.container import (
    CONFIG_VOLUME,
    NAME,
    TMP_VOLUME,
    Sidecar,
    build_container,
    build_volumes,
)
from kafka_sidecar.deploy.edits import KEPT, Edits
from kafka_sidecar.deploy.pods import Pod, find_pods
from kafka_sidecar.deploy.record import ANNOTATION, Record, parse_record
from kafka_sidecar.deploy.yaml_tree import Document, Entry, ManifestError, Node, Sequence, is_empty

VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
EXIT_WHEN_UNUSED = "20s"
VALUES = ("value", "valueFrom")


@dataclass(frozen=True, slots=True)
class Changed:
    """A manifest with the sidecar, or without it, and the workloads that were changed."""

    text: str
    pods: tuple[str, ...]


def inject(text: str, sidecar: Sidecar, variables: Iterable[str] = (VARIABLE,)) -> Changed:
    """Add the sidecar to every pod, in place of one that was injected before. ManifestError if one cannot have it."""
    names, original = tuple(variables), remove(text).text
    lacks = sidecar.config_map is None or lacks_brokers(yaml_tree.parse(original), sidecar.config_map)
    needed = names if sidecar.bootstrap_servers is None and lacks else ()
    return _change(original, lambda pod, document, edits: _Injection(pod, document, edits).run(sidecar, names, needed))


def remove(text: str) -> Changed:
    """Remove the sidecar from every pod to which it was added, and restore what was there before."""
    if ANNOTATION not in text:
        return Changed(text, ())
    changed = _change(text, lambda pod, document, edits: _Removal(pod, document, edits).run(0))
    try:
        yaml_tree.parse(changed.text)
    except ManifestError:  # another program has written it again, so that restored aliases have lost their anchors
        return _change(text, lambda pod, document, edits: _Removal(pod, document, edits).run(-1))
    return changed


def _change(text: str, change: Callable[[Pod, Document, Edits], bool]) -> Changed:
    is_ended = text.endswith("\n")
    changed, names = text if is_ended else f"{text}\n", list[str]()
    for document in reversed(yaml_tree.parse(changed)):  # so that the places of the others stay
        pods = list(find_pods(document))
        edits = Edits(changed, document, _indents_lists(changed, document, pods))
        done = [str(pod) for pod in pods if _change_pod(pod, document, edits, change)]
        names[:0] = done
        changed = edits.apply()
    return Changed(changed if is_ended else changed.removesuffix("\n"), tuple(names))


def _change_pod(pod: Pod, document: Document, edits: Edits, change: Callable[[Pod, Document, Edits], bool]) -> bool:
    try:
        return change(pod, document, edits)
    except ManifestError as error:
        raise ManifestError(f"{pod}: {error}") from error


def _indents_lists(text: str, document: Document, pods: list[Pod]) -> bool:
    """Whether the containers are indented under their key."""
    for pod in pods:
        found = document.find(pod.spec, "containers")
        value = document.resolve(found[1].value) if found is not None else None
        if found is not None and isinstance(value, Sequence) and not value.is_flow:
            key, dash = found[1].start, value.first_dash
            return dash - text.rfind("\n", 0, dash) > key - text.rfind("\n", 0, key)
    return True


class _Injection:
    def __init__(self, pod: Pod, document: Document, edits: Edits) -> None:
        self._pod = pod
        self._document = document
        self._edits = edits
        self._record = Record()

    def run(self, sidecar: Sidecar, variables: tuple[str, ...], with_brokers: tuple[str, ...]) -> bool:
        """Set ``variables`` to the sidecar's address; one of ``with_brokers`` must have the brokers."""
        spec, place = self._pod.spec, "containers" if sidecar.is_plain else "initContainers"
        self._check(sidecar)
        if with_brokers:
            sidecar = replace(sidecar, bootstrap_servers=self._own_brokers(with_brokers, sidecar.config_map))
        if sidecar.is_plain and self._ends():
            sidecar = replace(sidecar, exit_when_unused=EXIT_WHEN_UNUSED)
        for path in ("containers",) if sidecar.is_plain else ("containers", "initContainers"):
            for container in self._document.items(spec, path):
                used = variables if path == "containers" else self._used(container, variables)
                self._set(f"{path}/{self._document.text(container, 'name')}", container, used, sidecar.address)
        self._add(spec, place, [build_container(sidecar)])
        self._add(spec, "volumes", build_volumes(sidecar))
        self._annotate()
        return True

    def _check(self, sidecar: Sidecar) -> None:
        spec, text = self._pod.spec, self._document.text
        others = [*self._document.items(spec, "containers"), *self._document.items(spec, "initContainers")]
        if not self._document.items(spec, "containers"):
            raise ManifestError("it has no containers")
        if any(text(container, "name") == NAME for container in others):
            raise ManifestError(f'it has a container "{NAME}" that was not injected: remove it from the manifest')
        for flag, number in (("--port", sidecar.port), ("--admin-port", sidecar.admin_port)):
            for container in others:
                if str(number) in [text(port, "containerPort") for port in self._document.items(container, "ports")]:
                    owner = text(container, "name")
                    raise ManifestError(f"container {owner} uses port {number}: choose another with {flag}")

    def _ends(self) -> bool:
        """Whether the pod ends with its containers, which a plain sidecar must not prevent."""
        return self._document.text(self._pod.spec, "restartPolicy") in ("Never", "OnFailure")

    def _own_brokers(self, variables: tuple[str, ...], config_map: str | None) -> dict[str, Any]:
        """What the application's own variables have for its brokers."""
        found: list[dict[str, Any]] = []
        for container in self._document.items(self._pod.spec, "containers"):
            for item in self._document.items(container, "env"):
                if self._document.text(item, "name") in variables:
                    brokers = {key: value for key, value in self._document.data(item).items() if key in VALUES}
                    found += [brokers] if brokers and brokers not in found else []
        file = f"in ConfigMap {config_map}" if config_map is not None else "a file with --config-map"
        names, remedy = " or ".join(variables), f"name the brokers with --bootstrap-servers, or {file}"
        if not found:
            raise ManifestError(f"no container has {names}: {remedy}")
        if len(found) > 1:
            raise ManifestError(f"{names} has different values: {remedy}")
        if "$(" in str(found[0].get("value", "")):
            raise ManifestError(f"{names} refers to other variables of its container: {remedy}")
        return found[0]

    def _used(self, container: Node, variables: tuple[str, ...]) -> tuple[str, ...]:
        names = {self._document.text(item, "name") for item in self._document.items(container, "env")}
        return tuple(name for name in variables if name in names)

    def _set(self, path: str, container: Node, variables: tuple[str, ...], address: str) -> None:
        """Set the variables of one container."""
        assert isinstance(container, yaml_tree.Mapping)
        if not variables:
            return
        self._record.note(f"{path}/env", self._edits.state(container, "env"))
        there = {self._document.text(item, "name"): item for item in self._document.items(container, "env")}
        added = [{"name": name, "value": address} for name in variables if name not in there]
        if added:
            self._edits.add(container, "env", added)
        for name in variables:
            item = there.get(name)
            was = self._replace(item, address) if isinstance(item, yaml_tree.Mapping) else None
            self._record.variables[f"{path}/{name}"] = was

    def _replace(self, item: yaml_tree.Mapping, address: str) -> list[str]:
        """Replace the value of a variable; returns the text that was there, none if it had no value."""
        found = next((found for key in VALUES if (found := self._document.find(item, key)) is not None), None)
        if found is None:
            self._edits.add_entry(item, "value", address)
            return []
        return self._edits.replace_entry(*found, "value", address)

    def _add(self, owner: yaml_tree.Mapping, key: str, items: list[Any]) -> None:
        self._record.note(key, self._edits.state(owner, key))
        self._edits.add(owner, key, items)

    def _annotate(self) -> None:
        """The record, in the pod's annotations: itself too, if these or the metadata were empty."""
        template, metadata = self._pod.template, self._document.get(self._pod.template, "metadata")
        if isinstance(metadata, yaml_tree.Mapping) and not is_empty(metadata):
            self._record.note("metadata/annotations", self._edits.state(metadata, "annotations"))
            self._edits.add(metadata, "annotations", self._annotation())
        else:
            self._record.note("metadata", self._edits.state(template, "metadata"))
            self._edits.add(template, "metadata", {"annotations": self._annotation()})

    def _annotation(self) -> dict[str, str]:
        return {ANNOTATION: self._record.to_json()}


class _Removal:
    def __init__(self, pod: Pod, document: Document, edits: Edits) -> None:
        self._pod = pod
        self._document = document
        self._edits = edits
        self._record = Record()

    def run(self, which: int) -> bool:
        """``which`` of a variable's texts is restored."""
        spec, annotation = (
            self._pod.spec,
            self._document.text(self._pod.template, "metadata", "annotations", ANNOTATION),
        )
        if not annotation:
            return False
        self._record = parse_record(annotation)
        for path in ("containers", "initContainers"):
            for container in self._document.items(spec, path):
                assert isinstance(container, yaml_tree.Mapping)
                self._restore(f"{path}/{self._document.text(container, 'name')}", container, which)
            self._take(spec, path, NAME)
        self._take(spec, "volumes", CONFIG_VOLUME, TMP_VOLUME)
        self._take_annotation()
        return True

    def _take(self, owner: yaml_tree.Mapping, key: str, *names: str, path: str = "") -> None:
        def is_added(item: Node | Entry) -> bool:
            return isinstance(item, Node) and self._document.text(item, "name") in names

        self._edits.take(owner, key, is_added, self._record.was(path or key))

    def _restore(self, path: str, container: yaml_tree.Mapping, which: int) -> None:
        """The variables of one container."""
        was = self._record.of_container(path)
        for item in self._document.items(container, "env"):
            texts = was.get(self._document.text(item, "name"))
            found = self._document.find(item, "value")
            if texts is not None and found is not None:
                self._edits.restore_entry(*found, texts[which] if texts else "")
        self._take(container, "env", *(name for name, texts in was.items() if texts is None), path=f"{path}/env")

    def _take_annotation(self) -> None:
        template, metadata = self._pod.template, self._document.get(self._pod.template, "metadata")
        assert isinstance(metadata, yaml_tree.Mapping)
        annotations = self._document.get(metadata, "annotations")
        assert isinstance(annotations, yaml_tree.Mapping)
        is_alone = len(annotations.children) == len(metadata.children) == 1
        is_own = self._record.was("metadata") != KEPT
        if is_alone and is_own:
            self._edits.take(template, "metadata", lambda _: True, self._record.was("metadata"))
            return
        was = None if is_own else self._record.was("metadata/annotations")
        self._edits.take(metadata, "annotations", self._is_annotation, was)

    def _is_annotation(self, child: Node | Entry) -> bool:
        key = self._document.resolve(child.key) if isinstance(child, Entry) else None
        return isinstance(key, yaml_tree.Scalar) and key.value == ANNOTATION
