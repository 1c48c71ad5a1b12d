"""Adds to the metadata of commits who committed, where and when: the motivation of KIP-547."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from string import Formatter
from typing import Any

from pydantic import Field

from kafka_sidecar.interceptors.contract import (
    ConsumerInterceptor,
    Context,
    Hints,
    OffsetAndMetadata,
    Offsets,
    TopicPartition,
)
from kafka_sidecar.plugins.settings import Settings, read_settings

Placeholder = Callable[[Context], str]
# What a format can contain in braces.
KNOWN: Mapping[str, Placeholder] = {
    "client_id": lambda context: context.client_id or "",
    "host": lambda context: platform.node(),
    "member_id": lambda context: context.member_id or "",
    "principal": lambda context: context.principal or "",
    "session": lambda context: str(context.session),
    "time": lambda context: _format_time(context.clock()),
}


class CommitMetadataSettings(Settings):
    format: str = "client_id={client_id} host={host} time={time}"
    """The text to append. In braces: `client_id`, `host`, `member_id`, `principal`, `session`, `time`, or `env:` and the name of an environment variable. It must begin with plain text."""  # noqa: E501
    separator: str = Field(default=" ", min_length=1)
    """Separates the client's metadata, if there is any, from the appended text; in the values it becomes `_`."""


class CommitMetadata(ConsumerInterceptor):
    """Appends to the metadata of every committed offset. A text that it has appended before is replaced; one that would
    exceed the broker's limit is not appended."""

    settings = CommitMetadataSettings()

    def __init__(self) -> None:
        self._texts: Sequence[str] = ()  # the plain texts of the format, one more than placeholders
        self._placeholders: Sequence[Placeholder] = ()
        self.configure({})

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(CommitMetadataSettings, configs)
        try:
            self._texts, self._placeholders = _parse_format(own.format)
        except ValueError as error:
            raise ValueError(f"format: {error}") from error

    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        own, left = self._text(offsets.context), {}
        for partition, one in offsets.items():
            new = self._append(one.metadata, own)
            left[partition] = replace(one, metadata=new) if offsets.fits(new) else one
        return left

    def _text(self, context: Context) -> str:
        first, *others = self._texts
        values = (part(context).replace(self.settings.separator, "_") for part in self._placeholders)
        own = first + "".join(value + text for value, text in zip(values, others, strict=True))
        return own.encode("utf-8", "surrogateescape").decode(errors="replace")  # client ids may contain any bytes

    def _append(self, metadata: str, own: str) -> str:
        theirs = self._without_ours(metadata)
        return f"{theirs}{self.settings.separator}{own}" if theirs else own

    def _without_ours(self, metadata: str) -> str:
        """The client's own metadata, if it commits metadata that it has read from the broker."""
        theirs = metadata
        for _ in self._texts:  # the format may contain its own beginning again
            theirs, found, _ = theirs.rpartition(self.settings.separator + self._texts[0])
            if found and self._is_ours(metadata[len(theirs) + len(self.settings.separator) :]):
                return theirs
        return "" if self._is_ours(metadata) else metadata

    def _is_ours(self, text: str) -> bool:
        """Whether this is an appended text: it has the plain texts of the format, in order."""
        if not (text.startswith(self._texts[0]) and text.endswith(self._texts[-1])):
            return False
        at = 0
        for part in self._texts:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return True


def _parse_format(text: str) -> tuple[list[str], list[Placeholder]]:
    """A format's plain texts, and the placeholders between them."""
    texts, parts = [""], []
    for plain, name, argument, conversion in Formatter().parse(text):
        texts[-1] += plain
        if name is not None:
            parts.append(_placeholder(name, argument or "", conversion))
            texts.append("")
    if not texts[0]:
        raise ValueError(
            'must begin with plain text, such as "by={client_id}", by which the appended text is recognised'
        )
    return texts, parts


def _placeholder(name: str, argument: str, conversion: str | None) -> Placeholder:
    if name == "env" and argument and not conversion:
        value = os.environ.get(argument)
        if value is None:
            raise ValueError(f"the environment variable {argument} is not set: set it, or remove it from the format")
        return lambda context: value
    if name not in KNOWN or argument or conversion:
        raise ValueError(f"unknown {{{name}}}: write one of {', '.join(KNOWN)}, or env: with a variable's name")
    return KNOWN[name]


def _format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
