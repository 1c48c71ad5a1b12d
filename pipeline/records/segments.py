"""Reads the segment files of a broker, as they are in its `log.dirs` or in a backup: batch after batch."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from kafka_sidecar.codec.apis import ErrorCode
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.records import Batch, batches
from kafka_sidecar.codec.visibility import offsets_of
from kafka_sidecar.large_messages.reading import Fetched, Read
from kafka_sidecar.pipeline.records.slices import Slice

LENGTH_AT, LENGTH_FROM = 8, 12
NAME = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
MAX_OFFSET = 2**63 - 1


class SegmentError(ValueError):
    """A folder or file is not what a broker writes."""


def find_segments(folder: Path, topics: list[str]) -> list[Slice]:
    """One slice for each partition folder of the topics. Raises SegmentError."""
    found = []
    for place in sorted(folder.iterdir()) if folder.is_dir() else []:
        name = NAME.fullmatch(place.name)
        if name and name["topic"] in topics and (files := sorted(place.glob("*.log"))):
            part = Slice(name["topic"], int(name["partition"]), 0, MAX_OFFSET)
            found.append(replace(part, files=tuple(str(file.absolute()) for file in files)))
    if missing := set(topics) - {one.topic for one in found}:
        names = ", ".join(sorted(missing))
        raise SegmentError(f"{folder} has no segment files of {names}: expected {folder}/TOPIC-PARTITION/*.log")
    return found


def read_segments(part: Slice) -> Iterator[Batch]:
    """The batches of the files, in order. Raises SegmentError."""
    for name in part.files:
        with Path(name).open("rb") as file:
            if not Path(name).stat().st_size:
                continue
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                yield from _read(name, content)


def read_again(part: Slice, asked: Read) -> Fetched:
    """What the files have from an offset on. They are read from their beginning: only for what no cache has."""
    found, size, log_start = list[bytes | memoryview](), 0, -1
    for batch in read_segments(part):
        first, last = offsets_of(batch)
        log_start = first if log_start < 0 else log_start
        if last < asked.offset:
            continue
        if found and size + len(batch.data) > asked.max_bytes:
            break
        found.append(batch.data)
        size += len(batch.data)
    if asked.offset < log_start or not found:
        return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=log_start)
    return Fetched(ErrorCode.NONE, b"".join(found), log_start_offset=log_start)


def _read(name: str, content: mmap.mmap) -> Iterator[Batch]:
    at = 0
    while at + LENGTH_FROM <= len(content):
        size = LENGTH_FROM + int.from_bytes(content[at + LENGTH_AT : at + LENGTH_FROM], "big")
        if size == LENGTH_FROM:  # the rest of the active segment, which brokers allocate in advance
            return
        try:
            found = batches(content[at : at + size], may_end_early=True)
        except CodecError as error:
            raise SegmentError(f"{name}, byte {at}: {error}") from error
        yield from found
        at += size
