"""Adds the sidecar to the pods of a manifest, and removes it again.

An annotation of the pod has what cannot be seen in it: what was there before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import yaml

from kafka_sidecar.deploy import manifest
from kafka_sidecar.deploy.container import (
    CONFIG_VOLUME,
    NAME,
    TMP_VOLUME,
    TOKEN_VOLUME,
    VARIABLE,
    Sidecar,
    build_container,
    build_volumes,
)
from kafka_sidecar.deploy.manifest import ManifestError, Mapping, Pod, find_pods, unshared, value_at, written

ANNOTATION = "kafka-sidecar/injected"
EXIT_WHEN_UNUSED = "20s"
VALUES = ("value", "valueFrom")
FILE = "kafka-sidecar.yaml"
BROKERS = ("bootstrap_servers", "bootstrap.servers")  # ours, and Kafka's name of it


@dataclass(frozen=True, slots=True)
class Changed:
    """A manifest with the sidecar, or without it, and the workloads that were changed."""

    text: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """What a pod was before. Paths are those below it, with the names of containers: `containers/app/env`."""

    collections: dict[str, list[Any]] = field(default_factory=dict)
    """Collections that were absent ([]) or empty (a list of what was there). Not those that had something."""
    variables: dict[str, Mapping | None] = field(default_factory=dict)
    """Variables: None if absent, else their `value` or `valueFrom`, if any."""


def inject(text: str, sidecar: Sidecar, variables: tuple[str, ...] = (VARIABLE,)) -> Changed:
    """Add the sidecar to every pod, in place of one that was injected before. ManifestError if one cannot have it."""
    original = remove(text).text
    lacks = sidecar.config_map is None or _lacks_brokers(original, sidecar.config_map)
    needed = variables if sidecar.bootstrap_servers is None and lacks else ()

    def change(pod: Pod, was: Pod) -> bool:
        """``was``: what the pod is before the first change; another one may share its spec."""
        _check(was, sidecar)
        own = sidecar
        if needed:
            own = replace(own, bootstrap_servers=_own_brokers(was, needed, sidecar.config_map))
        if own.is_plain and was.spec.get("restartPolicy") in ("Never", "OnFailure"):  # it must not keep the pod
            own = replace(own, exit_when_unused=EXIT_WHEN_UNUSED)
        _add_to(pod, own, variables, _record(was, own, variables))
        return True

    return _change(original, change)


def remove(text: str) -> Changed:
    """Remove the sidecar from every pod to which it was added, and restore what was there before."""
    return _change(text, _remove_from) if ANNOTATION in text else Changed(text, ())


def _change(text: str, change: Callable[[Pod, Pod], bool]) -> Changed:
    names: list[str] = []

    def change_document(root: Any) -> bool:
        before, alone = unshared(root), unshared(root)  # the latter is changed as if it had no aliases
        done = []
        for pod, was, other in zip(find_pods(root), find_pods(before), find_pods(alone), strict=True):
            try:
                if change(pod, was):
                    change(other, was)
                    done.append(str(pod))
            except ManifestError as error:
                raise ManifestError(f"{pod}: {error}") from error
        if unshared(root) != alone:
            raise ManifestError(f"{done[0]}: an alias shares what is changed with something else; write it out")
        names.extend(done)
        return bool(done)

    return Changed(manifest.change(text, change_document), tuple(names))


def _items(owner: Any, key: str) -> list[Any]:
    """The mappings of the list under a key; none where there is no list."""
    found = owner.get(key) if isinstance(owner, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _containers(spec: Mapping, sidecar: Sidecar, variables: tuple[str, ...]) -> Iterator[tuple[str, Any, list[str]]]:
    """Path and container, and which variables it gets: initial ones those that they have."""
    for container in _items(spec, "containers"):
        yield f"containers/{container.get('name')}", container, list(variables)
    for container in () if sidecar.is_plain else _items(spec, "initContainers"):
        names = [item.get("name") for item in _items(container, "env")]
        if used := [name for name in variables if name in names]:
            yield f"initContainers/{container.get('name')}", container, used


def _check(pod: Pod, sidecar: Sidecar) -> None:
    containers = _items(pod.spec, "containers")
    others = [*containers, *_items(pod.spec, "initContainers")]
    if not containers:
        raise ManifestError("it has no containers")
    if any(container.get("name") == NAME for container in others):
        raise ManifestError(f'it has a container "{NAME}" that was not injected: remove it from the manifest')
    for flag, number in (("--port", sidecar.port), ("--admin-port", sidecar.admin_port)):
        for container in others:
            if str(number) in [str(port.get("containerPort")) for port in _items(container, "ports")]:
                owner = container.get("name")
                raise ManifestError(f"container {owner} uses port {number}: choose another with {flag}")


def _own_brokers(pod: Pod, variables: tuple[str, ...], config_map: str | None) -> Mapping:
    """What the application's own variables have for its brokers."""
    found: list[Mapping] = []
    for container in _items(pod.spec, "containers"):
        for item in _items(container, "env"):
            brokers = _value_of(item) if item.get("name") in variables else {}
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


def _value_of(variable: Mapping) -> Mapping:
    return {key: variable[key] for key in VALUES if key in variable}


def _record(pod: Pod, sidecar: Sidecar, variables: tuple[str, ...]) -> Record:
    record = Record()

    def note(path: str, owner: Any, key: str) -> None:
        if not owner.get(key):
            record.collections[path] = [owner[key]] if key in owner else []

    for path, container, names in _containers(pod.spec, sidecar, variables):
        note(f"{path}/env", container, "env")
        there = {item.get("name"): _value_of(item) for item in _items(container, "env")}
        record.variables.update({f"{path}/{name}": there.get(name) for name in names})
    note(_place(sidecar), pod.spec, _place(sidecar))
    note("volumes", pod.spec, "volumes")
    note("metadata", pod.template, "metadata")
    note("metadata/annotations", pod.template.get("metadata") or {}, "annotations")
    return record


