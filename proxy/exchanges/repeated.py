"""What clients are refused again and again: stored once for each kind, with an id that stays the same (design D12).

Log line, error message and admin port have the id. Names that clients choose are cut, and nothing grows with their
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import islice
from secrets import token_bytes, token_hex
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kafka_sidecar.codec.batch_layout import LENGTH_FROM
from kafka_sidecar.plugins.bounded import Bounded

if TYPE_CHECKING:  # of what is not imported by a sidecar that relays
    from kafka_sidecar.codec.records import BatchHeader

MAX_RECENT = 1000  # kinds that are stored
MAX_NAME_BYTES = 249  # of what clients choose
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


class Repeating(Protocol):
    """One kind."""

    @property
    def id(self) -> str: ...

    @property
    def since(self) -> float:
        """When it was first refused, in seconds since the epoch."""
        ...

    @property
    def times(self) -> int: ...


R = TypeVar("R", bound=Repeating)


class Repeated(Generic[R]):
    """The kinds that were refused last, by one feature of one process."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.prefix = token_hex(3)
        self._key = token_bytes(16)
        self._clock = clock  # seconds since the epoch
        self._recent = Bounded[tuple[str, ...], R](MAX_RECENT)

    def id_of(self, *kind: str) -> str:
        """The id of a kind, the same whenever it happens. Called in any thread."""
        digest = blake2b("\0".join(kind).encode(errors="surrogatepass"), digest_size=5, key=self._key)
        return f"{self.prefix}-{digest.hexdigest()}"

    def store(self, kind: tuple[str, ...], make: Callable[[float, float, int], R]) -> R:
        """It has happened. ``make``: from when it was first and last refused, and how often."""
        now = self._clock()
        known = self._recent.pop(kind)
        made = make(now, now, 1) if known is None else make(known.since, now, known.times + 1)
        self._recent[kind] = made
        return made

    def find(self, refused_id: str) -> R | None:
        """The kind with this id, if it is one of the last."""
        return next((one for one in self._recent.values() if one.id == refused_id), None)

    def newest(self, number: int = MAX_RECENT) -> Iterable[R]:
        """The last ones, newest first."""
        return islice(reversed(self._recent.values()), number)


def with_hint(message: str, refused_id: str) -> str:
    """For the client: the message says how an operator finds out more."""
    return f"{message} (kafka-sidecar explain {refused_id})"


def cut(text: str) -> str:
    """The beginning of a text that a client has chosen."""
    if len(text) <= MAX_NAME_BYTES // 4:
        return text
    return text.encode(errors="replace")[:MAX_NAME_BYTES].decode(errors="ignore")


def cut_or_none(text: str | None) -> str | None:
    return None if text is None else cut(text)


ABOUT = (
    "id", "timestamp", "topic", "partition", "mode", "outcome", "policy", "reason", "message", "rejected_records",
)  # fmt: skip
WHO = ("session", "client", "client_id", "client_software", "principal")


def explanation(row: Mapping[str, Any], remedy: str, batch: BatchHeader | None = None, **more: Any) -> dict[str, Any]:
    """All that is known of one, from its row in the list and what a feature knows besides."""
    return {
        **{name: row[name] for name in ABOUT},
        "records": [],
        "client": {name: row[name] for name in WHO},
        "batch": describe_batch(batch),
        "configuration": None,
        **more,
        "remedy": remedy,
    }


def describe_batch(header: BatchHeader | None) -> dict[str, Any] | None:
    """One that is refused, as the admin port shows it."""
    if header is None:
        return None
    return {
        "records": header.count,
        "bytes": header.length + LENGTH_FROM,
        "compression": COMPRESSIONS[header.codec] if header.codec < len(COMPRESSIONS) else header.codec,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
    }
