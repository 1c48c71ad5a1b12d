"""Policies scripted by the values of records; configured by module and class, as an operator's own are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from kafka_sidecar.codec.records import Record
from kafka_sidecar.policies.contract import (
    Hints,
    InvalidRecordError,
    RecordValidationPolicy,
    TopicMetadata,
    UnavailableError,
    Unresolved,
)


class Stub(RecordValidationPolicy):
    """Rejects values that begin with "bad", fails on "bug", cannot decide on "away", resolves the rest of "ask ..."."""

    opened: list[Stub] = []  # noqa: RUF012 - of the whole process: a test finds its own at the end

    def __init__(self) -> None:
        self.known: set[object] = set()
        self.asked: list[object] = []  # keys, once for each fetch
        self.threads: set[int] = set()
        self.topics: set[TopicMetadata] = set()
        self.closed = 0
        self.gate = asyncio.Event()  # cleared: a fetch waits until it is set
        self.gate.set()
        self.refused = "bad"
        Stub.opened.append(self)

    def configure(self, configs: Mapping[str, Any]) -> None:
        if unknown := configs.keys() - {"refused"}:
            raise ValueError(f"{', '.join(unknown)}: is not a setting")
        self.refused = configs.get("refused", "bad")

    def check(self, text: str) -> None:
        if text == "nonsense":
            raise ValueError("nonsense means nothing")

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        self.threads.add(threading.get_ident())
        self.topics.add(topic)
        word, _, rest = (record.value or b"").partition(b" ")
        if word == self.refused.encode():
            raise InvalidRecordError(f"{topic.topic} takes no {self.refused}", self.refused)
        if word == b"bug":
            raise RuntimeError("a bug")
        if word == b"away":
            raise UnavailableError("the registry is away")
        if word == b"ask" and rest not in self.known:
            raise Unresolved(rest)

    async def resolve(self, key: object) -> None:
        self.asked.append(key)
        await self.gate.wait()
        if key == b"unavailable":
            raise OSError("registry unavailable")
        if key != b"in vain":
            self.known.add(key)

    def close(self) -> None:
        self.closed += 1


class HeadersOnly(Stub):
    """Reads only the header of a batch."""

    def hints(self) -> Hints:
        return Hints()

    def validate(self, topic: TopicMetadata, record: Record) -> None:
        if topic.validation_policy == "never":
            raise InvalidRecordError("never")
