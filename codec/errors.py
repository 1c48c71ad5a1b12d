"""What goes wrong with bytes that are not what they should be, or values that do not fit the wire."""

from __future__ import annotations


class CodecError(Exception):
    """Bytes that are no Kafka message, or a value that cannot be written as one. The only thing the codec raises."""


class TruncatedError(CodecError):
    """The bytes end before the message does."""


class FrameSizeError(CodecError):
    """A frame announces a size that is negative or above the limit."""


class UnsupportedVersionError(CodecError):
    """An API key, a version, or a field of a version that the declarations do not know."""
