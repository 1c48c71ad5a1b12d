"""Checks that bytes are values of an Avro schema in the binary encoding: of a whole batch, or one.

The schema is a program of 32-bit words (`schema.AvroSchema.program`): four for each type, and the numbers of the types
that records and unions consist of. The walk has a stack of its own and ends whatever the bytes are: a deep value is a
failure, and so are more than ``_EMPTY`` and sixteen a byte steps over what takes no bytes, as two thousand million
nulls in an array of six bytes.

Where readers differ the specification of Avro 1.12 is followed: text is UTF-8, a boolean is 0 or 1, an int has 32 bits.
The size in bytes that may precede a block is read and, as by all readers, not compared.

This file runs as it is and compiled: walk.pxd holds the C types, and C versions of the first functions.
A negative position is a failure: ``-(16 * position + reason)``.
"""

from __future__ import annotations

from sys import byteorder

from kafka_sidecar.codec.checkpoint import COMPILED, MAX_BYTES, checkpoint

try:
    import cython
except ImportError:
    from kafka_sidecar.codec import cython_shim as cython

if not cython.compiled:
    from kafka_sidecar.codec.json.syntax import after_text
    from kafka_sidecar.codec.records import Records

    def word(program: bytes, at: int) -> int:
        """The word of a program at this index."""
        return int.from_bytes(program[4 * at : 4 * at + 4], byteorder)

    def slot(stack: bytearray, at: int) -> int:
        """The number on the stack at this index."""
        return int.from_bytes(stack[8 * at : 8 * at + 8], byteorder)

    def put(stack: bytearray, at: int, number: int) -> None:
        stack[8 * at : 8 * at + 8] = number.to_bytes(8, byteorder)

else:
    from cython.cimports.kafka_sidecar.codec.json.syntax import after_text  # type: ignore[no-redef]

MAX_DEPTH = 512  # levels
STACK_BYTES = 8 * (1 + 3 * MAX_DEPTH)  # the depth; then a type, a number of its parts, and a number of its elements
NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, FIXED, ENUM, RECORD, ARRAY, MAP, UNION = range(14)
# For C.
_NULL, _BOOLEAN, _INT, _LONG, _BYTES, _STRING, _ENUM = NULL, BOOLEAN, INT, LONG, BYTES, STRING, ENUM
_FLOAT, _DOUBLE, _FIXED, _RECORD, _ARRAY, _MAP, _UNION = FLOAT, DOUBLE, FIXED, RECORD, ARRAY, MAP, UNION
_MAX_DEPTH, _STACK_BYTES = MAX_DEPTH, STACK_BYTES
_COMPILED, _MAX_BYTES = COMPILED, MAX_BYTES
_EMPTY = 100_000  # steps
_LARGEST = 1 << 62  # a count
_LONG_VALUE = 64 << 10  # bytes

_ENDS_EARLY, _TRAILING, _TOO_DEEP, _BAD_NUMBER, _BAD_LENGTH, _BAD_BRANCH, _BAD_SYMBOL = 1, 2, 3, 4, 5, 6, 7
_BAD_BOOLEAN, _NOT_UTF8, _TOO_MANY = 8, 9, 10
REASONS = (
    "",
    "ends too early",
    "bytes after the end",
    "nested too deeply",
    "a number of too many bits",
    "a negative length",
    "a branch that the union does not have",
    "a symbol that the enum does not have",
    "a boolean that is neither 0 nor 1",
    "text that is not UTF-8",
    "too many elements that take no bytes",
)


def find_not_avro(
    records: Records, of_key: bool, skip: int, program: bytes, max_depth: int, max_results: int
) -> list[tuple[int, int, int]]:
    """The records whose value, or key, is shorter than ``skip`` bytes, or is no value of the program's type after them.

    At most ``max_results``, each as its index and where its bytes begin and end in the payload; null is none of them.
    """
    found: list[tuple[int, int, int]] = []
    record = records._cursor()
    data = records.payload
    stack = bytearray(_STACK_BYTES)
    read = 0  # bytes since the last checkpoint
    for index in range(len(records)):
        record._advance()
        record._read()
        start = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        if size < 0:
            continue
        read += size
        if read > _MAX_BYTES or index & _COMPILED == _COMPILED:
            read = 0
            checkpoint()
        if size < skip or walk_long(program, data, start + skip, start + size, stack, max_depth) < 0:
            found.append((index, start, start + size))
            if len(found) >= max_results:
                break
    return found


def walk_long(program: bytes, data: bytes, start: int, end: int, stack: bytearray, max_depth: int) -> int:
    """As `walk`; other threads run meanwhile if the value is long."""
    if end - start <= _LONG_VALUE:
        return walk(program, data, start, end, stack, max_depth)
    return _walk_beside(program, data, start, end, stack, max_depth)


