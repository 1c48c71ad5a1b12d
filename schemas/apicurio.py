"""What Apicurio Registry 3 answers by its own API, about its content ids and global ids."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kafka_sidecar.outbound.http import Response
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.registry import (
    Found,
    Question,
    RegistryError,
    RegistrySettings,
    SchemaOf,
    VersionsOf,
)
from kafka_sidecar.schemas.registry_client import (
    MAX_QUESTION_S,
    MAX_REFERENCE_DEPTH,
    MAX_REFERENCES,
    Link,
    Sources,
    compiled,
    parsed,
)

API = "/apis/registry/v3"
# The kind of an id: the paths of contents, and the parameter of a search.
PATHS: Mapping[str, tuple[str, str]] = {
    "content_id": ("contentIds", "contentId"),
    "id": ("contentIds", "contentId"),  # its serializers write the content id where Confluent's write theirs
    "global_id": ("globalIds", "globalId"),
}
DEFAULT_GROUP = "default"
MAX_FOUND = 500  # versions with the same content


class ApicurioRegistry:
    """Answers questions, in the thread of the caller."""

    def __init__(self, settings: RegistrySettings, link: Link) -> None:
        self._settings = settings
        self._link = link

    def __call__(self, question: Question) -> Found:
        """Raises RegistryError."""
        until = time.monotonic() + MAX_QUESTION_S
        match question:
            case SchemaOf(schema_id):
                return self._schema(schema_id, until)
            case VersionsOf(schema_id):
                return Found(frozenset(self._subjects(schema_id, until)))
            case _:
                raise RegistryError(
                    "its kind is apicurio, which is not asked about subjects: set kind to confluent and urls to its "
                    "/apis/ccompat/v7"
                )

    def _schema(self, schema_id: SchemaId, until: float) -> Found:
        where = f"{API}/ids/{self._path_of(schema_id)}"
        content = self._get(where, until)
        if content is None:
            return Found(None)
        found = self._search(schema_id, until)
        if not found:
            return Found(None)
        sources = Sources(str(found[0].get("artifactType")), _utf8(content))
        self._add_references(sources, f"{where}/references", (), until)
        return compiled(sources, str(schema_id))

    def _path_of(self, schema_id: SchemaId) -> str:
        if schema_id.kind not in PATHS:
            raise RegistryError(f"its kind is apicurio, which has no {schema_id.kind}: see kind")
        return f"{PATHS[schema_id.kind][0]}/{schema_id.value}"

    def _search(self, schema_id: SchemaId, until: float) -> list[Mapping[str, Any]]:
        """The versions that have the content."""
        self._path_of(schema_id)
        name = PATHS[schema_id.kind][1]
        response = self._get(f"{API}/search/versions?{name}={schema_id.value}&limit={MAX_FOUND}", until)
        found = parsed(response) if response is not None else None
        versions = found.get("versions") if isinstance(found, Mapping) else []
        if not isinstance(versions, list) or not all(isinstance(one, Mapping) for one in versions):
            raise RegistryError("the answer to a search is no list of versions")
        return versions

    def _subjects(self, schema_id: SchemaId, until: float) -> set[tuple[str, int]]:
        return {_subject(one) for one in self._search(schema_id, until)}

    def _add_references(self, sources: Sources, where: str, path: tuple[str, ...], until: float) -> None:
        response = self._get(where, until)
        listed = parsed(response) if response is not None else []
        if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
            raise RegistryError("a schema's references are no list")
        if listed and len(path) >= MAX_REFERENCE_DEPTH:
            raise RegistryError(f"references are nested deeper than {MAX_REFERENCE_DEPTH}")
        for one in listed:
            group = one.get("groupId") or DEFAULT_GROUP
            parts = [quote(str(part), safe="") for part in (group, one.get("artifactId"), one.get("version"))]
            at = f"{API}/groups/{parts[0]}/artifacts/{parts[1]}/versions/{parts[2]}"
            name = str(one.get("name"))
            if at in path:
                raise RegistryError("schemas refer to each other in a circle")
            if name in sources.references:
                continue
            if len(sources.references) >= MAX_REFERENCES:
                raise RegistryError(f"a schema refers to more than {MAX_REFERENCES} others")
            content = self._get(f"{at}/content", until)
            if content is None:
                raise RegistryError(f"a schema refers to {at}, which is not there")
            sources.references[name] = _utf8(content)
            if sources.size > self._settings.max_bytes:
                raise RegistryError(f"a schema has more than {self._settings.max_bytes} bytes with what it refers to")
            self._add_references(sources, f"{at}/references", (*path, at), until)

    def _get(self, path: str, until: float) -> Response | None:
        response = self._link.request(path, until)
        if response.status == 200:
            return response
        found = parsed(response)
        name = str(found.get("name", "")) if isinstance(found, Mapping) else ""
        if response.status == 404 and name.endswith("NotFoundException"):
            return None
        also = f", {name}" if name.isidentifier() else ": this address is not that of an Apicurio Registry 3, see urls"
        raise RegistryError(f"{response.url} responds to {path} with {response.status}{also}")


def _utf8(response: Response) -> str:
    try:
        return response.body.decode()
    except UnicodeDecodeError:
        raise RegistryError("a schema is not text in UTF-8") from None


def _subject(found: Mapping[str, Any]) -> tuple[str, int]:
    """As Confluent's API calls an artifact: without its group."""
    artifact, version = found.get("artifactId"), str(found.get("version"))
    if not isinstance(artifact, str):
        raise RegistryError("a version has no artifactId")
    return artifact, int(version) if version.isdecimal() and len(version) < 10 else 1
