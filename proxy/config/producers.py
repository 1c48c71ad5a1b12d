"""The section of producers: how those of a topic must send."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator
from pydantic.json_schema import WithJsonSchema

from kafka_sidecar.plugins.settings import quote
from kafka_sidecar.plugins.units import Size
from kafka_sidecar.proxy.config.sections import Mode
from kafka_sidecar.proxy.config.types import PrincipalPattern, Section, TopicPattern

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")  # by their numbers in the header of a batch
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
_VERSION = r">=\s*([0-9]{1,9}(\.[0-9]{1,9}){0,5})"
_NAME = r"[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?"  # as brokers accept it (KIP-511)


def _read_acks(value: object) -> object:
    """YAML reads a bare 1 as a number; Kafka writes -1 for all."""
    return {1: "1", -1: "all", "-1": "all"}.get(value, value) if isinstance(value, int | str) else value


def _check_version(value: str) -> str:
    if not re.fullmatch(_VERSION, value):
        raise ValueError(f'write the oldest version that is accepted, such as ">=3.0", in place of {quote(value)}')
    return value


Acks = Annotated[
    Literal["all", "1"],
    BeforeValidator(_read_acks),
    WithJsonSchema({"anyOf": [{"enum": ["all", "1", "-1"]}, {"enum": [1, -1]}]}),
]
MinVersion = Annotated[
    str, AfterValidator(_check_version), WithJsonSchema({"type": "string", "pattern": f"^{_VERSION}$"})
]
SoftwareName = Annotated[str, Field(pattern=f"^{_NAME}$")]


def version_of(text: str) -> tuple[int, ...] | None:
    """The numbers at the beginning of a version; None: there are none.

    >>> version_of(">=3.0"), version_of("v1.18.0"), version_of("2.8.0-rdkafka-2.8.0"), version_of("unknown")
    ((3,), (1, 18), (2, 8), None)
    """
    found = re.match(r"(?:>=\s*|v)?([0-9]{1,9}(?:\.[0-9]{1,9}){0,5})", text)
    if found is None:
        return None
    numbers = [int(number) for number in found[1].split(".")]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()  # 3.0 is 3.0.0
    return tuple(numbers)


class ProducerHabits(Section):
    """How producers of some topics must send. The first entry applies that matches topic and principal."""

    topics: list[TopicPattern] = Field(min_length=1)
    """Names of the topics; `*` matches any characters, `?` any one character."""
    principals: list[PrincipalPattern] = []  # noqa: RUF012 - pydantic copies it
    """Only producers with these principals, with `*` and `?`. Default: all."""
    mode: Mode = "enforce"
    """Whether batches that are sent otherwise are rejected, only reported, or not looked at."""
    percent: int = Field(default=100, ge=0, le=100)
    """The percentage of batches to which `enforce` applies; the others are treated as in `shadow`."""
    report: bool = True
    """Whether `/producers` lists how each client sends. Without it, requests of which only `acks`, `client_id`,
    `software` and `transactions: forbidden` are asked are relayed without being buffered."""
    acks: Acks | None = None
    """The least `acks` of a request: `all`, or `1`. Kafka: `acks`."""
    idempotence: Literal["required"] | None = None
    """Batches need a producer id. Kafka: `enable.idempotence`."""
    transactions: Literal["required", "forbidden"] | None = None
    """Batches have to be part of a transaction, or may not be. Kafka: `transactional.id`."""
    compression: list[Compression] = []  # noqa: RUF012
    """The codecs that batches may have; `none` only if it is listed. Default: any. Kafka: `compression.type`."""
    compress_from: Size = 1 << 10
    """Smaller batches may come without compression: most libraries leave it out where it saves nothing."""
    max_batch_bytes: Size | None = Field(default=None, ge=1)
    """The most bytes of a batch, as it is sent. Kafka: `batch.size` and `max.request.size`."""
    max_records: int | None = Field(default=None, ge=1)
    """The most records of a batch."""
    min_mean_batch_bytes: Size | None = Field(default=None, ge=1)
    """The least bytes of a batch, as it is sent, on average over a minute. Only reported. Kafka: `linger.ms`."""
    min_mean_records: int | None = Field(default=None, ge=1)
    """The least records of a batch, on average over a minute. Only reported. Kafka: `linger.ms` and `batch.size`."""
    client_id: str | None = None
    """A regular expression (RE2) that matches the whole client id. Kafka: `client.id`."""
    software: dict[SoftwareName, MinVersion] = Field(default_factory=dict)
    """The oldest version of each client library, by the name that it gives in ApiVersions (KIP-511)."""
    other_software: Literal["allow", "reject"] = "allow"
    """Libraries that `software` does not name."""
    unknown_software: Literal["allow", "reject"] = "allow"
    """Clients that name no library, or a version without a number."""

    @field_validator("compression")
    @classmethod
    def _check_compression(cls, value: list[Any]) -> list[Any]:
        if len(set(value)) < len(value):
            raise ValueError("names a codec twice")
        return value

    @model_validator(mode="after")
    def _check(self) -> ProducerHabits:
        if self.asks_for_mean and not self.report:
            raise ValueError("min_mean_batch_bytes and min_mean_records need the report: remove report: false")
        if self.other_software == "reject" and not self.software:
            raise ValueError("other_software has no effect: name client libraries under software")
        return self

    @property
    def names_software(self) -> bool:
        return bool(self.software) or self.unknown_software == "reject"

    @property
    def asks_for_mean(self) -> bool:
        return self.min_mean_batch_bytes is not None or self.min_mean_records is not None

    @property
    def asks_for_batches(self) -> bool:
        """Whether the headers of batches have to be read, not only what stands before them."""
        return bool(
            self.idempotence
            or self.transactions == "required"
            or self.compression
            or self.max_batch_bytes is not None
            or self.max_records is not None
            or self.asks_for_mean
        )

    @property
    def needs_batches(self) -> bool:
        return self.report or self.asks_for_batches
