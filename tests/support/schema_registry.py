"""A registry in memory for policies: it knows what it is given, and counts what it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.language import Schema
from kafka_sidecar.schemas.registry import Answer, NotFetchedError, Question, Registry, RegistryError, SchemaOf

UNAVAILABLE = 500  # an id for which the registry does not answer


class RegistryInMemory(Registry):
    """Answers with what it was given. The others do not exist; they have to be fetched first if it is ``cold``."""

    def __init__(self, answers: Mapping[Question, Answer], cold: bool = False) -> None:
        self.answers = dict(answers)
        self.asked: Counter[Question] = Counter()
        self.failure: str | None = None
        self.fetched: list[Question] = []
        self.is_cold = cold

    def get(self, question: Question) -> Answer:
        self.asked[question] += 1
        if self.failure is not None:
            raise RegistryError(self.failure)
        if self.is_cold and question not in self.fetched:
            raise NotFetchedError(question)
        if isinstance(question, SchemaOf) and question.id.value == UNAVAILABLE:
            raise RegistryError("has not answered")
        return self.answers.get(question)

    async def fetch(self, question: Question) -> None:
        self.fetched.append(question)


def cold_registry(schemas: Mapping[SchemaId, Schema]) -> RegistryInMemory:
    """One that knows the schemas of some ids once they have been asked for."""
    return RegistryInMemory({SchemaOf(one): schema for one, schema in schemas.items()}, cold=True)
