"""What a group's offset is stored as: the format of li-apache-kafka-clients (`LiKafkaClientsUtils`).

    offset = S, metadata = decimal C + "," + the client's own metadata

C is the offset that the client commits, S the safe offset of `intervals.py`. Consumers of li begin at S and deliver
what ends at C or later; through the sidecar a client gets C. Without a large message that reaches over C, S is C, and
what the client commits is stored as it is: tools and other clients see what they expect.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_METADATA = 4096  # characters: Kafka's default of `offset.metadata.max.bytes`

_MAX_INT64 = (1 << 63) - 1
_NUMBER = re.compile(r"([+-]?)0*(\d{1,19}),")  # what Java's Long.parseLong takes, but for digits beyond the BMP


class Committed(NamedTuple):
    """An offset and its metadata, as clients or as brokers have them."""

    offset: int
    metadata: str


def store(
    committed: Committed, safe: int, max_metadata: int = MAX_METADATA, is_always_wrapped: bool = False
) -> Committed:
    """What the broker is to store for what a client commits.

    Metadata that would be too long with C in front stays as it is, with C as offset: the sidecar reads back what begins
    before C. Metadata that would be mistaken for that of li is wrapped whatever its length: the broker decides.

    Args:
        safe: S of the offset.
        max_metadata: characters that the broker takes, counted as Java does.
        is_always_wrapped: as li does it, also where S is C.
    """
    is_ambiguous = _number(committed.metadata) is not None
    if safe == committed.offset and not is_ambiguous and not is_always_wrapped:
        return committed
    metadata = f"{committed.offset},{committed.metadata}"
    if is_ambiguous or len(metadata.encode("utf-16-le", "surrogatepass")) // 2 <= max_metadata:
        return Committed(safe, metadata)
    return committed


def unwrap(stored: Committed) -> Committed | None:
    """What the client has committed if the broker has stored it in li's form; None: it is not that form.

    A number less than the stored offset is not that of li, whose S is never more than C: it belongs to metadata that a
    client has stored without the sidecar. One that is not less may be such metadata, too: see `is_plausible`.
    """
    number = _number(stored.metadata)
    if number is None or number < stored.offset or stored.offset < 0:
        return None
    return Committed(number, stored.metadata[stored.metadata.index(",") + 1 :])


def is_plausible(safe: int, committed: Committed, max_gap: int, is_always_wrapped: bool = False) -> bool:
    """Whether an offset may have been wrapped, by li or by `store`, without a look at the record at S.

    Where C is S the offset is the same either way. It is wrapped if the client's metadata is ambiguous, and by li,
    whose clients have no metadata of their own as a rule. Everything else is what a client has written itself.

    Args:
        safe: S, the stored offset.
        committed: C and the client's metadata.
        max_gap: a message that begins farther before C has expired.
        is_always_wrapped: as li does it, also where S is C.
    """
    if safe < committed.offset:
        return committed.offset - safe <= max_gap + 1
    return is_always_wrapped or not committed.metadata or _number(committed.metadata) is not None


def _number(metadata: str) -> int | None:
    """The number before the first comma, as an int64."""
    found = _NUMBER.match(metadata)
    if found is None:
        return None
    number = int(found[2])
    if found[1] == "-":
        number = -number
    return number if -_MAX_INT64 - 1 <= number <= _MAX_INT64 else None
