"""The lines of the records in one Produce request, or in one response to Fetch or ShareFetch.

Only records that are shown are read; a batch is inflated with a limit. May run in any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.messages.fetch import FetchResponse
from kafka_sidecar.codec.messages.produce import ProduceRequest
from kafka_sidecar.codec.messages.share_fetch import AcquiredRecords, ShareFetchResponse
from kafka_sidecar.codec.records import Batch, BatchTooLargeError, Codec, Record, batches
from kafka_sidecar.codec.visibility import SHOWN, Visibility, acquired_only, all_visible, committed_only

Key = str | bytes  # a topic's name, or since v13 its id of 16 bytes
Positions = Mapping[tuple[Key, int], int]  # from where partitions are read, as far as a request says it

MAX_SHOWN_BYTES = 1024  # of a key or value
MAX_HEADERS = 32  # of a record
MAX_HEADER_BYTES = 249  # of the name of one, and of its value
HASH_BYTES = 6


class TooLargeError(Exception):
    """It would take too long here: read it in a thread."""


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be read in one go."""

    inflated: int  # bytes of one batch
    records: int  # of one batch
    is_last: bool  # what does not fit is not shown; otherwise it is `TooLargeError`


@dataclass(frozen=True, slots=True)
class Show:
    """What is shown of each record beside its sizes."""

    keys: bool
    values: bool
    salt: bytes


@dataclass(slots=True)
class Shown:
    """The lines of one partition, without what the frame has in common."""

    key: Key
    index: int
    lines: list[dict[str, Any]]


Wants = Callable[[Key, int], bool]  # whether records of a partition are shown


def read_produced(frame: bytes, wants: Wants, most: int, show: Show, room: Room) -> list[Shown]:
    """The first records of a Produce request. Their offsets are those from the first of their batch on.

    Raises:
        TooLargeError: where there is another room.
        CodecError: the request cannot be read.
    """
    _, opened = decode_request(ProduceRequest, frame)
    found: list[Shown] = []
    for topic in opened.message.topic_data:
        key = topic.name or topic.topic_id
        for part in topic.partition_data:
            if part.records and wants(key, part.index) and most > 0:
                lines = _lines(part.records, _as_sent, most, show, room, is_sent=True)
                found.append(Shown(key, part.index, lines))
                most -= len(lines)
    return found


def read_fetched(
    frame: bytes, key: int, version: int, wants: Wants, most: int, show: Show, room: Room, positions: Positions,
    is_committed_only: bool,
) -> list[Shown]:  # fmt: skip
    """The first records of a response to Fetch or ShareFetch that its client reads. Raises as `read_produced`."""
    found: list[Shown] = []
    for topic, part, visibilities, acquired in _fetched(frame, key, version, is_committed_only):
        if part.records and wants(topic, part.partition_index) and most > 0:
            since = positions.get((topic, part.partition_index), 0)
            lines = _lines(part.records, visibilities, most, show, room, since, acquired)
            found.append(Shown(topic, part.partition_index, lines))
            most -= len(lines)
    return found


def _fetched(frame: bytes, key: int, version: int, is_committed_only: bool) -> Iterator[tuple[Key, Any, Any, Any]]:
    """Topic, partition, what its client shows of batches, and the offsets that it has acquired."""
    if key == ApiKey.SHARE_FETCH:
        for shared in decode_response(ShareFetchResponse, frame, version).message.responses:
            for given in shared.partitions:
                yield shared.topic_id, given, acquired_only(given.acquired_records), given.acquired_records
        return
    for topic in decode_response(FetchResponse, frame, version).message.responses:
        for part in topic.partitions:
            aborted = part.aborted_transactions if is_committed_only else None
            yield topic.topic or topic.topic_id, part, committed_only(aborted) if aborted else all_visible, None


def _as_sent(found: list[Batch]) -> Iterator[tuple[Batch, Visibility]]:
    return all_visible(found)


def _lines(
    records: bytes | memoryview, visibilities: Callable[[list[Batch]], Iterable[tuple[Batch, Visibility]]], most: int,
    show: Show, room: Room, since: int = 0, acquired: tuple[AcquiredRecords, ...] | None = None, is_sent: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    lines: list[dict[str, Any]] = []
    for batch, visibility in visibilities(batches(records, may_end_early=not is_sent)):
        if len(lines) >= most:
            break
        if visibility is Visibility.OLD:
            lines.append({"unreadable": f"a batch of the old format {batch.magic}"})
        elif visibility is SHOWN:
            lines += _lines_of_batch(batch, most - len(lines), show, room, since, acquired, is_sent)
    return lines


def _lines_of_batch(
    batch: Batch, most: int, show: Show, room: Room, since: int, acquired: tuple[AcquiredRecords, ...] | None,
    is_sent: bool,
) -> list[dict[str, Any]]:  # fmt: skip
    header = batch.header
    base = 0 if is_sent else header.base_offset
    try:
        found = batch.records(room.inflated, room.records, is_sent)
    except BatchTooLargeError as error:
        if not room.is_last:
            raise TooLargeError from None
        return [{"unreadable": str(error), "records": header.count}]
    except CodecError as error:
        return [{"unreadable": str(error), "records": header.count}]
    of_batch = {"compression": Codec(header.codec).name.lower(), "transactional": header.is_transactional}
    lines: list[dict[str, Any]] = []
    for record in found:
        offset = base + record.offset_delta
        if offset < since or not (acquired is None or _is_among(offset, acquired)):
            continue
        lines.append({"offset": offset, **_line(record, show), **of_batch})
        if len(lines) >= most:
            break
    return lines


def _is_among(offset: int, acquired: tuple[AcquiredRecords, ...]) -> bool:
    return any(one.first_offset <= offset <= one.last_offset for one in acquired)


def _line(record: Record, show: Show) -> dict[str, Any]:
    line: dict[str, Any] = {"timestamp_ms": record.timestamp, "key_bytes": record.key_size}
    if record.key_size >= 0:
        if show.keys:
            line |= _text("key", record.key_prefix(MAX_SHOWN_BYTES) or b"", record.key_size)
        else:
            line["key_hash"] = blake2b(record.key or b"", digest_size=HASH_BYTES, key=show.salt).hexdigest()
    line["value_bytes"] = record.value_size
    if show.values and record.value_size >= 0:
        line |= _text("value", record.value_prefix(MAX_SHOWN_BYTES) or b"", record.value_size)
    headers = record.headers
    line["headers"] = [_header(one.key_bytes, one.value, show) for one in headers[:MAX_HEADERS]]
    if len(headers) > MAX_HEADERS:
        line["headers_left"] = len(headers) - MAX_HEADERS
    return line


def _header(name: bytes, value: bytes | None, show: Show) -> dict[str, Any]:
    shown = name[:MAX_HEADER_BYTES].decode("utf-8", "backslashreplace")
    header: dict[str, Any] = {"name": shown, "value_bytes": -1 if value is None else len(value)}
    if show.values and value is not None:
        header |= _text("value", value[:MAX_HEADER_BYTES], len(value))
    return header


def _text(name: str, data: bytes, size: int) -> dict[str, Any]:
    """Bytes as text: what is not UTF-8 is escaped; and whether there is more of it."""
    shown: dict[str, Any] = {name: data.decode("utf-8", "backslashreplace")}
    if size > len(data):
        shown[f"{name}_is_cut"] = True
    return shown
