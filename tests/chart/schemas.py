"""Kubernetes' schemas, and those of the Prometheus operator's kinds, as kubeconform reads them: one file for each kind.

    cd tests && python -m chart.schemas WHEEL CRD_FOLDER INTO

The wheel is kubernetes-validate, the folder that of the operator's custom resource definitions.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from harness.helm import VERSIONS

OPERATOR_KINDS = ("podmonitors", "servicemonitors", "prometheusrules")
_FOLDER = "kubernetes_validate/kubernetes-json-schema/v{}-local-strict/"
_DEFINITIONS = "_definitions.json"
_REFERENCE = "/api/_definitions.json#/$defs/"


def write_schemas(wheel: Path, crds: Path, into: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for version in VERSIONS:
            folder = into / f"v{version}"
            folder.mkdir(parents=True, exist_ok=True)
            for name, schema in _of_kubernetes(archive, version):
                (folder / name).write_text(json.dumps(schema))
            for kind in OPERATOR_KINDS:
                text = (crds / f"monitoring.coreos.com_{kind}.yaml").read_text()
                for name, schema in _of_resource(yaml.safe_load(text)):
                    (folder / name).write_text(json.dumps(schema))


def _of_kubernetes(archive: zipfile.ZipFile, version: str) -> Iterator[tuple[str, Any]]:
    """Each kind with the definitions that it needs in the file itself; kubeconform would fetch them."""
    prefix = _FOLDER.format(version)
    definitions = json.loads(archive.read(prefix + _DEFINITIONS))["$defs"]
    for name in archive.namelist():
        if name.startswith(prefix) and not name.endswith(("/", _DEFINITIONS, "/all.json")):
            schema = json.loads(archive.read(name))
            if "x-kubernetes-group-version-kind" not in schema:
                continue  # a part of kinds
            del schema["$id"]
            needed = dict[str, Any]()
            waiting = list(_references(schema))
            while waiting:
                definition = waiting.pop()
                if definition not in needed:
                    needed[definition] = definitions[definition]
                    waiting += _references(needed[definition])
            text = json.dumps({**schema, "$defs": needed}).replace(_REFERENCE, "#/$defs/")
            yield name.removeprefix(prefix), json.loads(text)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):  # JSONSchemaProps has a property of that name
                yield value.rpartition("/")[2]
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _of_resource(definition: Any) -> Iterator[tuple[str, Any]]:
    kind, group = definition["spec"]["names"]["kind"].lower(), definition["spec"]["group"].partition(".")[0]
    for version in definition["spec"]["versions"]:
        yield f"{kind}-{group}-{version['name']}.json", _strict(version["schema"]["openAPIV3Schema"])


def _strict(schema: Any) -> Any:
    """Unknown fields are errors, as with `kubectl --validate=strict`."""
    if isinstance(schema, list):
        return [_strict(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict


if __name__ == "__main__":
    write_schemas(*map(Path, sys.argv[1:]))
