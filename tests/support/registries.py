"""A registry of schemas that are at hand."""

from __future__ import annotations

from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.language import Schema
from kafka_sidecar.schemas.registry import Answer, NotFetchedError, Question, RegistryError, SchemaOf
from kafka_sidecar.schemas.registry import Registry as SchemaRegistry

UNAVAILABLE = 500  # an id for which the registry does not answer


class Registry(SchemaRegistry):
    """Knows the schemas of some ids once they have been asked for."""

    def __init__(self, schemas: dict[SchemaId, Schema]) -> None:
        self.fetched: list[Question] = []
        self._known = schemas

    def get(self, question: Question) -> Answer:
        assert isinstance(question, SchemaOf)
        if question not in self.fetched:
            raise NotFetchedError(question)
        if question.id.value == UNAVAILABLE:
            raise RegistryError("has not answered")
        return self._known.get(question.id)

    async def fetch(self, question: Question) -> None:
        self.fetched.append(question)
