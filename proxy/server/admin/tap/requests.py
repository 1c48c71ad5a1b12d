"""Watches requests of any API for an open tap of requests: what was asked for, and how long who has taken.

What passes is only kept. It is looked into with others, as lines leave: for each as it passes it takes ten times as
long, as the code of it is no longer in the CPU's caches.
"""

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
from kafka_sidecar.codec.produce_counts import produce_errors
from kafka_sidecar.codec.response_status import MAX_STATUS_BYTES, read_status
from kafka_sidecar.proxy.relay.exchange import Client
from kafka_sidecar.proxy.relay.frames import Frames
from kafka_sidecar.proxy.relay.routes import GlancingTap, Seen
from kafka_sidecar.proxy.relay.watch import Tap, Watch, WatchedRequest
from kafka_sidecar.proxy.relay.watch_pairs import TimedWatch
from kafka_sidecar.proxy.server.admin.tap.glancing import MAX_GLANCED, glance
from kafka_sidecar.proxy.server.admin.tap.open_tap import OpenTap, client_of, cut
from kafka_sidecar.proxy.server.admin.tap.records import Reader
from kafka_sidecar.proxy.server.admin.waiting_frames import MAX_BYTES, MAX_FRAMES

MAX_TOPICS = 20  # that a line names
MAX_DECODED_BYTES = 4 << 10  # of a request whose topics are looked for
MAX_RESPONSE_BYTES = 2 << 10  # in which an error is looked for beyond its beginning
MAX_HEAD_BYTES = 16 << 10  # of a request that comes in pieces
CORRELATION_AT, CORRELATION_END = 8, 12  # in a request
STATUS_AT = 8  # in a response: length, correlation id
WITH_PAYLOAD = (ApiKey.FETCH, ApiKey.SHARE_FETCH)  # responses that are not searched


