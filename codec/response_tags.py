"""Whether a response ends with tagged fields, such as the brokers of KIP-951: nearly none does, and each is asked."""

from __future__ import annotations

from collections.abc import Callable

from kafka_sidecar.codec.cursor import ends_with_tags
from kafka_sidecar.codec.message import TAGS, Message, plan


def tags_finder(message: type[Message], version: int) -> Callable[[bytes, int, int], bool]:
    """The function ``(data, at, end) -> has tags`` for a response data[at:end], which begins with its length.

    It raises CodecError if these bytes are no such response, and is for flexible versions.
    """
    fields = plan(message, version, before=TAGS)
    return lambda data, at, end: ends_with_tags(data, at, end, fields)
