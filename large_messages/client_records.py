"""Records that a client must not write itself in a topic with large messages (decision 29).

What only sidecars write: back-pointers and references to objects. Segments, where policies validate each record for
itself: consumers would get the joined value, which none has validated. Segments of messages that no consumer would get.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.records import Records
from kafka_sidecar.large_messages import back_pointers, lm_header, object_reference
from kafka_sidecar.large_messages.classify import Part, Reader
from kafka_sidecar.large_messages.splitting import strip_delivered

OURS = (back_pointers.KEY, object_reference.KEY)
PREFIX = lm_header.KEY  # of these names too
LARGE_BYTES = 4096  # in a record: stepping over it is cheaper than searching it
SETTING = "large_messages.topics: accept_segments"


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Why a batch is refused, and which of its records are the reason."""

    error_code: int  # Kafka's
    reason: str  # a label value of metrics
    records: tuple[tuple[int, str], ...]  # index, message


def find_forbidden(records: Records, reader: Reader, is_validated: bool, max_message: int) -> Forbidden | None:
    """Why these records of a client are refused; None: they are not.

    Args:
        is_validated: by policies, each for itself.
        max_message: bytes of the largest value that consumers get.
    """
    may_have_headers = len(records.payload) > LARGE_BYTES * len(records) or PREFIX in records.payload
    if may_have_headers and (forged := _with_our_headers(records)):
        return Forbidden(ErrorCode.INVALID_RECORD, "forged", tuple(forged))
    if not is_validated and (not may_have_headers or len(records.missing_header(lm_header.KEY)) == len(records)):
        return None
    # Headers of messages that were assembled before are removed; what is under them counts.
    parts = sorted(reader.parts(0, strip_delivered(records)).items())
    if is_validated and parts:
        why = f"a segment of a large message, in a topic whose policies validate each record for itself ({SETTING})"
        return Forbidden(ErrorCode.INVALID_RECORD, "segments", tuple((index, why) for index, _ in parts))
    large = [
        (index, f"a segment of a value of {part.segment.size} bytes, more than the {max_message} of max_message")
        for index, part in parts
        if isinstance(part, Part) and part.segment.size > max_message
    ]
    return Forbidden(ErrorCode.MESSAGE_TOO_LARGE, "too_large", tuple(large)) if large else None


def _with_our_headers(records: Records) -> list[tuple[int, str]]:
    found: dict[int, str] = {}
    for name in OURS:
        for index in set(range(len(records))).difference(records.missing_header(name)):
            found.setdefault(index, f"the header {name.decode()}, which only sidecars write ({SETTING})")
    return sorted(found.items())
