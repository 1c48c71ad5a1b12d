"""The annotation of an injected pod: what cannot be seen in it, and is needed to remove the sidecar."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from kafka_sidecar.deploy.edits import KEPT, Was
from kafka_sidecar.deploy.yaml_tree import ManifestError

ANNOTATION = "kafka-sidecar/injected"


@dataclass(frozen=True, slots=True)
class Record:
    """Paths are those below the pod, with the names of containers: `containers/app/env`."""

    collections: dict[str, Was] = field(default_factory=dict)
    """Collections that were absent (None) or empty (how that was written)."""
    variables: dict[str, list[str] | None] = field(default_factory=dict)
    """Variables: None if absent; the texts of the value, of which the last one needs no anchor; [] if it had none."""

    def note(self, path: str, was: Was) -> None:
        if was != KEPT:
            self.collections[path] = was

    def was(self, path: str) -> Was:
        return self.collections.get(path, KEPT)

    def of_container(self, path: str) -> dict[str, list[str] | None]:
        """The variables of one container, by name."""
        prefix = f"{path}/"
        return {name.removeprefix(prefix): was for name, was in self.variables.items() if name.startswith(prefix)}

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


def parse_record(annotation: str) -> Record:
    """The record of an annotation; ManifestError if it was changed."""
    try:
        match json.loads(annotation):
            case {"collections": dict(collections), "variables": dict(variables)}:
                return Record(collections, variables)
    except ValueError:
        pass
    raise ManifestError(f"the annotation {ANNOTATION} was changed: inject into the original manifest")
