"""The summary of a topic's records: what a task returns for its slice, and what all of them merge to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple

from kafka_sidecar.codec.records import Header, Record
from kafka_sidecar.pipeline.suggest.forms import BY_HEADER, BY_PREFIX, Form, recognise
from kafka_sidecar.pipeline.suggest.shape import Document
from kafka_sidecar.pipeline.suggest.spread import Spread
from kafka_sidecar.pipeline.suggest.strings import Strings

MAX_PLACES_SHOWN = 5  # of records of one form
MAX_IDS = 100
MAX_HEADERS = 100
SETTLE_BYTES = 4 << 20  # after which limits are looked at
NO_TIMESTAMP = -1
ID_HEADERS = {"key": b"__key_schema_id", "value": b"__value_schema_id"}


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


@dataclass(slots=True)
class Tally:
    """How many records there are of a kind, and the first ones."""

    count: int = 0
    first: list[Place] = field(default_factory=list)

    def add(self, place: Place) -> None:
        self.count += 1
        if len(self.first) < MAX_PLACES_SHOWN:
            self.first.append(place)
            self.first.sort()
        elif place < self.first[-1]:
            self.first[-1] = place
            self.first.sort()

    def merge(self, other: Tally) -> None:
        self.count += other.count
        self.first = nsmallest(MAX_PLACES_SHOWN, self.first + other.first)


def _add(tallies: dict[str, Tally], name: str, place: Place) -> None:
    tally = tallies.get(name)
    if tally is None:
        tally = tallies[name] = Tally()
    tally.add(place)


def _merge_tallies(one: dict[str, Tally], other: dict[str, Tally]) -> None:
    for name, tally in other.items():
        if name in one:
            one[name].merge(tally)
        else:
            one[name] = tally


@dataclass(slots=True)
class Part:
    """The keys, or the values."""

    forms: dict[str, Tally] = field(default_factory=dict)
    sizes: Spread = field(default_factory=lambda: Spread(is_fine=True))
    ids: dict[str, Tally] | None = field(default_factory=dict)  # None: more than `MAX_IDS`
    documents: dict[str, Document] = field(default_factory=dict)  # by "bare", "prefix", "header"
    text: Strings = field(default_factory=Strings)
    varints: int = 0  # of eight bytes, the last three of which are one of Avro's longs

    def add(self, data: bytes | None, id_header: bytes | None, place: Place) -> None:
        found = recognise(data, id_header)
        form = found.form
        _add(self.forms, form, place)
        if data is not None:
            self.sizes.add(len(data))
        if found.text is not None:
            self.text.add(found.text)
        if found.id is not None and data is not None and len(data) == 8:
            self.varints += data[5] > 127 and data[6] > 127 and data[7] < 128
        if found.id is not None and self.ids is not None:
            _add(self.ids, found.id, place)
            if len(self.ids) > MAX_IDS:
                self.ids = None
        if framing := _FRAMINGS.get(form):
            document = self.documents.get(framing)
            if document is None:
                document = self.documents[framing] = Document()
            document.add(found.value)

    def merge(self, other: Part) -> None:
        _merge_tallies(self.forms, other.forms)
        self.sizes.merge(other.sizes)
        if self.ids is None or other.ids is None:
            self.ids = None
        else:
            _merge_tallies(self.ids, other.ids)
            if len(self.ids) > MAX_IDS:
                self.ids = None
        for framing, document in other.documents.items():
            if framing in self.documents:
                self.documents[framing].merge(document)
            else:
                self.documents[framing] = document
        self.text.merge(other.text)
        self.varints += other.varints

    def settle(self) -> None:
        for document in self.documents.values():
            document.settle()

    def count(self, *forms: Form) -> int:
        return sum(tally.count for form, tally in self.forms.items() if form in forms)

    @property
    def nulls(self) -> int:
        return self.count(Form.NULL)

    @property
    def others(self) -> int:
        """How many are not null."""
        return sum(tally.count for tally in self.forms.values()) - self.nulls


_FRAMINGS = {
    Form.JSON: "bare", Form.SCALAR: "bare", Form.PREFIX_JSON: "prefix", Form.HEADER_JSON: "header",
}  # fmt: skip
assert _FRAMINGS.keys() & BY_PREFIX
assert _FRAMINGS.keys() & BY_HEADER


@dataclass(slots=True)
class HeaderValues:
    """The headers of one name."""

    records: int = 0  # that have it
    headers: int = 0  # several of the same name may be in one record
    nulls: int = 0
    not_text: int = 0
    values: Strings = field(default_factory=Strings)

    def merge(self, other: HeaderValues) -> None:
        self.records += other.records
        self.headers += other.headers
        self.nulls += other.nulls
        self.not_text += other.not_text
        self.values.merge(other.values)


@dataclass(slots=True)
class Summary:
    """All that is remembered of records."""

    records: int = 0
    key: Part = field(default_factory=Part)
    value: Part = field(default_factory=Part)
    sizes: Spread = field(default_factory=lambda: Spread(is_fine=True))  # of key, value and headers together
    header_counts: Spread = field(default_factory=Spread)
    headers: dict[bytes, HeaderValues] | None = field(default_factory=dict)  # None: more than `MAX_HEADERS`
    clocks: dict[str, int] = field(default_factory=dict)  # records by CreateTime, LogAppendTime
    timestamps: Spread = field(default_factory=Spread)  # of producers
    untimed: Tally = field(default_factory=Tally)  # records without a timestamp
    lateness: Spread = field(default_factory=Spread)  # ms, of a timestamp before its batch's newest, or its append
    unread: dict[str, Tally] = field(default_factory=dict)  # batches, by why
    deleted: int = 0  # offsets, before they were read
    unsettled: int = field(default=0, compare=False)  # bytes since limits were looked at

    def add(self, record: Record, place: Place, append_time: int | None, newest: int) -> None:
        """One more record, as its producer has sent it."""
        key, value, headers = record.key, record.value, record.headers
        self.records += 1
        by_name = {one.key_bytes: one.value for one in headers} if headers else _NO_HEADERS
        self.key.add(key, by_name.get(ID_HEADERS["key"]), place)
        self.value.add(value, by_name.get(ID_HEADERS["value"]), place)
        size = len(key or b"") + len(value or b"")
        self.header_counts.add(len(headers))
        if headers:
            size += self._add_headers(headers, by_name.keys())
        self.sizes.add(size)
        self._add_time(record.timestamp, place, append_time, newest)
        self.unsettled += size
        if self.unsettled > SETTLE_BYTES:
            self.settle()

    def _add_headers(self, headers: Iterable[Header], names: Iterable[bytes]) -> int:
        size = 0
        found = self.headers
        for one in headers:
            value = one.value
            size += len(one.key_bytes) + len(value or b"")
            if found is None:
                continue
            about = found.get(one.key_bytes)
            if about is None:
                about = found[one.key_bytes] = HeaderValues()
            about.headers += 1
            if value is None:
                about.nulls += 1
                continue
            try:
                about.values.add(value.decode())
            except UnicodeDecodeError:
                about.not_text += 1
        if found is not None:
            for name in names:
                found[name].records += 1
            if len(found) > MAX_HEADERS:
                self.headers = None
        return size

    def _add_time(self, timestamp: int, place: Place, append_time: int | None, newest: int) -> None:
        clock = "CreateTime" if append_time is None else "LogAppendTime"
        self.clocks[clock] = self.clocks.get(clock, 0) + 1
        if timestamp == NO_TIMESTAMP:
            self.untimed.add(place)
            return
        self.timestamps.add(timestamp)
        self.lateness.add((newest if append_time is None else append_time) - timestamp)

    def not_read(self, why: str, place: Place) -> None:
        """A batch whose records cannot be read."""
        _add(self.unread, why, place)

    def settle(self) -> None:
        """Apply the limits. It is done from time to time, and before the end."""
        self.unsettled = 0
        self.key.settle()
        self.value.settle()

    def merge(self, other: Summary) -> Summary:
        """Both together: this one, changed. ``other`` is not to be used after this."""
        self.records += other.records
        self.key.merge(other.key)
        self.value.merge(other.value)
        self.sizes.merge(other.sizes)
        self.header_counts.merge(other.header_counts)
        if self.headers is None or other.headers is None:
            self.headers = None
        else:
            for name, about in other.headers.items():
                if name in self.headers:
                    self.headers[name].merge(about)
                else:
                    self.headers[name] = about
            if len(self.headers) > MAX_HEADERS:
                self.headers = None
        for clock, count in other.clocks.items():
            self.clocks[clock] = self.clocks.get(clock, 0) + count
        self.timestamps.merge(other.timestamps)
        self.untimed.merge(other.untimed)
        self.lateness.merge(other.lateness)
        _merge_tallies(self.unread, other.unread)
        self.deleted += other.deleted
        return self


_NO_HEADERS: dict[bytes, bytes | None] = {}
