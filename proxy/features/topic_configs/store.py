"""Where the sidecar's own configs are kept: a log that every sidecar of the cluster reads and writes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

# Names of topics -> the ids of those that exist. Raises OSError, CodecError.
TopicIds = Callable[[Sequence[str]], Awaitable[Mapping[str, bytes]]]


class StoreError(Exception):
    """What was to be written is not known to be there. The text says why, for a person."""


class Reader(Protocol):
    """Gets what the log holds, in its order."""

    def began(self) -> None:
        """The log is read from its beginning, for the first time or again."""
        ...

    def read(self, key: bytes, value: bytes | None) -> None:
        """The next record; without a value the key is no more. Raises nothing."""
        ...

    def caught_up(self) -> None:
        """All that was in the log when reading began has been read."""
        ...


class Store(Protocol):
    async def start(self, reader: Reader) -> None:
        """Begin to read, and go on until `stop`, whatever happens to the cluster."""
        ...

    async def stop(self) -> None: ...

    async def write(self, key: bytes, value: bytes | None) -> None:
        """Returns once it is written and has come back to the reader. Raises StoreError."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the log cannot be read now, None where it can."""
        ...

    @property
    def lost(self) -> str | None:
        """Why the log does not hold what was read of it; it is no longer read then. None: it does."""
        ...

    def accept(self) -> None:
        """Read the log as it is now, from its beginning, though it lacks what was read before; create it if need be."""
        ...
