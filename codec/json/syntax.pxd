# C types for syntax.py, and in C the two loops in which most of the time is spent.

cimport cython

from kafka_sidecar.codec.records.record cimport Record
from kafka_sidecar.codec.records.records cimport Records

cdef extern from *:
    """
    #if defined(__SSE2__)
    #include <emmintrin.h>
    #endif
    #include <stdint.h>
    #include <string.h>

    /* The first byte from `at` on that is not plain inside a string: a quote, a backslash, a control or a non-ASCII byte. */
    static inline Py_ssize_t sidecar_json_after_plain(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) {
    #if defined(__SSE2__)
        const __m128i space = _mm_set1_epi8(0x20), quote = _mm_set1_epi8(0x22), backslash = _mm_set1_epi8(0x5C);
        for (; end - at >= 16; at += 16) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(data + at));
            /* As signed numbers, non-ASCII bytes are less than a space too. */
            const int special = _mm_movemask_epi8(_mm_or_si128(_mm_cmplt_epi8(bytes, space),
                _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash))));
            if (special) return at + __builtin_ctz(special);
        }
    #else
        const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
        for (; end - at >= 8; at += 8) {
            uint64_t word;
            memcpy(&word, data + at, 8);
            const uint64_t quote = word ^ (ones * 0x22), backslash = word ^ (ones * 0x5C);
            /* Each term has a top bit where a byte is special; borrows can only add bits, never take one. */
            if (((word - ones * 0x20) | word | (quote - ones) | (backslash - ones)) & tops) break;
        }
    #endif
        while (at < end && data[at] >= 0x20 && data[at] < 0x80 && data[at] != 0x22 && data[at] != 0x5C) at++;
        return at;
    }

    static inline Py_ssize_t sidecar_json_after_digits(const unsigned char *data, Py_ssize_t at, Py_ssize_t end) {
        while (at < end && (unsigned char)(data[at] - 0x30) < 10) at++;
        return at;
    }
    """
    Py_ssize_t after_plain "sidecar_json_after_plain" (const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
    Py_ssize_t after_digits "sidecar_json_after_digits" (const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil

cdef int _MAX_NESTING, _EMPTY, _ENDS_EARLY, _UNEXPECTED, _BAD_NUMBER, _BAD_WORD, _TOO_DEEP, _TRAILING
cdef Py_ssize_t _LONG
cdef int _CONTROL, _BAD_ESCAPE, _LONE_SURROGATE, _NOT_UTF8

cpdef str find_fault(bytes data, Py_ssize_t start, Py_ssize_t end, int max_depth)
@cython.locals(end=Py_ssize_t, found=Py_ssize_t)
cpdef Py_ssize_t after_value(bytes data, Py_ssize_t at)
@cython.locals(found=Py_ssize_t)
cdef Py_ssize_t scan_long(const unsigned char* data, Py_ssize_t start, Py_ssize_t end, int max_depth) noexcept
cpdef str describe(Py_ssize_t found, Py_ssize_t start, int max_depth)

@cython.locals(closers="unsigned char[512]", depth=int, at=Py_ssize_t, byte=int)
cdef Py_ssize_t scan(const unsigned char* data, Py_ssize_t start, Py_ssize_t end, int max_depth) noexcept nogil

cdef Py_ssize_t _failed(int reason, Py_ssize_t at) noexcept nogil
cdef Py_ssize_t _after_space(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _ended(Py_ssize_t at, Py_ssize_t end, int depth) noexcept nogil
cdef Py_ssize_t _after_comma(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int byte, int closer) noexcept nogil
# Inline: without the two calls a value takes a sixth less. (Cython warns that there is no body here; it is in syntax.py.)
cdef inline Py_ssize_t _after_key(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=int)
cdef inline Py_ssize_t _after_string(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=int, known=bint, unit=Py_ssize_t, low=Py_ssize_t)
cdef Py_ssize_t _after_escape(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(byte=int, unit=Py_ssize_t, index=Py_ssize_t)
cdef Py_ssize_t _code_unit(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t after_text(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
@cython.locals(lead=int, size=int, second=int, lowest=int, highest=int, index=Py_ssize_t)
cdef Py_ssize_t _after_character(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _after_scalar(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, int byte) noexcept nogil
@cython.locals(index=Py_ssize_t)
cdef Py_ssize_t _after_word(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, const unsigned char* word, int size) noexcept nogil
@cython.locals(start=Py_ssize_t, first=Py_ssize_t)
cdef Py_ssize_t _after_number(const unsigned char* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t _bad_number(Py_ssize_t start, Py_ssize_t first, Py_ssize_t end) noexcept nogil

cdef Py_ssize_t _COMPILED, _MAX_BYTES

@cython.locals(
    found=list, record=Record, data=bytes, read=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t,
    fault=Py_ssize_t,
)
cpdef list find_not_json(Records records, bint of_key, int max_depth, bint nulls=*, Py_ssize_t max_results=*)
