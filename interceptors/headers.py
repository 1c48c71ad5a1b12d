"""A record's headers as interceptors see and change them: the operations of KIP-82."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_sidecar.codec.records import Header

OneHeader = Header | tuple[str, bytes | None]
# What was changed: each time the headers and what they were. One belongs to all records that a chain is given.
Journal = list[tuple["Headers", tuple[Header, ...]]]


class ReadOnlyError(Exception):
    """The chain has run (KIP-82: ``IllegalStateException``)."""


class Headers:
    """An ordered list of headers; a key may be there several times.

    Every change is noted in a journal, so that what an interceptor did before it failed can be undone, and so that it
    is known which records have to be written anew. Without a journal they are read-only.
    """

    __slots__ = ("_headers", "_journal")

    def __init__(
        self, headers: Iterable[Header | tuple[str, bytes | None]] = (), journal: Journal | None = None
    ) -> None:
        self._headers = tuple(_whole(one) if isinstance(one, Header) else _header(*one) for one in headers)
        self._journal = journal

    @classmethod
    def of(cls, read: tuple[Header, ...], journal: Journal | None) -> Headers:
        """Those of a record of a batch; `to_tuple` gives this very tuple back until they are changed."""
        headers = cls.__new__(cls)
        headers._headers, headers._journal = read, journal
        return headers

    def add(self, key: str | Header, value: bytes | None = None) -> Headers:
        """Put a header at the end, behind those of the same key.

        >>> headers = Headers([("a", b"1")], journal=[])
        >>> [header.value for header in headers.add("a", None).headers("a")]
        [b'1', None]

        Raises:
            ReadOnlyError: the chain has run.
            TypeError: the key is no text, or the value no bytes.
        """
        self._change((*self._headers, _whole(key) if isinstance(key, Header) else _header(key, value)))
        return self

    def remove(self, key: str) -> Headers:
        """Take away ALL headers of this key.

        Raises:
            ReadOnlyError: the chain has run.
            TypeError: the key is no text.
        """
        name = _encoded(key)
        left = tuple(header for header in self._headers if header.key_bytes != name)
        self._change(left if len(left) < len(self._headers) else self._headers)
        return self

    def last_header(self, key: str) -> Header | None:
        """The last header of this key, None where there is none. Raises TypeError for a key that is no text."""
        name = _encoded(key)
        return next((header for header in reversed(self._headers) if header.key_bytes == name), None)

    def headers(self, key: str) -> tuple[Header, ...]:
        """All headers of this key, in their order. Raises TypeError for a key that is no text."""
        name = _encoded(key)
        return tuple(header for header in self._headers if header.key_bytes == name)

    def to_tuple(self) -> tuple[Header, ...]:
        """All of them, in their order (Kafka: ``toArray``)."""
        return self._headers

    def close(self) -> None:
        """No change any more."""
        self._journal = None

    def __iter__(self) -> Iterator[Header]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __eq__(self, other: object) -> bool:
        return self._headers == other._headers if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # they change

    def __repr__(self) -> str:
        return f"Headers({[(header.key, header.value) for header in self._headers]!r})"

    def _change(self, headers: tuple[Header, ...]) -> None:
        if self._journal is None:
            raise ReadOnlyError("the headers are read-only: the interceptors have run")
        if headers is not self._headers:
            self._journal.append((self, self._headers))
            self._headers = headers


def undo(journal: Journal) -> None:
    """Make all headers again what they were when the journal was empty."""
    while journal:
        headers, before = journal.pop()
        headers._headers = before


def _whole(header: Header) -> Header:
    if not isinstance(header.key_bytes, bytes) or not isinstance(header.value, bytes | None):
        raise TypeError("the key of a header is text or bytes, and its value bytes or None")
    return header


def _header(key: str, value: bytes | None) -> Header:
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"the value of header {key!r} is {type(value).__name__}: give bytes or None")
    return Header(_encoded(key), value)


def _encoded(key: str) -> bytes:
    if not isinstance(key, str):
        raise TypeError(f"the key of a header is {type(key).__name__}: give text")
    return key.encode("utf-8", "surrogateescape")
