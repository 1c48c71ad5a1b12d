"""A registry of schemas: what is asked of it, and what is kept of its answers."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo

from kafka_sidecar.plugins.effects import asker
from kafka_sidecar.schemas.answers import Kept, Recent, Schemas
from kafka_sidecar.schemas.ids import SchemaId
from kafka_sidecar.schemas.language import Schema
from kafka_sidecar.schemas.turns import Allowance, Job, Turns

THREADS = 4  # requests of one registry that are under way at once
ANSWER_WITHIN_S = 4.5  # less than the proxy lets a policy fetch
OUTAGES = 3  # questions in a row for which it has not responded: nothing is asked for a while then
BUSY_S = 1.0
YOUNG_S = 1.0
DURATION_BUCKETS = 64

log = logging.getLogger(__name__)


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

    def __init__(self, text: str, is_outage: bool = False) -> None:
        super().__init__(text)
        self.is_outage = is_outage  # other questions would not be answered either


class NotFetchedError(Exception):
    """The answer is not known here: `Registry.fetch` gets it."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


@dataclass(frozen=True, slots=True)
class Found:
    """What a registry has answered."""

    answer: Answer
    bytes: int = 0  # that a schema takes here, about


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """One registry, as configured. Those that are equal share one `Registry`."""

    name: str
    urls: tuple[str, ...]
    kind: str = "confluent"  # or "apicurio"
    context: str | None = None  # that ids and subjects belong to
    tls: tuple[tuple[str, str], ...] = ()  # settings of `outbound.http.ClientTls`
    login: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # settings of `outbound.login.Login`
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float = 2.0  # of a request to one address
    max_bytes: int = 4 << 20  # of a response, and of a schema with all that it refers to
    cache_bytes: int = 64 << 20
    subjects_ttl_s: float = 300.0
    missing_ttl_s: float = 5.0
    failure_ttl_s: float = 5.0
    unknown_ids_per_s: float = 20.0


@dataclass(slots=True)
class RegistryStats:
    """What one registry has been asked, and how it is."""

    requests: Counter[str] = field(default_factory=Counter)  # by outcome
    durations: list[int] = field(default_factory=lambda: [0] * DURATION_BUCKETS)  # index: bits of the microseconds
    seconds: float = 0.0
    stale: int = 0  # answers that were older than they should be
    failures: int = 0  # questions without an answer
    failure: str | None = None  # why it does not answer; None: it does, or was not asked yet
    was_reached: bool = False

    def add(self, outcome: str, seconds: float) -> None:
        """A request has ended."""
        self.requests[outcome] += 1
        self.seconds += seconds
        self.durations[max(0, int(seconds * 1e6)).bit_length()] += 1


Ask = Callable[[Question], Found]  # blocks; raises RegistryError


