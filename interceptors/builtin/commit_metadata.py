"""Says in the metadata of commits who committed, where and when: what KIP-547 was written for."""

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
# What a format may ask for.
KNOWN: Mapping[str, Placeholder] = {
    "client_id": lambda context: context.client_id or "",
    "host": lambda context: platform.node(),
    "member_id": lambda context: context.member_id or "",
    "principal": lambda context: context.principal or "",
    "session": lambda context: str(context.session),
    "time": lambda context: _iso(context.clock()),
}


class CommitMetadataSettings(Settings):
    format: str = "client_id={client_id} host={host} time={time}"
    """What is appended. In braces: `client_id`, `host`, `member_id`, `principal`, `session`, `time`, or `env:` and the name of an environment variable. It must begin with plain text."""  # noqa: E501
    separator: str = Field(default=" ", min_length=1)
    """What stands between the client's metadata, where it gives any, and ours; within our values it becomes `_`."""


class CommitMetadata(ConsumerInterceptor):
    """Appends to the metadata of every offset that is committed. What it appended before is replaced, not repeated;
    what would not fit into the broker's limit is left out."""

    settings = CommitMetadataSettings()

    def __init__(self) -> None:
        self._texts: Sequence[str] = ()  # the plain texts of the format: one more than there are parts
        self._parts: Sequence[Placeholder] = ()
        self.configure({})

    def configure(self, configs: Mapping[str, Any]) -> None:
        self.settings = own = read_settings(CommitMetadataSettings, configs)
        try:
            self._texts, self._parts = _read(own.format)
        except ValueError as error:
            raise ValueError(f"format: {error}") from error

    def hints(self) -> Hints:
        return Hints(wants_records=False)

    def pre_commit(self, offsets: Offsets) -> Mapping[TopicPartition, OffsetAndMetadata]:
        own, left = self._own(offsets.context), {}
        for place, one in offsets.items():
            new = self._appended(one.metadata, own)
            left[place] = replace(one, metadata=new) if offsets.fits(new) else one
        return left

    def _own(self, context: Context) -> str:
        first, *others = self._texts
        values = (part(context).replace(self.settings.separator, "_") for part in self._parts)
        own = first + "".join(value + text for value, text in zip(values, others, strict=True))
        return own.encode("utf-8", "surrogateescape").decode(errors="replace")  # a client id may be any bytes

    def _appended(self, metadata: str, own: str) -> str:
        theirs = self._without_ours(metadata)
        return f"{theirs}{self.settings.separator}{own}" if theirs else own

    def _without_ours(self, metadata: str) -> str:
        """What the client gave, where it hands back what it had read from the broker."""
        theirs = metadata
        for _ in self._texts:  # the format may hold its own beginning once more
            theirs, found, _ = theirs.rpartition(self.settings.separator + self._texts[0])
            if found and self._is_ours(metadata[len(theirs) + len(self.settings.separator) :]):
                return theirs
        return "" if self._is_ours(metadata) else metadata

    def _is_ours(self, text: str) -> bool:
        """Whether it has the shape of what is appended: the plain texts of the format, in their order."""
        if not (text.startswith(self._texts[0]) and text.endswith(self._texts[-1])):
            return False
        at = 0
        for part in self._texts:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return True


def _read(text: str) -> tuple[list[str], list[Placeholder]]:
    """A format's plain texts, and what is to stand between them."""
    texts, parts = [""], []
    for plain, name, argument, conversion in Formatter().parse(text):
        texts[-1] += plain
        if name is not None:
            parts.append(_placeholder(name, argument or "", conversion))
            texts.append("")
    if not texts[0]:
        raise ValueError(
            'must begin with plain text, such as "by={client_id}": by it, what was appended is known again'
        )
    return texts, parts


def _placeholder(name: str, argument: str, conversion: str | None) -> Placeholder:
    if name == "env" and argument and not conversion:
        value = os.environ.get(argument)
        if value is None:
            raise ValueError(f"the environment variable {argument} is not set: set it, or leave it out")
        return lambda context: value
    if name not in KNOWN or argument or conversion:
        raise ValueError(f"there is no {{{name}}}; there are {', '.join(KNOWN)}, and env: with a variable's name")
    return KNOWN[name]


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