def _walk_beside(program: bytes, data: bytes, start: int, end: int, stack: bytearray, max_depth: int) -> int:
    with cython.nogil:
        found = walk(program, data, start, end, stack, max_depth)
    return found  # noqa: RET504 - C cannot return in the block


def walk(  # noqa: C901 - one loop: C keeps it in registers
    program: bytes, data: bytes, start: int, end: int, stack: bytearray, max_depth: int
) -> int:
    """0 if ``data[start:end]`` is one value of the program's first type, or a failure code.

    The stack (``STACK_BYTES``) then says where the failure is. The range must be within the data.
    """
    at, node, depth = start, 0, 0
    empty = _EMPTY + 16 * (end - start)
    while True:  # before a value of the type at `node`
        kind = word(program, node)
        if kind == _UNION:
            at, number = _number(data, at, end)
            if at < 0:
                return at
            if number < 0 or number >= word(program, node + 2):
                return _failed(_BAD_BRANCH, at)
            node = word(program, word(program, node + 1) + number)
            kind = word(program, node)
        if kind >= _RECORD:
            if depth >= max_depth or depth >= _MAX_DEPTH:
                return _failed(_TOO_DEEP, at)
            put(stack, 3 * depth + 1, node)
            put(stack, 3 * depth + 2, 0)
            put(stack, 3 * depth + 3, 0)
            depth += 1
            put(stack, 0, depth)
            empty -= 1
        else:
            before = at
            at = _after_scalar(data, at, end, kind, word(program, node + 1))
            if at < 0:
                return at
            if at == before:
                empty -= 1
        if empty < 0:
            return _failed(_TOO_MANY, at)
        while True:  # after a value: the next one of the innermost record, array or map that has one
            if depth == 0:
                return 0 if at == end else _failed(_TRAILING, at)
            top = 3 * depth - 2
            node = slot(stack, top)
            kind = word(program, node)
            left = slot(stack, top + 1)  # of a record, the fields that were begun
            if kind == _RECORD:
                if left < word(program, node + 2):
                    put(stack, top + 1, left + 1)
                    node = word(program, word(program, node + 1) + left)
                    break
            else:
                if left == 0:
                    at, left = _after_count(data, at, end)
                    if at < 0:
                        return at
                if left > 0:
                    put(stack, top + 1, left - 1)
                    put(stack, top + 2, slot(stack, top + 2) + 1)
                    if kind == _MAP:
                        at = _after_scalar(data, at, end, _STRING, 0)
                        if at < 0:
                            return at
                    node = word(program, node + 1)
                    break
            depth -= 1
            put(stack, 0, depth)


def _failed(reason: int, at: int) -> int:
    return -(16 * at + reason)


def _after_count(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The position after the count of a block, which is 0 at the end of an array or map, and the count."""
    start = at
    at, count = _number(data, at, end)
    if at < 0 or count >= 0:
        return at, count
    if count < -_LARGEST:
        return _failed(_BAD_LENGTH, start), 0
    at, _ = _number(data, at, end)  # bytes of the block
    return at, -count


def _after_scalar(data: bytes, at: int, end: int, kind: int, size: int) -> int:
    """The position after a value that is no record, array, map or union; ``size`` is of a fixed, or enum's symbols."""
    if kind == _NULL:
        return at
    if kind in (_STRING, _BYTES, _INT, _LONG, _ENUM):
        return _after_number(data, at, end, kind, size)
    size = size if kind == _FIXED else 4 if kind == _FLOAT else 8 if kind == _DOUBLE else 1
    if size > end - at:
        return _failed(_ENDS_EARLY, end)
    if kind == _BOOLEAN and data[at] > 1:
        return _failed(_BAD_BOOLEAN, at)
    return at + size


def _after_number(data: bytes, at: int, end: int, kind: int, symbols: int) -> int:
    """The position after a value that is a number, or begins with the number of its bytes."""
    start = at
    at, number = _number(data, at, end)
    if at < 0 or kind == _LONG:
        return at
    if kind == _INT:
        return at if -0x80000000 <= number <= 0x7FFFFFFF else _failed(_BAD_NUMBER, start)
    if kind == _ENUM:
        return at if 0 <= number < symbols else _failed(_BAD_SYMBOL, start)
    if number < 0:
        return _failed(_BAD_LENGTH, start)
    if number > end - at:
        return _failed(_ENDS_EARLY, end)
    if kind == _BYTES:
        return at + number
    at = after_text(data, at, at + number)
    return at if at >= 0 else _failed(_NOT_UTF8, -at // 16)


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The position after a number of up to 64 bits, and the number (zigzag, seven bits a byte)."""
    start = at
    bits = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            return _failed(_BAD_NUMBER, start), 0
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, (bits >> 1) ^ -(bits & 1)
        shift += 7
    return _failed(_ENDS_EARLY, end), 0
