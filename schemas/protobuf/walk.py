"""Checks that bytes are messages of a Protobuf type in the wire format: of a whole batch, or one.

The schema is a program of 32-bit words (`schema.ProtobufSchema`): four for each type of message, four for each of its
fields, in the order of their numbers, the numbers of closed enums, and a tree of the types of a file for message
indexes. The walk has a stack of its own and ends whatever the bytes are.

It accepts what Google's implementations parse, and no more: a field that the type does not have is skipped, as is one
with another wire type than its own; repeated numbers are packed or not; text is UTF-8 where the schema says so; the
last byte of a long number may have bits that are dropped.
What one occurrence of a message lacks another one may have: `REQUIRED` is a suspicion that the caller confirms.

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
        return int.from_bytes(program[4 * at : 4 * at + 4], byteorder, signed=True)

    def slot(stack: bytearray, at: int) -> int:
        """The number on the stack at this index."""
        return int.from_bytes(stack[8 * at : 8 * at + 8], byteorder)

    def put(stack: bytearray, at: int, number: int) -> None:
        stack[8 * at : 8 * at + 8] = number.to_bytes(8, byteorder)

    def as_int32(number: int) -> int:
        """The lower half of a number of 64 bits, with a sign."""
        return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000

else:
    from cython.cimports.kafka_sidecar.codec.json.syntax import after_text  # type: ignore[no-redef]

MAX_DEPTH = 100  # messages in the outermost one, as all implementations have it unless they are told otherwise
# A level of the stack: its type, its end, the number of its group, a field and how often it came, and those required
# fields that came, as bits: upb has at most 63 of them in a type.
LEVEL = 6
STACK_BYTES = 8 * (1 + LEVEL * (MAX_DEPTH + 1))  # after the depth
# Kinds of fields. VARINT to BYTES are also wire types.
VARINT, FIXED64, BYTES, STRING, MESSAGE, FIXED32, GROUP, ENUM = range(8)
REPEATED = 8  # is added to a kind
IGNORE_REQUIRED, REJECT_UNKNOWN = 1, 2  # flags of a walk
FRAMED, FRAMED_ANY = 1, 2  # message indexes precede the data: those of the type, or of any one in the file
NO_FIELDS = 4  # the word of a type without fields, which unknown groups are
# For C.
_VARINT, _FIXED64, _BYTES, _STRING, _MESSAGE, _FIXED32, _GROUP, _ENUM = range(8)
_REPEATED, _IGNORE_REQUIRED, _REJECT_UNKNOWN, _NO_FIELDS = REPEATED, IGNORE_REQUIRED, REJECT_UNKNOWN, NO_FIELDS
_FRAMED = FRAMED
_MAX_DEPTH, _LEVEL, _STACK_BYTES = MAX_DEPTH, LEVEL, STACK_BYTES
_COMPILED, _MAX_BYTES = COMPILED, MAX_BYTES
_LONG_VALUE = 64 << 10  # bytes
_LARGEST = 0x7FFFFFFF  # a length
_LOW, _BITS = (1 << 32) - 1, (1 << 64) - 1

_ENDS_EARLY, _TOO_DEEP, _BAD_NUMBER, _BAD_LENGTH, _BAD_TAG, _BAD_GROUP, _NOT_UTF8, _UNKNOWN = 1, 2, 3, 4, 5, 6, 7, 8
_REQUIRED, _BAD_INDEXES, _OTHER_MESSAGE, _BAD_PACKED, _BAD_SYMBOL = 9, 10, 11, 12, 13
REQUIRED, OTHER_MESSAGE = _REQUIRED, _OTHER_MESSAGE
REASONS = (
    "",
    "ends too early",
    "nested too deeply",
    "a number of too many bits",
    "a length of too many bits",
    "what is no tag of a field",
    "the end of a group that has not begun",
    "text that is not UTF-8",
    "a field that the schema does not have",
    "is required",
    "message indexes that the schema does not have",
    "another message",
    "packed numbers that end within one",
    "a number that the enum does not have",
)


def find_not_protobuf(
    records: Records,
    of_key: bool,
    skip: int,
    program: bytes,
    node: int,
    framed: int,
    max_depth: int,
    flags: int,
    first: int,
    max_results: int,
) -> list[tuple[int, int, int]]:
    """The records from ``first`` on whose value, or key, is no message of the type after ``skip`` bytes.

    Those that are shorter are none of them, and null is not. At most ``max_results``, each as its index and where its
    bytes begin and end in the payload. With ``framed`` (`FRAMED`, or `FRAMED_ANY` of the types in the file) message
    indexes precede the message.
    """
    found: list[tuple[int, int, int]] = []
    record = records._cursor()
    data = records.payload
    stack = bytearray(_STACK_BYTES)
    read = 0  # bytes since the last checkpoint
    for index in range(len(records)):
        record._advance()
        if index < first:
            continue
        record._read()
        start = record._key_at if of_key else record._value_at
        size = record._key_size if of_key else record._value_size
        if size < skip or size < 0:
            continue
        read += size
        if read > _MAX_BYTES or index & _COMPILED == _COMPILED:
            read = 0
            checkpoint()
        if walk_long(program, node, framed, data, start + skip, start + size, stack, max_depth, flags) < 0:
            found.append((index, start + skip, start + size))
            if len(found) >= max_results:
                break
    return found


def walk_long(
    program: bytes,
    node: int,
    framed: int,
    data: bytes,
    start: int,
    end: int,
    stack: bytearray,
    max_depth: int,
    flags: int,
) -> int:
    """As `walk`; other threads run meanwhile if the value is long."""
    if end - start <= _LONG_VALUE:
        return _walk_framed(program, node, framed, data, start, end, stack, max_depth, flags)
    return _walk_beside(program, node, framed, data, start, end, stack, max_depth, flags)


def _walk_beside(
    program: bytes,
    node: int,
    framed: int,
    data: bytes,
    start: int,
    end: int,
    stack: bytearray,
    max_depth: int,
    flags: int,
) -> int:
    with cython.nogil:
        found = _walk_framed(program, node, framed, data, start, end, stack, max_depth, flags)
    return found  # noqa: RET504 - C cannot return in the block


def _walk_framed(
    program: bytes,
    node: int,
    framed: int,
    data: bytes,
    start: int,
    end: int,
    stack: bytearray,
    max_depth: int,
    flags: int,
) -> int:
    at = start
    put(stack, 0, 0)
    if framed:
        at, named = after_indexes(program, data, start, end)
        if at < 0:
            return at
        if framed == _FRAMED and named != node:
            return _failed(_OTHER_MESSAGE, start)
        node = named
    return walk(program, node, data, at, end, stack, max_depth, flags)


def after_indexes(program: bytes, data: bytes, start: int, end: int) -> tuple[int, int]:
    """The position after message indexes, as Confluent's serializers write them, and the type that they name.

    Zigzag numbers: how many follow, then the index of a type in the file, of one in that, and so on. A count of 0 is
    short for the first type of the file.
    """
    at, bits = _number(data, start, end)
    if at < 0:
        return at, 0
    tree = word(program, 0)
    left = bits >> 1
    if bits == 0:
        if word(program, tree) == 0:
            return _failed(_BAD_INDEXES, start), 0
        return at, word(program, tree + 1)
    if bits & 1:
        return _failed(_BAD_INDEXES, start), 0
    node = 0
    while left > 0:
        at, bits = _number(data, at, end)
        if at < 0:
            return at, 0
        if bits & 1 or bits >> 1 >= word(program, tree):
            return _failed(_BAD_INDEXES, start), 0
        tree += 1 + 2 * (bits >> 1)
        node = word(program, tree)
        tree = word(program, tree + 1)
        left -= 1
    return at, node


def read_indexes(program: bytes, data: bytes, start: int, end: int) -> tuple[int, int]:
    """As `after_indexes`, for Python."""
    return after_indexes(program, data, start, end)


def walk(  # noqa: C901 - one loop: C keeps it in registers
    program: bytes, node: int, data: bytes, start: int, end: int, stack: bytearray, max_depth: int, flags: int
) -> int:
    """0 if ``data[start:end]`` is a message of the type at ``node``, or a failure code.

    The stack (``STACK_BYTES``) then says where the failure is. The range must be within the data.
    """
    at, depth, level = start, 0, 1
    limit, group, hint, one = end, 0, 0, 1
    fields, count, required = word(program, node), word(program, node + 1), word(program, node + 2)
    _push(stack, level, node, end, 0)
    put(stack, 0, 1)
    while True:
        if at == limit:
            if group:
                put(stack, level + 4, 0)
                return _failed(_ENDS_EARLY, at)
            ends = True
        else:
            before = at
            at, bits = _tag(data, at, limit)
            if at < 0:
                put(stack, level + 4, 0)  # no field is at fault
                return at
            number, wire = bits >> 3, bits & 7
            ends = wire == 4
            if ends and (number != group or number == 0):
                put(stack, level + 4, 0)
                return _failed(_BAD_GROUP, before)
        if ends:
            if required and not flags & _IGNORE_REQUIRED and slot(stack, level + 5) != (one << required) - 1:
                return _failed(_REQUIRED, at)
            if depth == 0:
                return 0
            depth -= 1
            put(stack, 0, depth + 1)
            level -= _LEVEL
            node, limit, group = slot(stack, level), slot(stack, level + 1), slot(stack, level + 2)
            hint = slot(stack, level + 3)
            fields, count, required = word(program, node), word(program, node + 1), word(program, node + 2)
            continue
        if number == 0 or wire > 5:
            put(stack, level + 4, 0)
            return _failed(_BAD_TAG, before)
        kind = target = -1
        # Fields come in the order of their numbers, and repeated ones several times: mostly it is this one or the next.
        if hint >= count or word(program, fields + 4 * hint) != number:
            hint += 1
            if hint >= count or word(program, fields + 4 * hint) != number:
                hint = _field_of(program, fields, count, number)
        if hint >= 0:
            entry = fields + 4 * hint
            kind = word(program, entry + 1)
            target = word(program, entry + 2)
            packed = wire == 2 and kind >= _REPEATED and kind & 7 in (_VARINT, _FIXED64, _FIXED32, _ENUM)
            kind &= 7
            if not packed and wire != _wire_of(kind):
                kind = -1
        if kind < 0:
            hint = 0
            if flags & _REJECT_UNKNOWN:
                put(stack, level + 3, 0)
                put(stack, level + 4, 0)
                return _failed(_UNKNOWN, before)
            if wire == 3:
                kind, target = _GROUP, _NO_FIELDS
                put(stack, level + 4, 0)
            else:
                at = _after_value(data, at, limit, wire)
                if at < 0:
                    put(stack, level + 4, 0)
                    return at
                continue
        else:
            if slot(stack, level + 3) != hint:
                put(stack, level + 3, hint)
                put(stack, level + 4, 0)
            put(stack, level + 4, slot(stack, level + 4) + 1)
            if required:
                bit = word(program, entry + 3)
                if bit >= 0:
                    put(stack, level + 5, slot(stack, level + 5) | (one << bit))
            if packed:
                at, size = _length(data, at, limit)
                if at < 0:
                    return at
                at = _after_packed(program, data, at, at + size, kind, target, flags, stack, level)
                if at < 0:
                    return at
                continue
        if kind in (_MESSAGE, _GROUP):
            inner = limit
            if kind == _MESSAGE:
                at, size = _length(data, at, limit)
                if at < 0:
                    return at
                inner = at + size
            if depth >= max_depth or depth >= _MAX_DEPTH:
                return _failed(_TOO_DEEP, at)
            depth += 1
            level += _LEVEL
            node, limit, group, hint = target, inner, number if kind == _GROUP else 0, 0
            fields, count, required = word(program, node), word(program, node + 1), word(program, node + 2)
            _push(stack, level, node, limit, group)
            put(stack, 0, depth + 1)
            continue
        before = at
        if kind == _ENUM:
            at = _after_enum(program, data, at, limit, target, flags)
        else:
            at = _after_value(data, at, limit, wire)
        if at < 0:
            return at
        if kind == _STRING:
            at, size = _length(data, before, limit)
            at = after_text(data, at, at + size)
            if at < 0:
                return _failed(_NOT_UTF8, -at // 16)


def _failed(reason: int, at: int) -> int:
    return -(16 * at + reason)


def _push(stack: bytearray, level: int, node: int, end: int, group: int) -> None:
    put(stack, level, node)
    put(stack, level + 1, end)
    put(stack, level + 2, group)
    put(stack, level + 3, 0)
    put(stack, level + 4, 0)
    put(stack, level + 5, 0)


def _field_of(program: bytes, fields: int, count: int, number: int) -> int:
    """The index of the field with this number; -1: there is none."""
    first, last = 0, count - 1
    while first <= last:
        middle = (first + last) >> 1
        found = word(program, fields + 4 * middle)
        if found == number:
            return middle
        if found < number:
            first = middle + 1
        else:
            last = middle - 1
    return -1


def _wire_of(kind: int) -> int:
    if kind in (_VARINT, _ENUM):
        return 0
    return 1 if kind == _FIXED64 else 5 if kind == _FIXED32 else 3 if kind == _GROUP else 2


def _after_value(data: bytes, at: int, end: int, wire: int) -> int:
    """The position after a value of a wire type that is no group."""
    if wire == 0:
        at, _ = _number(data, at, end)
        return at
    size = 8 if wire == 1 else 4
    if wire == 2:
        at, size = _length(data, at, end)
        if at < 0:
            return at
    if size > end - at:
        return _failed(_ENDS_EARLY, end)
    return at + size


def _after_packed(
    program: bytes, data: bytes, at: int, end: int, kind: int, target: int, flags: int, stack: bytearray, level: int
) -> int:
    """The position after packed numbers. The stack's count, which is of the first one, goes on with those that vary."""
    if kind in (_FIXED64, _FIXED32):
        return _failed(_BAD_PACKED, at) if (end - at) & (7 if kind == _FIXED64 else 3) else end
    put(stack, level + 4, slot(stack, level + 4) - 1)
    while at < end:
        put(stack, level + 4, slot(stack, level + 4) + 1)
        if kind == _ENUM:
            at = _after_enum(program, data, at, end, target, flags)
        else:
            at, _ = _number(data, at, end)
        if at < 0:
            return at
    return at


