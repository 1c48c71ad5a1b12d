"""Checks that bytes are one well-formed JSON text, without creating any object.

JSON parsers disagree on edge cases. Here the definition is the grammar of RFC 8259, and

* UTF-8 only and strictly: no overlong forms, no surrogates, nothing above U+10FFFF. A byte order mark is rejected.
* An escaped surrogate must be part of a pair: a lone one (``\\ud800``) is not a character, and many parsers reject it.
* NaN and Infinity are rejected. Numbers may have any size and precision.
* Duplicate keys are accepted (the policy `json` can reject both).
* Whitespace is space, tab, line feed and carriage return. An empty text is rejected.
* Arrays and objects may be nested up to the depth that the caller gives, at most `MAX_NESTING`.

This file runs as it is and compiled: syntax.pxd holds the C types, and C versions of the first functions.
A negative position is a failure: ``-(16 * position + reason)``.
"""

from __future__ import annotations

import re
import sys

from kafka_sidecar.codec.checkpoint import COMPILED, MAX_BYTES, checkpoint

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.records import Records

    _PLAIN = re.compile(rb"[ !#-\[\]-\x7f]*")
    _DIGITS = re.compile(rb"[0-9]*")

    def after_plain(data: bytes, at: int, end: int) -> int:
        """The end of a run of ASCII characters that need no escape in a string."""
        return _PLAIN.match(data, at, end).end()  # type: ignore[union-attr]

    def after_digits(data: bytes, at: int, end: int) -> int:
        return _DIGITS.match(data, at, end).end()  # type: ignore[union-attr]


MAX_NESTING = 512  # levels
_MAX_NESTING, _COMPILED, _MAX_BYTES = MAX_NESTING, COMPILED, MAX_BYTES  # for C
_LONG = 64 << 10  # bytes

_EMPTY, _ENDS_EARLY, _UNEXPECTED, _BAD_NUMBER, _BAD_WORD, _TOO_DEEP, _TRAILING = 1, 2, 3, 4, 5, 6, 7
_CONTROL, _BAD_ESCAPE, _LONE_SURROGATE, _NOT_UTF8 = 8, 9, 10, 11
_REASONS = (
    "",
    "empty",
    "ends too early",
    "unexpected character",
    "invalid number",
    "expected true, false or null",
    "deeper than {max_depth}",
    "text after the end",
    "control character in a string",
    "bad escape",
    "half of a surrogate pair",
    "not UTF-8",
)


def find_not_json(
    records: Records, of_key: bool, max_depth: int, nulls: bool = True, max_results: int = sys.maxsize
) -> list[tuple[int, str | None]]:
    """The indexes of the records whose value, or key, is not one well-formed JSON text, at most ``max_results``.

    Each has the reason as from `find_fault`, or None if the value, or key, is null; these are included only with
    ``nulls``.
    """
    found: list[tuple[int, str | None]] = []
    record = records._cursor()
    data = records.payload
    read = 0  # bytes since the last checkpoint
    for index in range(len(records)):
        record._advance()
        record._read()
        start = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        read += size
        if read > _MAX_BYTES or index & _COMPILED == _COMPILED:
            read = 0
            checkpoint()
        fault = scan_long(data, start, start + size, max_depth) if size >= 0 else 0
        if fault or (nulls and size < 0):
            found.append((index, describe(fault, start, max_depth)))
            if len(found) >= max_results:
                break
    return found


def find_fault(data: bytes, start: int, end: int, max_depth: int) -> str | None:
    """Why ``data[start:end]`` is not one well-formed JSON text, or None if it is.

    The reason quotes no contents; its position counts bytes from ``start``: ``"bad escape at byte 17"``.

    Raises:
        ValueError: the range is outside the data, or ``max_depth`` outside 0 to `MAX_NESTING`.
    """
    if not (0 <= start <= end <= len(data) and 0 <= max_depth <= MAX_NESTING):
        raise ValueError(f"invalid range {start} to {end} of {len(data)} bytes, or depth {max_depth} of {MAX_NESTING}")
    return describe(scan_long(data, start, end, max_depth), start, max_depth)


