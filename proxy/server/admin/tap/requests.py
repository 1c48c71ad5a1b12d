"""Watches requests of any API for an open tap of requests: what was asked for, and how long who has taken."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from kafka_sidecar.codec.apis import APIS, ApiKey
from kafka_sidecar.codec.envelope import decode_request, decode_response
from kafka_sidecar.codec.errors import CodecError
from kafka_sidecar.codec.glance import glance_fetch, glance_produce
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.response_status import MAX_STATUS_BYTES, read_status
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest
from kafka_sidecar.proxy.relay.watch_pairs import TimedWatch
from kafka_sidecar.proxy.server.admin.tap.open_tap import OpenTap, client_of, cut
from kafka_sidecar.proxy.server.admin.tap.records import Reader

MAX_TOPICS = 20  # that a line names
MAX_DECODED_BYTES = 4 << 10  # of a request whose topics are looked for
MAX_GLANCED = 1_000  # partitions of Produce and Fetch
MAX_RESPONSE_BYTES = 2 << 10  # in which an error is looked for beyond its beginning
MAX_HEAD_BYTES = 16 << 10  # of a request that comes in pieces
STATUS_AT = 8  # in a response: length, correlation id
WITH_PAYLOAD = (ApiKey.FETCH, ApiKey.SHARE_FETCH)  # responses that are not searched


class RequestsTap(Tap):
    """What one API and version shows to an open tap."""

    __slots__ = ("key", "open", "reader", "version")

    def __init__(self, open_tap: OpenTap, reader: Reader, key: int, version: int) -> None:
        self.open = open_tap
        self.reader = reader
        self.key = key
        self.version = version

    def begin(self, client: Client, state: object, now: float) -> Watch:
        return RequestWatch(self, client, now)

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if not self.open.filter.allows_client(client.client_id, client.principal):
            return None
        if self.open.filter.topics is None and not self.open.has_left:
            self.open.skip(1)
            return None
        watch = RequestWatch(self, client, now)
        if len(data) < at + size:
            frames.edit(WatchedRequest(watch, waits is not None))
            return watch
        watch.request(data, at, at + size, True)
        if waits is None:
            watch.unanswered()
        return watch if watch.is_shown and waits is not None else None

    def topics(self, data: bytes, start: int, end: int) -> list[str | bytes]:
        """Those that the request data[start:end] names, or begins with."""
        if self.key == ApiKey.PRODUCE:
            return list(glance_produce(data, start, end - start, self.version, MAX_GLANCED)[0])
        if self.key == ApiKey.FETCH:
            seen = glance_fetch(data, start, end - start, self.version, MAX_GLANCED)
            return list(seen.topics) if seen is not None else []
        messages = _messages(self.key)
        if messages is None or end - start > MAX_DECODED_BYTES:
            return []
        try:
            _, opened = decode_request(messages[0], data[start:end])
        except (CodecError, UnicodeDecodeError):
            return []
        return list(dict.fromkeys(_topics_in(opened.message)))


class RequestWatch(TimedWatch):
    """One request."""

    __slots__ = (
        "_arrived", "_began", "_client", "_decided", "_head", "_is_answered_here", "_line", "_parts", "_response_bytes",
        "_shown_at", "_tap", "is_shown",
    )  # fmt: skip

    def __init__(self, tap: RequestsTap, client: Client, now: float) -> None:
        super().__init__()
        self._tap = tap
        self._client = client
        self._began = now
        self._decided: float | None = None
        self._arrived: float | None = None
        self._is_answered_here = False
        self._head = b""  # of a request that comes in pieces
        self._line: dict[str, Any] = {}
        self._parts = b""  # of a response that comes in pieces
        self._response_bytes = -1  # none has come
        self._shown_at = now
        self.is_shown = False

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if not self._line:
            size = int.from_bytes(data[start : start + 4], "big") + 4
            self._line = {"request_bytes": size, "correlation_id": int.from_bytes(data[start + 8 : start + 12], "big")}
        if not last or self._head:
            if len(self._head) < MAX_HEAD_BYTES:
                self._head += data[start : min(end, start + MAX_HEAD_BYTES)]
            if not last:
                return
            data, start, end = self._head, 0, self._line["request_bytes"]
        self._head = b""
        self._look(data, start, end)

    def _look(self, data: bytes, start: int, end: int) -> None:
        """The request is here, or its beginning: is it wanted?"""
        open_tap, name_of = self._tap.open, self._tap.reader.name_of
        matches = open_tap.filter.topics
        if not open_tap.filter.allows_client(self._client.client_id, self._client.principal):
            return
        if matches is None and not open_tap.has_left:
            open_tap.skip(1)
            return
        named = self._tap.topics(data, start, end)
        topics = [name_of(key) or (key.hex() if isinstance(key, bytes) else key) for key in named]
        if matches is not None and not any(map(matches, topics)):
            return
        if open_tap.grant(1):
            self.is_shown = True
            self._line["topics"] = [cut(name) for name in topics[:MAX_TOPICS]]
            if len(topics) > MAX_TOPICS:
                self._line["topics_left"] = len(topics) - MAX_TOPICS

    def decided(self, now: float, is_answered: bool) -> None:
        self._decided, self._is_answered_here = now, is_answered

    def arrived(self, now: float) -> None:
        self._arrived = now

    def unanswered(self) -> None:
        self._show("none", self._began)

    def lost(self, why: str) -> None:
        self._show("lost", None)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        if not self.is_shown:
            return
        if self._response_bytes < 0:
            self._response_bytes = int.from_bytes(data[start : start + 4], "big") + 4
            self._parts, self._shown_at = data[start : min(end, start + MAX_RESPONSE_BYTES)], now
        elif len(self._parts) < min(self._response_bytes, MAX_RESPONSE_BYTES):
            self._parts += data[start : min(end, start + MAX_RESPONSE_BYTES)]
        if last:
            self._show("sidecar" if self._is_answered_here else "broker", now)

    def _show(self, answered_by: str, now: float | None) -> None:
        if not self.is_shown:
            return
        self.is_shown = False
        tap = self._tap
        took_s = None if now is None else max(0.0, self._shown_at - self._began)
        waited_s = took_s
        if self._is_answered_here:
            waited_s = 0.0
        elif self._decided is not None or self._arrived is not None:  # an exchange has looked into either
            waited_s = max(0.0, (self._arrived or self._shown_at) - (self._decided or self._began))
        is_answered = self._response_bytes >= 0
        tap.open.add(
            {
                "kind": "request",
                "at_ms": int(time.time() * 1000),
                "api": APIS[tap.key].name,
                "version": tap.version,
                **self._line,
                "response_bytes": self._response_bytes if is_answered else None,
                "answered_by": answered_by,
                "latency_ms": _ms(took_s) if is_answered else None,
                "broker_ms": _ms(waited_s) if is_answered else None,
                "sidecar_ms": _ms(max(0.0, took_s - waited_s)) if took_s is not None and waited_s is not None else None,
                "error_code": self._error() if is_answered else None,
                **client_of(self._client),
            }
        )

    def _error(self) -> int | None:
        """The error code at the beginning, or the first one inside; None: it does not say."""
        key, version, frame = self._tap.key, self._tap.version, self._parts
        code = read_status(key, version, frame[STATUS_AT : STATUS_AT + MAX_STATUS_BYTES]).error_code
        messages = _messages(key)
        if code or messages is None or key in WITH_PAYLOAD or self._response_bytes > MAX_RESPONSE_BYTES:
            return code
        try:
            found = list(_errors_in(decode_response(messages[1], frame, version).message))
        except (CodecError, UnicodeDecodeError):
            return code
        return next(filter(None, found), found[0] if found else code)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


@cache
def _messages(key: int) -> tuple[type[Message], type[Message]] | None:
    """The declarations of an API; None: it has none."""
    name = ApiKey(key).name.lower()
    try:
        module = import_module(f"kafka_sidecar.codec.messages.{name}")
        return getattr(module, f"{APIS[key].name}Request"), getattr(module, f"{APIS[key].name}Response")
    except (ImportError, AttributeError):
        return None


def _topics_in(message: Any, field: str = "") -> Iterator[str | bytes]:
    """The topics that a message names: in fields that say so, or by the name of an element of such a field."""
    for name in message._fields:
        value = getattr(message, name)
        if name in ("topic", "topic_name", "topic_id") or (name == "name" and "topic" in field):
            if value and value != bytes(16):
                yield value
        elif name == "resource_name":
            if getattr(message, "resource_type", None) == 2:  # a topic
                yield value
        elif isinstance(value, tuple):
            for one in value:
                if hasattr(one, "_fields"):
                    yield from _topics_in(one, name)
                elif isinstance(one, str) and "topic" in name:
                    yield one


def _errors_in(message: Any) -> Iterator[int]:
    for name in message._fields:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, tuple):
            for one in value if not hasattr(value, "_fields") else [value]:
                if hasattr(one, "_fields"):
                    yield from _errors_in(one)


def requests_tap(open_tap: OpenTap, reader: Reader, key: int, version: int) -> Tap | None:
    """What watches requests of this API and version; None: they are not wanted."""
    return RequestsTap(open_tap, reader, key, version) if open_tap.filter.allows("api", APIS[key].name) else None
