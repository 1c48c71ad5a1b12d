# C types for walk.py, and in C what reads programs and the stack.

cimport cython

from kafka_sidecar.codec.json.syntax cimport after_text
from kafka_sidecar.codec.records.record cimport Record
from kafka_sidecar.codec.records.records cimport Records

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    static inline int32_t sidecar_avro_word(const unsigned char *program, Py_ssize_t at) {
        int32_t word;
        memcpy(&word, program + 4 * at, 4);
        return word;
    }

    static inline int64_t sidecar_avro_slot(const unsigned char *stack, Py_ssize_t at) {
        int64_t number;
        memcpy(&number, stack + 8 * at, 8);
        return number;
    }

    static inline void sidecar_avro_put(unsigned char *stack, Py_ssize_t at, int64_t number) {
        memcpy(stack + 8 * at, &number, 8);
    }
    """
    int word "sidecar_avro_word" (const unsigned char* program, Py_ssize_t at) noexcept nogil
    long long slot "sidecar_avro_slot" (const unsigned char* stack, Py_ssize_t at) noexcept nogil
    void put "sidecar_avro_put" (unsigned char* stack, Py_ssize_t at, long long number) noexcept nogil

cdef int _NULL, _BOOLEAN, _INT, _LONG, _BYTES, _STRING, _ENUM, _FLOAT, _DOUBLE, _FIXED, _RECORD, _ARRAY, _MAP, _UNION
cdef int _MAX_DEPTH, _EMPTY
cdef Py_ssize_t _COMPILED, _MAX_BYTES, _STACK_BYTES
cdef long long _LARGEST
cdef Py_ssize_t _LONG_VALUE
cdef int _ENDS_EARLY, _TRAILING, _TOO_DEEP, _BAD_NUMBER, _BAD_LENGTH, _BAD_BRANCH, _BAD_SYMBOL
cdef int _BAD_BOOLEAN, _NOT_UTF8, _TOO_MANY

@cython.locals(
    found=list, record=Record, data=bytes, stack=bytearray, read=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    size=Py_ssize_t,
)
cpdef list find_not_avro(Records records, bint of_key, Py_ssize_t skip, bytes program, int max_depth, Py_ssize_t max_results)
cpdef Py_ssize_t walk_long(bytes program, bytes data, Py_ssize_t start, Py_ssize_t end, bytearray stack, int max_depth)
@cython.locals(found=Py_ssize_t)
cdef Py_ssize_t _walk_beside(const unsigned char* program, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, unsigned char* stack, int max_depth) noexcept

@cython.locals(
    at=Py_ssize_t, node=Py_ssize_t, depth=int, empty=Py_ssize_t, kind=int, number="long long", before=Py_ssize_t,
    top=Py_ssize_t, left="long long",
)
cdef Py_ssize_t walk(const unsigned char* program, const unsigned char* data, Py_ssize_t start, Py_ssize_t end, unsigned char* stack, int max_depth) noexcept nogil

cdef Py_ssize_t _failed(int reason, Py_ssize_t at) noexcept nogil
@cython.locals(start=Py_ssize_t, count="long long", _="long long")
cdef (Py_ssize_t, long long) _after_count(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(start=Py_ssize_t, number="long long")
cdef Py_ssize_t _after_number(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int kind, Py_ssize_t symbols) noexcept nogil
cdef Py_ssize_t _after_scalar(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int kind, Py_ssize_t size) noexcept nogil
@cython.locals(start=Py_ssize_t, bits="unsigned long long", shift=int, byte="unsigned long long")
cdef (Py_ssize_t, long long) _number(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
