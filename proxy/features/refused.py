"""What validation gives to whoever keeps rejected records, and no more: neither imports the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # of what is not imported by a sidecar that relays
    from kafka_sidecar.codec.records import BatchHeader, Records
    from kafka_sidecar.policies.plans import Rejection


@dataclass(slots=True)
class RefusedBatch:
    """A batch with records that policies reject."""

    topic: str
    partition: int
    header: BatchHeader
    records: Callable[[], Records]  # as they were sent; raises CodecError
    rejections: Sequence[Rejection]  # by index; of as many records as policies name
    message: str  # for the client, of the batch
    rejection_id: str
    is_enforced: bool
    client_id: str | None
    principal: str | None
    is_kept: bool = False  # `Letters.keep` has begun with it


class Letters(Protocol):
    """What becomes of records that policies reject. Called in any thread."""

    def topic_of(self, topic: str, is_enforced: bool) -> str | None:
        """The dead letter topic to which rejected records of a topic go, if any."""

    def turns_away(self, batch: RefusedBatch) -> bool:
        """Whether nothing can be kept now: then that is counted, and nothing is left to do."""

    def keep(self, batch: RefusedBatch) -> None:
        """Keep copies of its records, to be sent. What cannot be kept is counted."""

    def missed(self, topic: str, records: int, reason: str) -> None:
        """So many rejected records of a topic cannot be kept."""
