"""Old hours take one folder instead of one for each batch, and in the end only their digest.

Nothing is deleted before what replaces it is complete, and only what no batch can write again is merged: batches before
the present one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from kafka_sidecar.pipeline.reconcile import states
from kafka_sidecar.pipeline.reconcile.events import stored_schema
from kafka_sidecar.pipeline.reconcile.folders import COMPACTED, EXPIRED, Folder, newest
from kafka_sidecar.pipeline.reconcile.history import DIGEST, digest, history_of, parts_of
from kafka_sidecar.pipeline.reconcile.sql import union
from kafka_sidecar.pipeline.reconcile.tables import Tables

MAX_FOLDERS = 16  # of an hour that still changes
HOURS_AT_ONCE = 48  # so that a batch after a long time is not held up
MERGED = {"events": stored_schema(), "finals": states.FINALS}


@dataclass(slots=True)
class Hour:
    """The folders of one hour that count, of earlier batches."""

    digest: Folder | None = None
    folders: dict[str, list[Folder]] = field(default_factory=lambda: {name: [] for name in MERGED})

    @property
    def is_expired(self) -> bool:
        return self.digest is not None and self.digest.kind == EXPIRED

    @property
    def live(self) -> list[Folder]:
        """Events that the digest does not cover."""
        return [one for one in self.folders["events"] if self.digest is None or one > self.digest]


def found_hours(tables: Tables, before: int | None = None) -> dict[str, Hour]:
    """All hours that have folders."""
    hours: defaultdict[str, Hour] = defaultdict(Hour)
    for hour, one in newest(tables.folders("digests", before)).items():
        hours[hour].digest = one
    for name in MERGED:
        for one in tables.folders(name, before):
            hours[one.hour].folders[name].append(one)
    return dict(hours)


def parts(tables: Tables, hours: Collection[Hour]) -> DataFrame:
    """Of these hours the digests, and the parts of the events that these do not cover."""
    live = [folder for hour in hours for folder in hour.live]
    found = parts_of(tables.read_folders("events", stored_schema(), live))
    digests = tables.read_folders("digests", DIGEST, [hour.digest for hour in hours if hour.digest])
    return union(found, digests)


def compact(tables: Tables, batch: int, busy: Collection[str], last_at: Mapping[str, int], expire: int) -> None:
    """Merge what earlier batches have left, but for ``busy`` hours only if they have many folders; let hours expire
    whose last event was made before ``expire``."""
    hours = found_hours(tables, before=batch)
    due = [
        (name, hour, kind)
        for name, hour in sorted(hours.items())
        if (kind := _kind(hour, name in busy, last_at[name] < expire))
    ]
    for name, hour, kind in due[:HOURS_AT_ONCE]:
        until = Folder(name, batch - 1, kind)
        if until != hour.digest:
            tables.write_merged("digests", digest(history_of(parts(tables, [hour])), kind == EXPIRED), until)
        if kind == COMPACTED:
            _merge(tables, hour, until)
    _sweep(tables)


def _kind(hour: Hour, is_busy: bool, is_old: bool) -> str | None:
    """How the hour is to be merged, if it is."""
    sizes = [len(folders) for folders in hour.folders.values()]
    if is_busy:
        return COMPACTED if max(sizes) >= MAX_FOLDERS else None
    if is_old:
        return EXPIRED if any(sizes) or not hour.is_expired else None
    return COMPACTED if not hour.is_expired and (hour.live or max(sizes) > 1) else None


def _merge(tables: Tables, hour: Hour, until: Folder) -> None:
    for name, schema in MERGED.items():
        folders = hour.folders[name]
        if len(folders) > 1:
            rows = tables.read_folders(name, schema, folders)
            tables.write_merged(name, rows, until, tables.size(name, folders))


def _sweep(tables: Tables) -> None:
    """Delete what does not count, also what a killed run has left."""
    for name in (*MERGED, "digests"):
        tables.delete(name, tables.hidden(name))
    expired = {hour: one for hour, one in newest(tables.folders("digests")).items() if one.kind == EXPIRED}
    for name in MERGED:
        folders = tables.folders(name)
        tables.delete(name, [one for one in folders if one.hour in expired and one < expired[one.hour]])
