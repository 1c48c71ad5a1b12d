"""The section of large messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from kafka_sidecar.plugins.settings import VariableText
from kafka_sidecar.plugins.units import Duration, Size
from kafka_sidecar.proxy.config.mistakes import variable_of
from kafka_sidecar.proxy.config.types import ClassPath, Section, TopicPattern, duration_field, rename

# Clients refuse responses of 100,000,000 bytes (librdkafka, kafka-python) or 100 MiB (franz-go, sarama).
MAX_MESSAGE_FOR_ALL_CLIENTS = 95_000_000
MAX_MESSAGE = (1 << 31) - 1  # a size is an int32 in every format
# The names of li-apache-kafka-clients, accepted in an entry of `topics`, and how their values are read.
LI_NAMES: Mapping[str, str] = {
    "large.message.enabled": "enabled",
    "max.message.segment.bytes": "segment",
    "max.message.bytes": "max_batch",
    "segment.serializer": "segment_serializer",
    "segment.deserializer.class": "segment_deserializer",
    "message.assembler.expiration.offset.gap": "look_back",
    "max.tracked.messages.per.partition": "max_tracked",
    "header.timestamp.enabled": "timestamp_header",
    "exception.on.message.dropped": "on_missing",
    "li.record.header.enable": "segment_format",
}
LI_VALUES: Mapping[str, Mapping[bool, str]] = {
    "exception.on.message.dropped": {True: "fail", False: "drop"},
    "li.record.header.enable": {True: "v3", False: "payload"},
}
LI_CACHE = "message.assembler.buffer.capacity"


# By obstore's names, with or without the store's: aws_secret_access_key, account_key, sas_token; not access_key_id.
_SECRET_OPTION = re.compile(
    r"secret|passw|(^|_)sas(_|$)|token$|_key$|_key_base64$|private|credential(?!s?_(path|file)$)"
    r"|service_account$|^bearer",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"\w+://[^/@\s]+@")


class LargeTopic(Section):
    """Large messages in the topics that match a name. The first matching entry applies."""

    name: TopicPattern
    """Name of the topics; `*` matches any characters, `?` any one character."""
    enabled: bool = True
    """Whether large messages are split and assembled."""
    max_message: Size = Field(default=64 << 20, ge=1, le=MAX_MESSAGE)
    """Maximum size of a value. Larger ones are rejected."""
    above_client_limits: bool = False
    """Whether `max_message` may be larger than the responses that most clients accept, 95,000,000 bytes."""
    max_batch: Size | None = Field(default=None, ge=1 << 10)
    """Larger batches are split. Kafka: `max.message.bytes`. Default: the topic's, which the broker is asked for."""
    segment: Size | None = Field(default=None, ge=1 << 10)
    """Maximum size of a slice as the broker stores it. Default: `max_batch`."""
    segment_format: Literal["v3", "payload"] = "v3"
    """Slices have the header `_lm`, type V3, or 33 bytes before the payload, for old consumers of li."""
    segment_serializer: str | None = None
    """Name of a plug-in, or `module:Class`, that writes slices. Default: as `segment_format` says."""
    segment_deserializer: str = "default"
    """Name of a plug-in, or `module:Class`, that reads segments that have no `_lm` of type V3."""
    class_path: ClassPath | None = None
    """Folders, zips and wheels, separated by `:`, that are searched first for these classes. Relative to this file."""
    segment_settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of these classes."""
    compacted: Literal["refuse", "unique"] = "refuse"
    """In compacted topics, whether large messages are rejected, or their slices have unique keys."""
    on_missing: Literal["drop", "fail"] = "drop"
    """Whether a message of which slices are missing is dropped, or consumers get an error at its offset."""
    deliver_headers: bool = False
    """Whether records have the headers `_lm` and `_so`, as li's consumers deliver them."""
    timestamp_header: bool = False
    """Whether records that are produced get li's header `_t`, the time of their creation."""
    offsets: Literal["li", "plain", "strict-li"] = "li"
    """How committed offsets are stored: as li does where a message is open, as they are, or always as li does."""
    store: Literal["log", "object"] = "log"
    """Where large values are stored: in slices in the log, or in the object store."""
    object_above: Size = Field(default=512 << 10, ge=1 << 10)
    """With `store: object`, larger values are stored as objects."""
    look_back: int = Field(default=1000, ge=1)
    """Number of offsets before the last segment of a message in which its other segments are searched."""
    accept_segments: bool = False
    """Whether clients may write segments where policies validate records, and what else only sidecars write."""
    max_tracked: int = Field(default=500, ge=1)
    """Number of large messages of a partition whose offsets are remembered."""

    @model_validator(mode="before")
    @classmethod
    def _accept_li_names(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        read = {key: texts[values[key]] for key, texts in LI_VALUES.items() if isinstance(values.get(key), bool)}
        return rename(values | read, LI_NAMES)

    @model_validator(mode="after")
    def _check_max_message(self) -> LargeTopic:
        if self.max_message > MAX_MESSAGE_FOR_ALL_CLIENTS and not self.above_client_limits:
            raise ValueError(
                f"max_message {self.max_message} is larger than most clients accept: lower it to "
                f"{MAX_MESSAGE_FOR_ALL_CLIENTS}, or set above_client_limits: true and raise the limits of all consumers"
            )
        return self


class LargeMessages(Section):
    topics: list[LargeTopic] = Field(default_factory=list)
    """The topics in which messages may be larger than the broker allows."""
    cache: Size = 32 << 20
    """Maximum size of all slices that are kept in memory for messages that are not assembled yet."""
    read_ahead: Size = Field(default=16 << 20, ge=0)
    """Bytes that a Fetch may read in addition, so that consumers get no responses without a message."""
    timeout: Duration = duration_field("20s", gt=0)
    """Time limit for the work of threads on one request or response."""
    object_store: str | None = None
    """URL of the object store: `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix`, `memory://`."""
    object_store_options: dict[str, str] = Field(default_factory=dict)
    """Options of the object store, by the names of obstore."""
    object_store_timeout: Duration = duration_field("10s", gt=0)
    """Time limit for reading or writing an object."""
    hold_for: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Client ids, with `*` and `?`, of clients that would deliver control batches to the application."""
    li_clients: list[str] = []  # noqa: RUF012 - pydantic copies it
    """Client ids, with `*` and `?`, of li-apache-kafka-clients, which split and assemble themselves."""

    @model_validator(mode="before")
    @classmethod
    def _accept_li_names(cls, values: Any) -> Any:
        return rename(values, {LI_CACHE: "cache"})

    @model_validator(mode="before")
    @classmethod
    def _reject_secrets(cls, values: Any) -> Any:
        options = values.get("object_store_options") if isinstance(values, dict) else None
        for name, value in options.items() if isinstance(options, dict) else ():
            is_secret = _SECRET_OPTION.search(str(name)) or _USER_INFO.match(str(value))
            if isinstance(value, VariableText) or not is_secret:
                continue
            variable = variable_of(("large_messages", "object_store_options", str(name)))
            raise ValueError(
                f"object_store_options: {name}: a secret is not written into this file; set the environment variable "
                f"{variable}, or leave it to the environment's own credentials"
            )
        return values

    @model_validator(mode="after")
    def _check_object_store(self) -> LargeMessages:
        if self.object_store is None and any(topic.enabled and topic.store == "object" for topic in self.topics):
            raise ValueError("a topic has store: object: set object_store, the URL of the store")
        return self

    @property
    def is_enabled(self) -> bool:
        """Whether any topic may have large messages."""
        return any(topic.enabled for topic in self.topics)