def _after_enum(program: bytes, data: bytes, start: int, end: int, target: int, flags: int) -> int:
    """The position after a number of a closed enum: one that it does not have counts as an unknown field."""
    at, bits = _number(data, start, end)
    if at < 0 or not flags & _REJECT_UNKNOWN:
        return at
    number = as_int32(bits)
    first, last = 1, word(program, target)
    while first <= last:
        middle = (first + last) >> 1
        found = word(program, target + middle)
        if found == number:
            return at
        if found < number:
            first = middle + 1
        else:
            last = middle - 1
    return _failed(_BAD_SYMBOL, start)


def _tag(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The position after a tag, and the tag: 32 bits in up to five bytes."""
    start = at
    bits = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            if bits > _LOW:
                return _failed(_BAD_TAG, start), 0
            return at, bits
        shift += 7
        if shift == 35:
            return _failed(_BAD_TAG, start), 0
    return _failed(_ENDS_EARLY, end), 0


def _length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The position after a length, and the length, which is within the range."""
    start = at
    bits = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift
        if byte < 0x80:
            if bits > _LARGEST:
                return _failed(_BAD_LENGTH, start), 0
            size = bits
            if size > end - at:
                return _failed(_ENDS_EARLY, end), 0
            return at, size
        shift += 7
        if shift == 35:
            return _failed(_BAD_LENGTH, start), 0
    return _failed(_ENDS_EARLY, end), 0


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The position after a number of up to ten bytes, and its 64 bits."""
    start = at
    bits = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        bits |= (byte & 0x7F) << shift & _BITS
        if byte < 0x80:
            return at, bits
        shift += 7
        if shift == 70:
            return _failed(_BAD_NUMBER, start), 0
    return _failed(_ENDS_EARLY, end), 0
