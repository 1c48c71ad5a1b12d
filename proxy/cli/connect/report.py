"""The results of checks: a line each, and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Result(StrEnum):
    OK = "ok"
    WARNING = "warning"  # the sidecar does without
    FAILED = "failed"
    SKIPPED = "skipped"  # it needs what has failed


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried. ``remedy`` is empty where nothing has to be done."""

    what: str  # a kind: broker, login, cluster, topic, right, ...
    name: str
    result: Result
    detail: str
    remedy: str = ""

    @property
    def line(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.result:8} {self.what} {self.name}: {self.detail}{remedy}"

    @property
    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def ok(what: str, name: str, detail: str) -> Check:
    return Check(what, name, Result.OK, detail)


def failed(what: str, name: str, detail: str, remedy: str = "") -> Check:
    return Check(what, name, Result.FAILED, detail, remedy)


def warning(what: str, name: str, detail: str, remedy: str = "") -> Check:
    return Check(what, name, Result.WARNING, detail, remedy)


def skipped(what: str, name: str, detail: str) -> Check:
    return Check(what, name, Result.SKIPPED, detail)
