"""The headers of a record, with the operations of KIP-82."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafka_sidecar.codec.records import Header
from kafka_sidecar.plugins.violations import ContractError, ContractTypeError

OneHeader = Header | tuple[str, bytes | None]
# Changes, to undo them: the headers object and its value before each change. Shared by all records of a chain.
Journal = list[tuple["Headers", tuple[Header, ...]]]


class ReadOnlyError(ContractError):
    """The headers are read-only: the chain has ended (KIP-82: ``IllegalStateException``)."""


class Headers:
    """An ordered list of headers; a key may occur several times.

    Every change is noted in a journal, so that the changes of an interceptor that fails can be undone, and it is known
    which records have to be written. Without a journal the headers are read-only.
    """

    __slots__ = ("_headers", "_journal")

    def __init__(
        self, headers: Iterable[Header | tuple[str, bytes | None]] = (), journal: Journal | None = None
    ) -> None:
        self._headers = tuple(_checked(one) if isinstance(one, Header) else _new_header(*one) for one in headers)
        self._journal = journal

    @classmethod
    def of(cls, read: tuple[Header, ...], journal: Journal | None) -> Headers:
        """The headers of a record of a batch; `to_tuple` returns the same tuple until they are changed."""
        headers = cls.__new__(cls)
        headers._headers, headers._journal = read, journal
        return headers

    def add(self, key: str | Header, value: bytes | None = None) -> Headers:
        """Append a header, also if there are some with the same key.

        >>> headers = Headers([("a", b"1")], journal=[])
        >>> [header.value for header in headers.add("a", None).headers("a")]
        [b'1', None]

        Raises:
            ReadOnlyError: the chain has ended.
            TypeError: the key is not text, or the value not bytes or None.
        """
        self._change((*self._headers, _checked(key) if isinstance(key, Header) else _new_header(key, value)))
        return self

    def remove(self, key: str) -> Headers:
        """Remove ALL headers with this key.

        Raises:
            ReadOnlyError: the chain has ended.
            TypeError: the key is not text.
        """
        name = _encode_key(key)
        left = tuple(header for header in self._headers if header.key_bytes != name)
        self._change(left if len(left) < len(self._headers) else self._headers)
        return self

    def last_header(self, key: str) -> Header | None:
        """The last header with this key, None if there is none. Raises TypeError for a key that is not text."""
        name = _encode_key(key)
        return next((header for header in reversed(self._headers) if header.key_bytes == name), None)

    def headers(self, key: str) -> tuple[Header, ...]:
        """All headers with this key, in order. Raises TypeError for a key that is not text."""
        name = _encode_key(key)
        return tuple(header for header in self._headers if header.key_bytes == name)

    def to_tuple(self) -> tuple[Header, ...]:
        """All headers, in order (Kafka: ``toArray``)."""
        return self._headers

    def close(self) -> None:
        """Make the headers read-only."""
        self._journal = None

    def __iter__(self) -> Iterator[Header]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)

    def __eq__(self, other: object) -> bool:
        return self._headers == other._headers if isinstance(other, Headers) else NotImplemented

    __hash__ = None  # type: ignore[assignment] # mutable

    def __repr__(self) -> str:
        return f"Headers({[(header.key, header.value) for header in self._headers]!r})"

    def _change(self, headers: tuple[Header, ...]) -> None:
        if self._journal is None:
            raise ReadOnlyError("the headers are read-only after the last interceptor")
        if headers is not self._headers:
            self._journal.append((self, self._headers))
            self._headers = headers


def undo(journal: Journal) -> None:
    """Undo all changes of the journal."""
    while journal:
        headers, before = journal.pop()
        headers._headers = before


def _checked(header: Header) -> Header:
    if not isinstance(header.key_bytes, bytes) or not isinstance(header.value, bytes | None):
        raise ContractTypeError("the key of a Header must be text or bytes, and its value bytes or None")
    return header


def _new_header(key: str, value: bytes | None) -> Header:
    if value is not None and not isinstance(value, bytes):
        raise ContractTypeError(f"the value of a header is {type(value).__name__}: it must be bytes or None")
    return Header(_encode_key(key), value)


def _encode_key(key: str) -> bytes:
    if not isinstance(key, str):
        raise ContractTypeError(f"the key of a header is {type(key).__name__}: it must be text")
    return key.encode("utf-8", "surrogateescape")
