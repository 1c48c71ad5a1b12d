"""What a running sidecar gives to those who intercept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.interceptors.contract import Context
from kafka_sidecar.proxy.interception.hidden_offsets import Progress
from kafka_sidecar.proxy.interception.stats import Observed
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.runtime.loop_budget import Pace

LAST_THAT_SHOWS_MARKERS = 10  # Fetch: kafka-go, which tells no name, knows 2, 5 and 10


@dataclass(slots=True)
class Surroundings:
    name_of: Callable[[bytes], str | None]  # a topic's, where it is known
    learn_names: Callable[[Iterable[bytes]], Awaitable[None]]  # raises OSError, CodecError
    topic_ids: Callable[[Collection[str]], Awaitable[Mapping[str, bytes]]]  # raises OSError, CodecError
    observed: Observed
    clock: Callable[[], int]  # ms since 1970
    limit: int  # bytes that a batch may have when it is decompressed
    message_max_bytes: int  # that a batch may grow to
    hold_for: tuple[str, ...] = ()  # client ids of clients that would show control batches
    pace: Pace = field(default_factory=Pace)
    progress: Progress = field(default_factory=Progress)

    def context(self, client: Client, version: int, **of_request: str | None) -> Context:
        """Whose request it is."""
        return Context(
            self.clock, client.number, client.client_id, client.client_software, client.principal,
            api_version=version, **of_request,
        )  # fmt: skip

    async def learn(self, topic_ids: Iterable[bytes]) -> None:
        """Ask for names; those that nobody tells stay unknown."""
        with suppress(OSError, CodecError):
            await self.learn_names(topic_ids)

    def holds(self, client: Client, version: int) -> bool:
        """Whether a client would show a control batch to its application, so that it must not get ours."""
        if client.client_software is None and version <= LAST_THAT_SHOWS_MARKERS:
            return True
        return any(fnmatchcase(client.client_id or "", pattern) for pattern in self.hold_for)