def _place(sidecar: Sidecar) -> str:
    return "containers" if sidecar.is_plain else "initContainers"


def _add_to(pod: Pod, sidecar: Sidecar, variables: tuple[str, ...], record: Record) -> None:
    """Each step does nothing where it was done before: two pods may share a part by an alias."""
    for _, container, names in list(_containers(pod.spec, sidecar, variables)):
        for name, item in ((one.get("name"), one) for one in _items(container, "env")):
            if name in names:
                _replace(item, {"value": sidecar.address})
        _add(container, "env", [{"name": name, "value": sidecar.address} for name in names])
    _add(pod.spec, _place(sidecar), [build_container(sidecar)])
    _add(pod.spec, "volumes", build_volumes(sidecar))
    metadata = _filled(pod.template, "metadata", {})
    annotations = _filled(metadata, "annotations", {})
    _put(annotations, 0, ANNOTATION, json.dumps(asdict(record), separators=(",", ":"), default=str))


def _add(owner: Mapping, key: str, items: list[Any]) -> None:
    """Add to the top of a list those items whose name it does not have."""
    there = [item.get("name") for item in _items(owner, key)]
    missing = [item for item in items if item["name"] not in there]
    if missing:
        found = _filled(owner, key, [])
        for index, item in enumerate(missing):
            found.insert(index, written(item))


def _filled(owner: Mapping, key: str, empty: Any) -> Any:
    """The collection under a key, a new one in place of an empty one."""
    if not owner.get(key):
        _put(owner, 0, key, empty)
    elif not isinstance(owner[key], type(empty)):
        raise ManifestError(f"{key}: write a {'list' if empty == [] else 'mapping'}")
    return owner[key]


def _put(owner: Mapping, position: int, key: str, value: Any) -> None:
    """Set a key; a new one is inserted, where the mapping has an order that a person reads."""
    insert = getattr(owner, "insert", None)
    if key in owner or insert is None:
        owner[key] = written(value)
    else:
        insert(position, key, written(value))


def _replace(variable: Mapping, value: Mapping) -> None:
    """Give a variable another `value` or `valueFrom`, or none."""
    keys = [key for key in variable if key in VALUES]
    position = list(variable).index(keys[0]) if keys else len(variable)
    for key in keys:
        if key not in value:
            del variable[key]
    for key, one in value.items():
        _put(variable, position, key, one)


def _remove_from(pod: Pod, was: Pod) -> bool:
    annotation = value_at(was.template, "metadata", "annotations", ANNOTATION)
    if not annotation:
        return False
    record = _parse(str(annotation))
    for path in ("containers", "initContainers"):
        for container in _items(pod.spec, path):
            _restore(f"{path}/{container.get('name')}", container, record)
        _take(pod.spec, path, record.collections.get(path), lambda item: item.get("name") == NAME)
    volumes = (CONFIG_VOLUME, TOKEN_VOLUME, TMP_VOLUME)
    _take(pod.spec, "volumes", record.collections.get("volumes"), lambda item: item.get("name") in volumes)
    metadata = pod.template["metadata"]
    metadata["annotations"].pop(ANNOTATION, None)
    _empty(metadata, "annotations", record.collections.get("metadata/annotations"))
    _empty(pod.template, "metadata", record.collections.get("metadata"))
    return True


def _parse(annotation: str) -> Record:
    try:
        match json.loads(annotation):
            case {"collections": dict(collections), "variables": dict(variables)}:
                return Record(collections, variables)
    except ValueError:
        pass
    raise ManifestError(f"the annotation {ANNOTATION} was changed: inject into the original manifest")


def _restore(path: str, container: Mapping, record: Record) -> None:
    """The variables of one container."""
    prefix = f"{path}/"
    before = {name.removeprefix(prefix): was for name, was in record.variables.items() if name.startswith(prefix)}
    for item in _items(container, "env"):
        if (value := before.get(str(item.get("name")))) is not None:
            _replace(item, value)
    added = [name for name, value in before.items() if value is None]
    _take(container, "env", record.collections.get(f"{path}/env"), lambda item: item.get("name") in added)


def _take(owner: Mapping, key: str, was: list[Any] | None, is_added: Callable[[Any], bool]) -> None:
    """Remove what was added to a list, and restore what it was, if nothing else is in it."""
    found = owner.get(key)
    if isinstance(found, list):
        for index in reversed([place for place, item in enumerate(found) if isinstance(item, dict) and is_added(item)]):
            del found[index]
    _empty(owner, key, was)


def _empty(owner: Mapping, key: str, was: list[Any] | None) -> None:
    if was is not None and key in owner and not owner[key]:
        if was:
            owner[key] = was[0]
        else:
            del owner[key]


def _lacks_brokers(text: str, name: str) -> bool:
    """Whether the ConfigMap is in the manifest, and its configuration file has no brokers."""
    files = [value_at(found, "data", FILE) for root in manifest.documents(text) for found in _config_maps(root, name)]
    return bool(files) and not any(file is None or _has_brokers(file) for file in files)


def _has_brokers(file: Any) -> bool:
    try:
        found = yaml.safe_load(str(file))
    except yaml.YAMLError:
        return True  # `kafka-sidecar validate` says what is wrong with it
    return isinstance(found, dict) and any(found.get(key) for key in BROKERS)


def _config_maps(root: Any, name: str) -> Iterator[Mapping]:
    for item in _items(root, "items"):
        yield from _config_maps(item, name)
    if value_at(root, "kind") == "ConfigMap" and value_at(root, "metadata", "name") == name:
        yield root
