"""A registry of schemas: what is asked of it, and what is kept of its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.language import Schema


@dataclass(frozen=True, slots=True)
class SchemaOf:
    """The schema of an id. Answer: `Schema`, or None if the registry has none."""

    id: SchemaId


@dataclass(frozen=True, slots=True)
class VersionsOf:
    """The subjects that an id is registered for, contexts included. Answer: frozenset of (subject, version)."""

    id: SchemaId


@dataclass(frozen=True, slots=True)
class LatestOf:
    """The newest version of a subject. Answer: (version, `SchemaId` of kind "id"), or None if there is no subject."""

    subject: str


@dataclass(frozen=True, slots=True)
class CompatibleWith:
    """Whether the schema of an id is compatible with the newest version of a subject, as the registry says: bool."""

    subject: str
    id: SchemaId


Question = SchemaOf | VersionsOf | LatestOf | CompatibleWith
Answer = Schema | frozenset[tuple[str, int]] | tuple[int, SchemaId] | bool | None


class RegistryError(Exception):
    """The registry has not answered, and nothing older is known. One line; no secret."""


class NotFetchedError(Exception):
    """The answer is not known here: `Registry.fetch` gets it."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


class Registry:
    """One registry, at one or several addresses. Shared by all that name it."""

    def get(self, question: Question) -> Answer:
        """What is known, at once and from any thread.

        Raises:
            NotFetchedError: it has to be fetched.
            RegistryError: it could not be fetched a moment ago.
        """
        raise NotImplementedError

    async def fetch(self, question: Question) -> None:
        """Ask the registry; all who ask the same meanwhile wait for one request. Afterwards `get` answers, or raises
        RegistryError."""
        raise NotImplementedError


async def fetch_all(registry: Registry, questions: Iterable[Question]) -> None:
    """Ask all of these at once."""
    await asyncio.gather(*map(registry.fetch, questions))


def _resolve(name: str, info: ValidationInfo) -> Registry:
    registries: Mapping[str, Registry] = (info.context or {}).get("registries", {})
    if name not in registries:
        known = ", ".join(sorted(registries)) or "none"
        raise ValueError(f"there is no schema registry {name!r}: add it under schema_registries: (there: {known})")
    return registries[name]


SettingsRegistry = Annotated[str, AfterValidator(_resolve)]  # a name of schema_registries:; a Registry once it is read