class RequestsTap(Tap):
    """What one API and version shows to an open tap."""

    __slots__ = ("_bytes", "_waiting", "grants_all", "key", "open", "reader", "version")

    def __init__(self, open_tap: OpenTap, reader: Reader, key: int, version: int) -> None:
        self.open = open_tap
        self.reader = reader
        self.key = key
        self.version = version
        self.grants_all = open_tap.filter.topics is None  # where a line is granted, whatever the request says
        self._waiting: list[RequestWatch] = []  # that are yet to be looked into
        self._bytes = 0  # which these keep

    def begin(self, client: Client, state: object, now: float) -> RequestWatch:
        watch = RequestWatch(self, client, now)
        watch.may_be_shown = self._admits(client)
        return watch

    def show_request(
        self, client: Client, state: object, frames: Frames, data: bytes, at: int, size: int, waits: object, now: float
    ) -> Watch | None:
        if not self._admits(client):
            return None
        if len(data) < at + size:
            watch = RequestWatch(self, client, now)
            frames.edit(WatchedRequest(watch, waits is not None))
            return watch
        watch = RequestWatch(self, client, now, data, at, size)
        self.wait(watch, len(data))
        if waits is None:
            watch.unanswered()
            return None
        return watch

    def _admits(self, client: Client) -> bool:
        """Whether a request may be shown, by what is known before it is looked into."""
        wanted = self.open.filter
        if not wanted.allows_any_client and not wanted.allows_client(client.client_id, client.principal):
            return False
        return not self.grants_all or self.open.grant(1) > 0

    def wait(self, watch: RequestWatch, size: int) -> None:
        """Look into a request with others; it keeps ``size`` bytes."""
        waiting = self._waiting
        if not waiting:
            self.open.before_leaving(self._look)
        waiting.append(watch)
        self._bytes += size
        if self._bytes > MAX_BYTES or len(waiting) >= MAX_FRAMES:
            self._look()

    def _look(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        for watch in waiting:
            watch.look()

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


class FilteredRequestsTap(RequestsTap, GlancingTap):
    """A tap with filters: requests of other clients, and Produce requests for other topics, cost nothing."""

    __slots__ = ()

    def glance(self, client: Client, data: bytes, at: int, size: int) -> Seen:
        return glance(self.open.filter, self.reader.name_of, self.key, self.version, client, data, at, size)


class RequestWatch(TimedWatch):
    """One request."""

    __slots__ = (
        "_answered_by", "_arrived", "_at_ms", "_began", "_client", "_decided", "_frame", "_is_answered_here",
        "_is_whole", "_parts", "_response_bytes", "_shown_at", "_size", "_start", "_tap", "_topics", "may_be_shown",
    )  # fmt: skip

    def __init__(
        self, tap: RequestsTap, client: Client, now: float, data: bytes = b"", start: int = 0, size: int = -1
    ) -> None:
        """``data``: has the request of ``size`` bytes, where it is whole."""
        super().__init__()
        self._tap = tap
        self._client = client
        self._began = now
        self._decided: float | None = None
        self._arrived: float | None = None
        self._is_answered_here = False
        self._frame, self._start = data, start  # the request, or its beginning if it comes in pieces
        self._size = size  # none has come yet: -1
        self._is_whole = size >= 0
        self._topics: list[str | bytes] | None = None  # that the request names, once it was looked into
        self._parts = b""  # of the response
        self._response_bytes = -1  # none has come
        self._shown_at: float | None = now
        self._at_ms = 0
        self._answered_by = ""  # once it is
        self.may_be_shown = True

    def request(self, data: bytes, start: int, end: int, last: bool) -> None:
        if not self.may_be_shown:
            return
        if self._size < 0:
            self._size = int.from_bytes(data[start : start + 4], "big") + 4
        if last and not self._frame:
            self._frame, self._start = data, start
        elif len(self._frame) < MAX_HEAD_BYTES:
            self._frame += data[start : min(end, start + MAX_HEAD_BYTES)]
        if last:
            self._is_whole = True
            self._tap.wait(self, len(self._frame))

    def look(self) -> None:
        """Find the topics of the request: is it wanted?"""
        tap, start = self._tap, self._start
        self._topics = tap.topics(self._frame, start, start + self._size)
        self._frame, self._start = self._frame[start : start + CORRELATION_END], 0
        if not tap.grants_all and self.may_be_shown:
            matches = tap.open.filter.topics
            assert matches is not None
            self.may_be_shown = any(map(matches, map(self._name, self._topics))) and tap.open.grant(1) > 0

    def _name(self, key: str | bytes) -> str:
        return self._tap.reader.name_of(key) or (key.hex() if isinstance(key, bytes) else key)

    def decided(self, now: float, is_answered: bool) -> None:
        self._decided, self._is_answered_here = now, is_answered

    def arrived(self, now: float) -> None:
        self._arrived = now

    def unanswered(self) -> None:
        self._show("none", self._began)

    def lost(self, why: str) -> None:
        self._show("lost", None)

    def show_response(self, frames: Frames, data: bytes, at: int, size: int, now: float) -> None:
        if not self.may_be_shown:
            return
        if len(data) < at + size:
            super().show_response(frames, data, at, size, now)
        else:
            self._response_bytes = size
            self._parts = data[at : at + min(size, MAX_RESPONSE_BYTES)]
            self._show("sidecar" if self._is_answered_here else "broker", now)

    def response(self, data: bytes, start: int, end: int, last: bool, now: float) -> None:
        if not self.may_be_shown:
            return
        if self._response_bytes < 0:
            self._response_bytes = int.from_bytes(data[start : start + 4], "big") + 4
            self._parts, self._shown_at = data[start : min(end, start + MAX_RESPONSE_BYTES)], now
        elif len(self._parts) < min(self._response_bytes, MAX_RESPONSE_BYTES):
            self._parts += data[start : min(end, start + MAX_RESPONSE_BYTES)]
        if last:
            self._show("sidecar" if self._is_answered_here else "broker", self._shown_at)

    def _show(self, answered_by: str, now: float | None) -> None:
        if self.may_be_shown and self._is_whole and not self._answered_by:
            self._answered_by, self._shown_at, self._at_ms = answered_by, now, int(time.time() * 1000)
            self._tap.open.add(self.line)

    def line(self) -> dict[str, Any] | None:
        """The line, once it is answered or never will be; None: it is not shown."""
        if self._topics is None:
            self.look()
        if not self.may_be_shown:
            return None
        tap, shown_at = self._tap, self._shown_at
        took_s = None if shown_at is None else max(0.0, shown_at - self._began)
        waited_s = took_s
        if self._is_answered_here:
            waited_s = 0.0
        elif shown_at is not None and (self._decided is not None or self._arrived is not None):
            # An exchange has looked into either.
            waited_s = max(0.0, (self._arrived or shown_at) - (self._decided or self._began))
        is_answered = self._response_bytes >= 0
        topics = self._topics or ()
        line: dict[str, Any] = {
            "kind": "request",
            "at_ms": self._at_ms,
            "api": APIS[tap.key].name,
            "version": tap.version,
            "request_bytes": self._size,
            "correlation_id": int.from_bytes(self._frame[CORRELATION_AT:CORRELATION_END], "big"),
            "topics": [cut(self._name(one)) for one in topics[:MAX_TOPICS]],
            "response_bytes": self._response_bytes if is_answered else None,
            "answered_by": self._answered_by,
            "latency_ms": _ms(took_s) if is_answered else None,
            "broker_ms": _ms(waited_s) if is_answered else None,
            "sidecar_ms": _ms(max(0.0, took_s - waited_s)) if took_s is not None and waited_s is not None else None,
            "error_code": self._error() if is_answered else None,
            **client_of(self._client),
        }
        if len(topics) > MAX_TOPICS:
            line["topics_left"] = len(topics) - MAX_TOPICS
        return line

    def _error(self) -> int | None:
        """The error code at the beginning, or the first one inside; None: it does not say."""
        key, version, frame = self._tap.key, self._tap.version, self._parts
        code = read_status(key, version, frame[STATUS_AT : STATUS_AT + MAX_STATUS_BYTES]).error_code
        if code or key in WITH_PAYLOAD or self._response_bytes > MAX_RESPONSE_BYTES:
            return code
        try:
            if key == ApiKey.PRODUCE:
                found = produce_errors(frame, 0, len(frame), version)
            elif (messages := _messages(key)) is not None:
                found = list(_errors_in(decode_response(messages[1], frame, version).message))
            else:
                return code
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
    if not open_tap.filter.allows("api", APIS[key].name):
        return None
    is_filtered = open_tap.filter.is_of_clients_or_topics
    return (FilteredRequestsTap if is_filtered else RequestsTap)(open_tap, reader, key, version)
