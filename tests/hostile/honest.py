"""What honest clients went through beside an attack: the lines that HonestClient.java prints, and what must not be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.tool_host import Answer


@dataclass(frozen=True, slots=True)
class Waits:
    """How long honest records took: when each was sent (seconds since 1970), and how long it took (ms)."""

    times: tuple[tuple[str, float, float], ...]
    failures: tuple[str, ...] = ()

    @classmethod
    def read(cls, answer: Answer) -> Waits:
        split = (line.split() for line in answer.out.splitlines())
        times = tuple((kind, int(ms) / 1e3, int(us) / 1e3 if us != "-1" else float("inf")) for kind, ms, us in split)
        return cls(times, tuple(_failures(answer, times)))

    def worst(self, kind: str, begin: float, end: float) -> float:
        """The 99th percentile of those sent in between."""
        found = sorted(ms for name, sent, ms in self.times if name == kind and begin <= sent < end)
        return found[int(len(found) * 0.99)] if found else float("inf")


def _failures(answer: Answer, times: tuple[tuple[str, float, float], ...]) -> Iterator[str]:
    if answer.code != 0:
        how = "did not end in time" if answer.code is None else f"ended with {answer.code}"
        yield f"the Java clients {how}: {(answer.err.strip().splitlines() or ['no error output'])[-1]}"
    acknowledged = sum(kind == "ack" and ms != float("inf") for kind, _, ms in times)
    rejected = sum(kind != "read" and ms == float("inf") for kind, _, ms in times)
    unread = acknowledged - sum(kind == "read" for kind, *_ in times)
    if not acknowledged:
        yield "no honest record was acknowledged"
    if rejected:
        yield f"{rejected} honest records were not acknowledged"
    if unread > 0:
        yield f"{unread} honest records were acknowledged and not read"