def after_value(data: bytes, at: int) -> int:
    """The end of the value that begins at ``at`` in a text in which `find_fault` finds none."""
    end = min(at + _LONG, len(data))
    found = scan(data, at, end, _MAX_NESTING)
    if end < len(data) and -found % 16 != _TRAILING:
        end = len(data)
        found = scan_long(data, at, end, _MAX_NESTING)
    at = -found // 16 if found else end
    while data[at - 1] <= 0x20:  # what follows the value was looked for after the whitespace
        at -= 1
    return at


def scan_long(data: bytes, start: int, end: int, max_depth: int) -> int:
    """As `scan`; other threads run meanwhile if the range is long: a megabyte takes up to 7 ms."""
    if end - start <= _LONG:
        return scan(data, start, end, max_depth)
    with cython.nogil:
        found = scan(data, start, end, max_depth)
    return found  # noqa: RET504 - C cannot return in the block


def describe(found: int, start: int, max_depth: int) -> str | None:
    """The text for a failure code of `scan`, None for 0."""
    if found == 0:
        return None
    return f"{_REASONS[-found % 16].format(max_depth=max_depth)} at byte {-found // 16 - start}"


def scan(data: bytes, start: int, end: int, max_depth: int) -> int:  # noqa: C901 - one loop: C keeps it in registers
    """`find_fault` for C callers: 0, or a failure code for `describe`. The range must be within the data."""
    if not cython.compiled:
        closers = bytearray(_MAX_NESTING)  # of the open arrays and objects
    depth = 0
    at = _after_space(data, start, end)
    if at == end:
        return _failed(_EMPTY, at)
    while at >= 0:  # before a value
        if at == end:
            return _failed(_ENDS_EARLY, at)
        byte = data[at]
        if byte == 0x22:  # "
            at = _after_string(data, at + 1, end)
        elif byte == 0x7B or byte == 0x5B:  # { [
            if depth >= max_depth or depth >= _MAX_NESTING:
                return _failed(_TOO_DEEP, at)
            closers[depth] = byte + 2  # } ]
            depth += 1
            at = _after_space(data, at + 1, end)
            if at == end or data[at] != byte + 2:
                at = _after_key(data, at, end) if byte == 0x7B else at
                continue
        else:
            at = _after_scalar(data, at, end, byte)
        while at >= 0:  # after a value
            at = _after_space(data, at, end)
            if at == end or depth == 0:
                return _ended(at, end, depth)
            byte = data[at]
            if byte != closers[depth - 1]:
                at = _after_comma(data, at, end, byte, closers[depth - 1])
                break
            depth -= 1
            at += 1
    return at


def _ended(at: int, end: int, depth: int) -> int:
    if at < end:
        return _failed(_TRAILING, at)
    return 0 if depth == 0 else _failed(_ENDS_EARLY, at)


def _failed(reason: int, at: int) -> int:
    return -(16 * at + reason)


def _after_space(data: bytes, at: int, end: int) -> int:
    while at < end and data[at] <= 0x20 and (data[at] == 0x20 or data[at] == 0x0A or data[at] == 0x0D or data[at] == 9):
        at += 1
    return at


def _after_comma(data: bytes, at: int, end: int, byte: int, closer: int) -> int:
    """The position where the next value of the array or object with this closer must be."""
    if byte != 0x2C:  # ,
        return _failed(_UNEXPECTED, at)
    at = _after_space(data, at + 1, end)
    return _after_key(data, at, end) if closer == 0x7D else at


def _after_key(data: bytes, at: int, end: int) -> int:
    """From the position of a key to that of its value."""
    if at == end:
        return _failed(_ENDS_EARLY, at)
    if data[at] != 0x22:
        return _failed(_UNEXPECTED, at)
    at = _after_string(data, at + 1, end)
    if at < 0:
        return at
    at = _after_space(data, at, end)
    if at == end:
        return _failed(_ENDS_EARLY, at)
    if data[at] != 0x3A:  # :
        return _failed(_UNEXPECTED, at)
    return _after_space(data, at + 1, end)


def _after_string(data: bytes, at: int, end: int) -> int:
    """From the position after the opening quote to that after the closing one."""
    while True:
        at = after_plain(data, at, end)
        if at == end:
            return _failed(_ENDS_EARLY, at)
        byte = data[at]
        if byte == 0x22:
            return at + 1
        if byte == 0x5C:  # \
            at = _after_escape(data, at, end)
        elif byte < 0x20:
            return _failed(_CONTROL, at)
        else:
            at = _after_character(data, at, end)
        if at < 0:
            return at


