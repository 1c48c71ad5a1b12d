"""Errors for malformed bytes, and for values that do not fit the wire."""

from __future__ import annotations

from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class CodecError(Exception):
    """Bytes that are not a valid message, or a value that cannot be written. The base of all errors of the codec."""


class TruncatedError(CodecError):
    """The bytes end inside a message."""


class TooManyError(CodecError):
    """A message has more topics or partitions than a limit."""


class UnsupportedVersionError(CodecError):
    """An API key, a version, or a field of a version that is not declared."""


def bare(error: E) -> E:
    """The error without its tracebacks, to be kept: their frames hold whatever was being read, a whole request."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error