class Registry:
    """One registry, at one or several addresses. Shared by all that name it.

    Schemas are kept for ever, within a limit of bytes; answers about subjects for a time, and longer while the registry
    does not respond. Whoever asks waits for a fetch, but not for the second one of an outage.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        ask: Ask,
        stats: RegistryStats,
        reopen: Callable[[RegistrySettings], Registry],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``reopen``: what opens a registry with these settings in another process."""
        self.settings = settings
        self._reopen = reopen
        self.stats = stats
        self._ask = ask
        self._clock = clock
        self._lock = threading.Lock()
        self._schemas = Schemas(settings.cache_bytes)
        self._subjects = Recent()
        self._missing = Recent()
        self._failures = Recent()  # texts
        self._running: dict[Question, Future[None]] = {}
        self._outages = 0  # questions in a row
        self._down_until = -math.inf
        self._turns = Turns(THREADS, Allowance(settings.unknown_ids_per_s, clock))
        weakref.finalize(self, self._turns.close)

    def __str__(self) -> str:
        return self.settings.name

    def __reduce__(self) -> tuple[Callable[[RegistrySettings], Registry], tuple[RegistrySettings]]:
        """Its settings: another process has a registry of its own."""
        return self._reopen, (self.settings,)

    @property
    def cached(self) -> tuple[int, int]:
        """How many schemas, and their bytes."""
        return len(self._schemas), self._schemas.bytes

    @property
    def held_back(self) -> int:
        """Questions about unknown ids that had to wait for those of others."""
        return self._turns.held_back

    def get(self, question: Question, is_doubted: bool = False) -> Answer:
        """What is known, at once and from any thread.

        Args:
            question: what is asked.
            is_doubted: the answer may have changed since: one about subjects is asked for again if it is older than
                `YOUNG_S`. For callers that would reject something for it.

        Raises:
            NotFetchedError: it has to be fetched.
            RegistryError: it could not be fetched a moment ago.
        """
        if isinstance(question, SchemaOf) and (known := self._schemas.get(question.id)) is not None:
            schema: Answer = known.answer
            return schema
        with self._lock:
            now = self._clock()
            kept = self._find(question)
            if kept is not None and now < kept.until:
                answer: Answer = kept.answer
                if not is_doubted or self._is_young(kept, now):
                    return answer
                kept = Kept(answer, now, True)
                self._subjects.put(question, kept)
            failure = self._failures.get(question)
            is_down = now < self._down_until
            failed_now = is_down or (failure is not None and now < failure.until)
            if kept is None or not kept.is_of_use or not (is_down or failure is not None):
                if not failed_now:
                    raise NotFetchedError(question)
                self.stats.failures += 1
                raise RegistryError(failure.answer if failure is not None else self._why_down())
            self.stats.stale += 1
            answer = kept.answer
        if not failed_now:
            self._start(question, None)  # in the background
        return answer

    async def fetch(self, question: Question) -> None:
        """Ask the registry; all who ask the same meanwhile wait for one request. Afterwards `get` answers, or raises
        RegistryError."""
        future = self._start(question, asker.get())
        if future is None:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(partial(_wake, loop, waiter))
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await waiter
        except TimeoutError:
            with self._lock:
                self._fail(question, f"no answer within {ANSWER_WITHIN_S:g} s")

    def _is_young(self, kept: Kept, now: float) -> bool:
        return not kept.is_of_use or kept.until - now >= self.settings.subjects_ttl_s - YOUNG_S

    def _find(self, question: Question) -> Kept | None:
        if isinstance(question, SchemaOf) and (kept := self._schemas.get(question.id)) is not None:
            return kept
        return self._subjects.get(question) or self._missing.get(question)

    def _why_down(self) -> str:
        return self.stats.failure or f"schema registry {self.settings.name} does not respond"

    def _start(self, question: Question, asker: Hashable) -> Future[None] | None:
        """What is done once it is asked; None if there is nothing to wait for."""
        with self._lock:
            now = self._clock()
            known = (self._find(question), self._failures.get(question))
            if now < self._down_until or any(one is not None and now < one.until for one in known):
                return None
            if (running := self._running.get(question)) is not None:
                return running
            future: Future[None] = Future()
            self._running[question] = future
        is_new = self._is_new(question)
        job = Job(partial(self._answer, question, is_new, future), partial(self._drop, question, future), asker, is_new)
        if not self._turns.put(job):
            self._drop(question, future)
        return future

    def _is_new(self, question: Question) -> bool:
        """Whether it names an id that may not exist."""
        return not isinstance(question, LatestOf) and self._schemas.get(question.id) is None

    def _drop(self, question: Question, future: Future[None]) -> None:
        with self._lock:
            self._fail(question, "too many questions about unknown ids wait for it", BUSY_S)
            self._running.pop(question, None)
        future.set_result(None)

    def _answer(self, question: Question, is_new: bool, future: Future[None]) -> None:
        """In a thread."""
        try:
            if self._clock() >= self._down_until:
                self._asked(question, is_new)
            elif is_new:
                self._turns.give_back()
        except RegistryError as error:
            if is_new and error.is_outage:
                self._turns.give_back()
            self._failed(question, str(error), error.is_outage)
        except Exception as error:
            log.exception("schema registry client failed: this is a bug")
            self._failed(question, f"{type(error).__name__} in the client", False)
        finally:
            with self._lock:
                self._running.pop(question, None)
            future.set_result(None)

    def _asked(self, question: Question, is_new: bool) -> None:
        found = self._ask(question)
        own, answer = self.settings, found.answer
        exists = answer is not None and answer != frozenset()
        if is_new and exists:
            self._turns.give_back()
        with self._lock:
            now = self._clock()
            try:
                if not exists:
                    self._subjects.forget(question)
                    self._missing.put(question, Kept(answer, now + own.missing_ttl_s, False))
                elif isinstance(question, SchemaOf):
                    self._schemas.put(question.id, Kept(answer, math.inf, True, found.bytes))
                else:
                    self._subjects.put(question, Kept(answer, now + own.subjects_ttl_s, True))
            except ValueError as error:
                raise RegistryError(f"{question.id if isinstance(question, SchemaOf) else ''} {error}") from None
            finally:
                self._outages = 0
                self._down_until = -math.inf
                was, self.stats.failure, self.stats.was_reached = self.stats.failure, None, True
            self._failures.forget(question)
        if was is not None:
            log.info("schema registry responds again", extra={"detail": own.name})

    def _failed(self, question: Question, text: str, is_outage: bool) -> None:
        with self._lock:
            whole = self._fail(question, text)
            if is_outage:
                self._outages += 1
                self.stats.failure = whole
                if self._outages >= OUTAGES:
                    self._down_until = self._clock() + self.settings.failure_ttl_s
        log.error("schema registry failed", extra={"detail": whole})

    def _fail(self, question: Question, text: str, for_s: float | None = None) -> str:
        """Its answer is a RegistryError, for a while."""
        whole = f"schema registry {self.settings.name}: {text}"
        seconds = self.settings.failure_ttl_s if for_s is None else for_s
        self._failures.put(question, Kept(whole, self._clock() + seconds, False))
        return whole


def _wake(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _: Future[None]) -> None:
    with suppress(RuntimeError):  # the loop of who has waited is closed
        loop.call_soon_threadsafe(_end_wait, waiter)


def _end_wait(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


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
