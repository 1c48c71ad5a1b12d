"""The runs of the rig: sidecars with a feature each, and requests by size of record, codec and direction."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
from json_values import WORDS, value
from rig import frames
from rig.driver import Workload

from kafka_sidecar.codec.records import Codec, NewRecord, build_batch
from pricing import model
from pricing.model import Traffic

TOPIC = frames.TOPIC.decode()
CONNECTIONS = 4
KB = 1000  # of the sizes of records: a MB is 10^6 bytes
MB = 1e6
SHAPES = {"1 x 1 KB": (1, KB), "100 x 100 B": (100, 100), "16 x 1 KB": (16, KB), "10 x 10 KB": (10, 10 * KB)}
SINGLE, SMALL, MIDDLE, LARGE = SHAPES
FETCHED = " fetched"
SCHEMA = {
    "type": "object", "required": ["number"],
    "properties": {"number": {"type": "integer", "minimum": 0}, "note": {"type": "string", "maxLength": 100_000},
                   "orders": {"type": "array", "items": {"type": "object", "required": ["id", "at"], "properties": {
                       "id": {"type": "string", "pattern": "^[0-9a-f]{16}$"}, "at": {"type": "integer"},
                       "paid": {"type": "boolean"}}}}},
}  # fmt: skip
AVRO_SCHEMA = {"type": "record", "name": "Bench", "fields": [
    {"name": "number", "type": "long"},
    {"name": "words", "type": {"type": "array", "items": "string"}},
    {"name": "note", "type": "string"},
]}  # fmt: skip
PLUG_IN = """from kafka_sidecar.interceptors.contract import ConsumerInterceptor


