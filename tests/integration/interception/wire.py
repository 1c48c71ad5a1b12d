"""One connection that speaks in bytes: Fetch requests of any version, from clients that tell their name or do not."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from integration.validation.batches import HEADER
from integration.validation.waves import CODECS
from integration.validation.wire import FIRST_WITH_IDS, Wire

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.records import batches

CODEC_BITS, CONTROL = 0x07, 0x20
FIRST_WITH_NAMES = 3  # ApiVersions (KIP-511)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What is said of one partition."""

    records: bytes
    high_watermark: int
    code: int = 0

    def batches(self) -> Iterator[tuple[int, int, int, int]]:
        """Base offset, attributes, last offset and number of records of each batch."""
        at = 0
        while at + HEADER.size <= len(self.records):
            base, length, _, _, _, attributes, last, *_, count = HEADER.unpack_from(self.records, at)
            yield base, attributes, base + last, count
            at += 12 + length

    @property
    def following(self) -> int | None:
        """Where a client goes on; None: where it was."""
        return max((last + 1 for _, _, last, _ in self.batches()), default=None)

    def shown(self) -> list[tuple[int, bytes | None]]:
        """Offset and value of the records that are no control records."""
        return [
            (batch.header.base_offset + record.offset_delta, record.value)
            for batch in batches(self.records, may_end_early=True)
            if not batch.header.is_control
            for record in batch.records()
        ]


class FetchWire(Wire):
    """A connection to a broker or a sidecar."""

    def introduce(self, name: str) -> None:
        """Tell the name of the software, as most clients do."""
        self.ask(ApiKey.API_VERSIONS, FIRST_WITH_NAMES, client_software_name=name, client_software_version="1")

    def fetch(self, version: int, topic: str, offset: int, max_wait_ms: int = 100, max_bytes: int = 1 << 20) -> Fetched:
        """One Fetch of partition 0, without a session."""
        topic_id = self.ids([topic])[topic] if version >= FIRST_WITH_IDS else None
        partition = {
            "partition": 0,
            "fetch_offset": offset,
            "partition_max_bytes": max_bytes,
            "current_leader_epoch": -1,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
        }
        said = self.ask(
            ApiKey.FETCH, version, replica_id=-1, max_wait=datetime.timedelta(milliseconds=max_wait_ms), min_bytes=1,
            max_bytes=50 << 20, session_epoch=-1, rack_id="",
            topics=[{"topic": topic, "topic_id": topic_id, "partitions": [partition]}],
        )  # fmt: skip
        [answered] = said.responses
        [one] = answered.partitions
        return Fetched(bytes(one.records or b""), one.high_watermark, int(one.error_code))


def codecs_of(bootstrap: str, topic: str) -> set[str]:
    """Of the batches in the log of partition 0, but for control batches."""
    found, offset = set(), 0
    with FetchWire(bootstrap) as wire:
        while (fetched := wire.fetch(12, topic, offset)).records:
            found |= {
                CODECS[attributes & CODEC_BITS] for _, attributes, *_ in fetched.batches() if not attributes & CONTROL
            }
            offset = fetched.following or offset
    return found
