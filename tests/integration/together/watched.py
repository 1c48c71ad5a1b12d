"""A tap and a page that are open during a run: they show each record that a client was answered for once, no value."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness import admin_pages
from harness.sidecar import Sidecar
from integration.tap.reader import Line, TapReader, tapping
from integration.together.connection import Connection, Reading
from integration.together.model import INVALID, NOT_AS_REQUIRED, OTHERS_INVALID, TOO_LARGE
from integration.together.records import Read, Sent

from kafka_sidecar.codec.apis import ErrorCode

LIMIT_S = 20.0
PARTS = "traffic,topics,connections,rejections"
IN_VALUES = '\\"number\\"'  # as JSON writes what all values have
CODES = {
    INVALID: int(ErrorCode.INVALID_RECORD), OTHERS_INVALID: int(ErrorCode.INVALID_RECORD),
    NOT_AS_REQUIRED: int(ErrorCode.POLICY_VIOLATION), TOO_LARGE: int(ErrorCode.MESSAGE_TOO_LARGE),
}  # fmt: skip
Produced = tuple[str, int, int, int]  # client id, partition, offset, size of the value
Rejected = tuple[str, int, int]  # client id, partition, error
Fetched = tuple[int, int, int]  # partition, offset, size of the value


@dataclass(slots=True)
class Watched:
    """What a tap of the topic's records and the page have shown."""

    sidecar: Sidecar
    at: Connection
    tap: TapReader

    def differences(
        self, sent: Sequence[Sent], reads: Mapping[str, Read], readings: Iterable[Reading], share: str
    ) -> Iterator[str]:
        """From what producers were answered, and what readers got."""
        once = {one.name for one in readings if not one.is_group}  # members of groups may get a record again
        assert {*reads} <= {*once, *(one.name for one in readings), share}
        ends = time.monotonic() + LIMIT_S
        # The last lines take a moment, and a snapshot may be a second old.
        while found := [*self._of_producers(sent), *self._of_readers(reads, once), *self._of_page()]:
            if time.monotonic() > ends:
                break
            time.sleep(0.1)
        yield from found
        if lost := self.tap.of("lost"):
            yield f"tap: it has lost lines: {lost}"
        text = json.dumps(self.tap.lines)
        if IN_VALUES in text or any(map(_has_payload, self.tap.of("record"))):
            yield "tap: it has shown a value"
        if IN_VALUES in self._snapshot():
            yield "page: it has shown a value"

    def _of_producers(self, sent: Sequence[Sent]) -> Iterator[str]:
        lines = self.tap.of("record", direction="produced")
        answered, rejected = Counter[Produced](), Counter[Rejected]()
        for one in sent:
            client, partition = self.at.named(one.producer), one.batch.partition
            errors = {outcome.error for outcome in one.outcomes} - {""}
            if errors:
                # Of a message in segments no more are sent once one is rejected, but by Java.
                stops = bool(one.batch.segments) and one.library != "java"
                count = 1 if stops else len(one.batch.segments or one.batch.records)
                rejected[client, partition, CODES[min(errors)]] += count
            elif one.batch.segments:  # of these the producer says where the last one is
                answered[client, partition, one.outcomes[0].offset, len(one.batch.segments[-1].value or b"")] += 1
            else:
                for record, outcome in zip(one.batch.records, one.outcomes, strict=True):
                    size = -1 if record.value is None else len(record.value)
                    answered[client, partition, outcome.offset, size] += 1
        shown = Counter((*_place(line), line["value_bytes"]) for line in lines if line["error_code"] == 0)
        if any(one.batch.segments for one in sent):
            shown = Counter({what: count for what, count in shown.items() if what in answered})
        yield from _compared("tap: produced", answered, shown)
        refused = Counter(
            (str(line["client_id"]), int(line["partition"]), int(line["error_code"]))
            for line in lines
            if line["error_code"] in CODES.values()
        )
        yield from _compared("tap: rejected", rejected, refused)

    def _of_readers(self, reads: Mapping[str, Read], once: set[str]) -> Iterator[str]:
        for name, read in reads.items():
            lines = self.tap.of("record", direction="fetched", client_id=self.at.named(name))
            got = Counter((one.partition, one.offset, _size(one.value)) for one in read.seen)
            shown = Counter((int(line["partition"]), int(line["offset"]), int(line["value_bytes"])) for line in lines)
            if name not in once:
                got, shown = Counter([*got]), Counter([*shown])
            yield from _compared(f"tap: fetched by {name}", got, shown)

    def _snapshot(self) -> str:
        return admin_pages.get(f"{self.sidecar.admin}/snapshot?with={PARTS}").text

    def _of_page(self) -> Iterator[str]:
        """It counts the same frames as the tap, by their batch headers."""
        families: list[dict[str, Any]] = json.loads(self._snapshot())["metrics"]["traffic"]
        (records,) = (one for one in families if one["name"] == "records")
        counted = sum(
            row["value"]
            for row in records["rows"]
            if dict(zip(records["labels"], row["of"], strict=True)) == {"topic": self.at.topic, "api_key": "Produce"}
        )
        produced = len(self.tap.of("record", direction="produced"))
        if counted != produced:
            yield f"page: it has counted {counted} produced records, the tap has shown {produced}"


def _place(line: Line) -> tuple[str, int, int]:
    return str(line["client_id"]), int(line["partition"]), int(line["offset"])


def _size(shown: str) -> int:
    """The size of a value, of how a reader reports it."""
    if shown == "null":
        return -1
    return int(shown.split()[0]) if " bytes " in shown else len(shown) // 2


def _has_payload(line: Line) -> bool:
    return "value" in line or "key" in line or any("value" in header for header in line.get("headers", ()))


def _compared(what: str, expected: Counter[Any], shown: Counter[Any]) -> Iterator[str]:
    if expected != shown:
        yield f"{what}: not shown {sorted(expected - shown)[:3]}, not expected {sorted(shown - expected)[:3]}"


@contextmanager
def watching(sidecar: Sidecar, at: Connection) -> Iterator[Watched]:
    """While both are open."""
    with _page(sidecar), tapping(sidecar, "records", topic=at.topic) as tap:
        yield Watched(sidecar, at, tap)


@contextmanager
def _page(sidecar: Sidecar) -> Iterator[None]:
    """Open once it has the first snapshot: requests are counted from then on."""
    response = urllib.request.urlopen(f"{sidecar.admin}/live?with={PARTS}", timeout=LIMIT_S)
    response.readline()
    reading = threading.Thread(target=_read_all, args=(response,), daemon=True)
    reading.start()
    try:
        yield
    finally:
        response.fp.raw._sock.shutdown(2)


def _read_all(response: Any) -> None:
    try:
        while response.readline():
            pass
    except (OSError, ValueError):
        return  # it was closed