class Reads(ConsumerInterceptor):
    def on_consume(self, records):
        return records
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One load through one sidecar."""

    features: frozenset[str]
    shape: str
    codec: str = "none"
    fetched: bool = False

    @property
    def title(self) -> str:
        features = " + ".join(sorted(self.features)) or "relay"
        return f"{features}, {self.shape}{FETCHED if self.fetched else ''}, {self.codec}"

    def batch(self) -> tuple[bytes, int]:
        """The batch, and how many bytes its records have."""
        return batch(self.shape, self.codec, model.AVRO in self.features)

    def workload(self) -> Workload:
        data, _ = self.batch()
        records = SHAPES[self.shape][0]
        if self.fetched:
            return Workload(self.title, CONNECTIONS, 1, fetch_records=data, records=records)
        return Workload(self.title, CONNECTIONS, 1, batches=(data,), records=records)

    def traffic(self) -> Traffic:
        """Of one request."""
        data, plain = self.batch()
        return Traffic(1, SHAPES[self.shape][0], len(data) / MB, plain / MB, self.codec, self.features)


@cache
def batch(shape: str, codec: str, is_avro: bool) -> tuple[bytes, int]:
    records, size = SHAPES[shape]
    chance = random.Random(shape)
    make = avro_value if is_avro else json_value
    values = [NewRecord(make(size, chance)) for _ in range(records)]
    return build_batch(values, codec=Codec[codec.upper()]), len(build_batch(values))


def json_value(size: int, chance: random.Random) -> bytes:
    """Of `SCHEMA`, and exactly this size."""
    start = b'{"number":%d,' % chance.randrange(10, 99)
    return start + value(size - len(start) + 1, chance)[1:]


def avro_value(size: int, chance: random.Random) -> bytes:
    words = chance.choices(WORDS, k=max(1, size // 20))
    stream = io.BytesIO()
    note = "".join(chance.choices("abcdefgh ", k=max(0, size - sum(map(len, words)) - len(words) - 6)))
    fastavro.schemaless_writer(stream, avro_schema(), {"number": 1, "words": words, "note": note})
    return stream.getvalue()


@cache
def avro_schema() -> Any:
    return fastavro.parse_schema(AVRO_SCHEMA)


def write_files(folder: Path) -> None:
    """What the configurations refer to."""
    (folder / "bench.json").write_text(json.dumps(SCHEMA))
    (folder / "bench.avsc").write_text(json.dumps(AVRO_SCHEMA))
    (folder / "reads.py").write_text(PLUG_IN)


def config(features: frozenset[str], folder: Path, certificate: Path) -> str:
    """The configuration file of a sidecar with these features."""
    limit = "per: [client_id], produce_bytes: 100GiB, consume_bytes: 100GiB, burst: 10s"
    sections = {
        model.LIMITS: "policies: {few: {type: limits, max_records: 100000}}",
        model.JSON_SCHEMA: f"policies: {{schema: {{type: json_schema, file: {folder / 'bench.json'}}}}}",
        model.AVRO: f"policies: {{schema: {{type: avro, file: {folder / 'bench.avsc'}}}}}",
        model.RATE_LIMIT: f"rate_limits: [{{name: it, topics: [{TOPIC}], {limit}}}]",
        # No interval ends in a run: the stub broker stores no events.
        model.AUDIT: "audit: {topic: audit-events, auditor_reporting_interval_ms: 86400000}",
        model.TLS_CLIENTS: f"clients: {{tls: {{certificate: {certificate}}}}}",
        model.TLS_BROKERS: f"brokers: {{security_protocol: SSL, tls: {{ca: {certificate}}}}}",
    }
    policies = {model.LIMITS: "few", model.JSON: "json", model.JSON_SCHEMA: "schema", model.AVRO: "schema"}
    interceptors = {
        model.ADD_HEADER: f"{{type: add_header, topics: [{TOPIC}], headers: {{tenant: acme}}}}",
        model.ON_CONSUME: f"{{type: 'reads:Reads', class_path: {folder}, topics: [{TOPIC}]}}",
    }
    lines = ["log: {level: info}", *(line for feature, line in sections.items() if feature in features)]
    if names := [name for feature, name in policies.items() if feature in features]:
        lines.append(f"topics: [{{name: {TOPIC}, policy: '{', '.join(names)}'}}]")
    if entries := [entry for feature, entry in interceptors.items() if feature in features]:
        lines.append(f"interceptors: [{', '.join(entries)}]")
    return "".join(f"{line}\n" for line in lines)


def cases() -> list[Case]:
    """What the prices are fitted to."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    of: Callable[[str], frozenset[str]] = lambda feature: frozenset({feature})  # noqa: E731
    relay: frozenset[str] = frozenset()
    yield from (Case(relay, shape) for shape in SHAPES)
    yield from (Case(relay, shape, fetched=True) for shape in (SINGLE, LARGE))
    for feature in (model.LIMITS, model.RATE_LIMIT, model.AUDIT, model.TLS_CLIENTS, model.TLS_BROKERS):
        yield from (Case(of(feature), shape) for shape in (SINGLE, MIDDLE, LARGE))
    yield from (Case(of(feature), LARGE, fetched=True) for feature in (model.TLS_CLIENTS, model.TLS_BROKERS))
    for feature in (model.JSON, model.JSON_SCHEMA, model.AVRO, model.ADD_HEADER):
        yield from (Case(of(feature), shape) for shape in (SMALL, MIDDLE, LARGE))
    yield from (Case(of(model.ON_CONSUME), shape, fetched=True) for shape in (SMALL, MIDDLE, LARGE))
    for codec in model.CODECS:
        for feature in (model.JSON, model.ADD_HEADER):
            yield from (Case(of(feature), shape, codec) for shape in (SMALL, MIDDLE, LARGE))


def held_out() -> list[Case]:
    """What the prices are checked with: combinations that none of them was fitted to."""
    both = frozenset({model.TLS_CLIENTS, model.TLS_BROKERS})
    return [
        Case(both, MIDDLE),
        Case(both | {model.JSON}, MIDDLE, "lz4"),
        Case(both | {model.JSON_SCHEMA, model.AUDIT}, LARGE, "zstd"),
        Case(frozenset({model.JSON, model.ADD_HEADER, model.RATE_LIMIT}), SMALL, "snappy"),
        Case(frozenset({model.TLS_CLIENTS, model.ON_CONSUME}), MIDDLE, "lz4", fetched=True),
    ]
