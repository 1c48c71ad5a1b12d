# C types for walk.py, and in C what reads programs and the stack.

cimport cython

from kafka_sidecar.codec.json.syntax cimport after_text
from kafka_sidecar.codec.records.record cimport Record
from kafka_sidecar.codec.records.records cimport Records

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline int32_t sidecar_protobuf_word(const unsigned char *program, Py_ssize_t at) {
        int32_t word;
        memcpy(&word, program + 4 * at, 4);
        return word;
    }

    static inline int64_t sidecar_protobuf_slot(const unsigned char *stack, Py_ssize_t at) {
        int64_t number;
        memcpy(&number, stack + 8 * at, 8);
        return number;
    }

    static inline void sidecar_protobuf_put(unsigned char *stack, Py_ssize_t at, int64_t number) {
        memcpy(stack + 8 * at, &number, 8);
    }

    static inline int32_t sidecar_protobuf_int32(uint64_t number) {
        return (int32_t)(uint32_t)number;
    }
    """
    int word "sidecar_protobuf_word" (const unsigned char* program, Py_ssize_t at) noexcept nogil
    long long slot "sidecar_protobuf_slot" (const unsigned char* stack, Py_ssize_t at) noexcept nogil
    void put "sidecar_protobuf_put" (unsigned char* stack, Py_ssize_t at, long long number) noexcept nogil
    int as_int32 "sidecar_protobuf_int32" (unsigned long long number) noexcept nogil

cdef int _VARINT, _FIXED64, _BYTES, _STRING, _MESSAGE, _FIXED32, _GROUP, _ENUM
cdef int _REPEATED, _IGNORE_REQUIRED, _REJECT_UNKNOWN, _NO_FIELDS, _FRAMED
cdef int _MAX_DEPTH, _LEVEL
cdef Py_ssize_t _COMPILED, _MAX_BYTES, _STACK_BYTES, _LONG_VALUE
cdef unsigned long long _LARGEST, _LOW, _BITS
cdef int _ENDS_EARLY, _TOO_DEEP, _BAD_NUMBER, _BAD_LENGTH, _BAD_TAG, _BAD_GROUP, _NOT_UTF8, _UNKNOWN
cdef int _REQUIRED, _BAD_INDEXES, _OTHER_MESSAGE, _BAD_PACKED, _BAD_SYMBOL

@cython.locals(
    found=list, record=Record, data=bytes, stack=bytearray, read=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    size=Py_ssize_t,
)
cpdef list find_not_protobuf(Records records, bint of_key, Py_ssize_t skip, bytes program, int node, int framed, int max_depth, int flags, Py_ssize_t first, Py_ssize_t max_results)
cpdef Py_ssize_t walk_long(bytes program, int node, int framed, bytes data, Py_ssize_t start, Py_ssize_t end, bytearray stack, int max_depth, int flags)
cpdef tuple read_indexes(bytes program, bytes data, Py_ssize_t start, Py_ssize_t end)
@cython.locals(found=Py_ssize_t)
cdef Py_ssize_t _walk_beside(const unsigned char* program, int node, int framed, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, unsigned char* stack, int max_depth, int flags) noexcept
@cython.locals(at=Py_ssize_t, named=int)
cdef Py_ssize_t _walk_framed(const unsigned char* program, int node, int framed, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, unsigned char* stack, int max_depth, int flags) noexcept nogil
@cython.locals(at=Py_ssize_t, bits="unsigned long long", left="unsigned long long", tree=Py_ssize_t, node=int)
cdef (Py_ssize_t, int) after_indexes(const unsigned char* program, const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil

@cython.locals(
    at=Py_ssize_t, depth=int, level=Py_ssize_t, limit=Py_ssize_t, group=int, hint=int, one="long long", fields=int,
    count=int, required=int, ends=bint, before=Py_ssize_t, bits="unsigned long long", number=int, wire=int, kind=int,
    target=int, entry=Py_ssize_t, packed=bint, bit=int, size=Py_ssize_t, inner=Py_ssize_t,
)
cdef Py_ssize_t walk(const unsigned char* program, int node, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, unsigned char* stack, int max_depth, int flags) noexcept nogil

cdef Py_ssize_t _failed(int reason, Py_ssize_t at) noexcept nogil
cdef void _push(unsigned char* stack, Py_ssize_t level, int node, Py_ssize_t end, int group) noexcept nogil
@cython.locals(first=int, last=int, middle=int, found=int)
cdef int _field_of(const unsigned char* program, int fields, int count, int number) noexcept nogil
cdef int _wire_of(int kind) noexcept nogil
@cython.locals(_="unsigned long long", size=Py_ssize_t)
cdef Py_ssize_t _after_value(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int wire) noexcept nogil
@cython.locals(_="unsigned long long")
cdef Py_ssize_t _after_packed(const unsigned char* program, const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int kind, int target, int flags, unsigned char* stack, Py_ssize_t level) noexcept nogil
@cython.locals(at=Py_ssize_t, bits="unsigned long long", number=int, first=int, last=int, middle=int, found=int)
cdef Py_ssize_t _after_enum(const unsigned char* program, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, int target, int flags) noexcept nogil
@cython.locals(start=Py_ssize_t, bits="unsigned long long", shift=int, byte="unsigned long long")
cdef (Py_ssize_t, unsigned long long) _tag(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(start=Py_ssize_t, bits="unsigned long long", shift=int, byte="unsigned long long", size=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t) _length(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(start=Py_ssize_t, bits="unsigned long long", shift=int, byte="unsigned long long")
cdef (Py_ssize_t, unsigned long long) _number(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