def _after_escape(data: bytes, at: int, end: int) -> int:
    if end - at < 2:
        return _failed(_ENDS_EARLY, end)
    byte = data[at + 1]
    if byte != 0x75:  # u
        known = byte == 0x22 or byte == 0x5C or byte == 0x2F or byte == 0x62  # " \ / b
        known = known or byte == 0x66 or byte == 0x6E or byte == 0x72 or byte == 0x74  # f n r t
        return at + 2 if known else _failed(_BAD_ESCAPE, at)
    unit = _code_unit(data, at, end)
    if unit < 0 or unit < 0xD800 or unit > 0xDFFF:
        return at + 6 if unit >= 0 else unit
    if unit > 0xDBFF or end - at < 8 or data[at + 6] != 0x5C or data[at + 7] != 0x75:
        return _failed(_LONE_SURROGATE, at)
    low = _code_unit(data, at + 6, end)
    if low < 0:
        return low
    return at + 12 if 0xDC00 <= low <= 0xDFFF else _failed(_LONE_SURROGATE, at)


def _code_unit(data: bytes, at: int, end: int) -> int:
    r"""The value of the four digits of the ``\uXXXX`` at ``at``."""
    if end - at < 6:
        return _failed(_ENDS_EARLY, end)
    unit = 0
    for index in range(at + 2, at + 6):
        byte = data[index]
        if 0x30 <= byte <= 0x39:
            unit = unit * 16 + byte - 0x30
        elif 0x41 <= (byte & 0xDF) <= 0x46:  # A to F, a to f
            unit = unit * 16 + (byte & 0xDF) - 0x37
        else:
            return _failed(_BAD_ESCAPE, at)
    return unit


def after_text(data: bytes, at: int, end: int) -> int:
    """``end``, or a failure code if the range is not UTF-8. The range must be within the data."""
    while at >= 0:
        at = after_plain(data, at, end)
        if at == end:
            return at
        at = at + 1 if data[at] < 0x80 else _after_character(data, at, end)
    return at


def _after_character(data: bytes, at: int, end: int) -> int:
    """The position after one character of two to four bytes (RFC 3629 section 4)."""
    lead = data[at]
    if lead < 0xC2 or lead > 0xF4:
        return _failed(_NOT_UTF8, at)
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    if end - at < size:
        return _failed(_ENDS_EARLY, end)
    second = data[at + 1]
    lowest = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    highest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if second < lowest or second > highest:
        return _failed(_NOT_UTF8, at)
    for index in range(at + 2, at + size):
        if data[index] & 0xC0 != 0x80:
            return _failed(_NOT_UTF8, at)
    return at + size


def _after_scalar(data: bytes, at: int, end: int, byte: int) -> int:
    """The position after a number, true, false or null that begins with this byte."""
    if byte == 0x2D or 0x30 <= byte <= 0x39:  # - 0 9
        return _after_number(data, at, end)
    if byte == 0x74:
        return _after_word(data, at, end, b"true", 4)
    if byte == 0x66:
        return _after_word(data, at, end, b"false", 5)
    if byte == 0x6E:
        return _after_word(data, at, end, b"null", 4)
    return _failed(_UNEXPECTED, at)


def _after_word(data: bytes, at: int, end: int, word: bytes, size: int) -> int:
    for index in range(size):
        if at + index == end:
            return _failed(_ENDS_EARLY, end)
        if data[at + index] != word[index]:
            return _failed(_BAD_WORD, at)
    return at + size


def _after_number(data: bytes, at: int, end: int) -> int:
    start = at
    first = at + 1 if data[at] == 0x2D else at
    at = after_digits(data, first, end)
    if at == first or (data[first] == 0x30 and at - first > 1):
        return _bad_number(start, first, end)
    if at < end and data[at] == 0x2E:  # .
        first = at + 1
        at = after_digits(data, first, end)
        if at == first:
            return _bad_number(start, first, end)
    if at < end and (data[at] | 0x20) == 0x65:  # e E
        first = at + 1
        if first < end and (data[first] == 0x2B or data[first] == 0x2D):  # + -
            first += 1
        at = after_digits(data, first, end)
        if at == first:
            return _bad_number(start, first, end)
    return at


def _bad_number(start: int, first: int, end: int) -> int:
    return _failed(_ENDS_EARLY, end) if first == end else _failed(_BAD_NUMBER, start)
