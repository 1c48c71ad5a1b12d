"""A registry in memory for policies: it knows what it is given, and counts what it is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kafka_sidecar.schemas.registry import Answer, NotFetchedError, Question, Registry, RegistryError


class RegistryInMemory(Registry):
    """Answers with what it was given. The others do not exist; they have to be fetched first if it is ``cold``."""

    def __init__(self, answers: Mapping[Question, Answer], cold: bool = False) -> None:
        self.answers = dict(answers)
        self.asked: Counter[Question] = Counter()
        self.newer: dict[Question, Answer] = {}  # once the older one is doubted
        self.failure: str | None = None
        self.is_cold = cold
        self.fetched: set[Question] = set()

    def get(self, question: Question, is_doubted: bool = False) -> Answer:
        self.asked[question] += 1
        if is_doubted and question in self.newer:
            self.fetched.discard(question)
            self.answers[question] = self.newer.pop(question)
        if self.failure is not None:
            raise RegistryError(self.failure)
        if self.is_cold and question not in self.fetched:
            raise NotFetchedError(question)
        return self.answers.get(question)

    async def fetch(self, question: Question) -> None:
        self.fetched.add(question)
