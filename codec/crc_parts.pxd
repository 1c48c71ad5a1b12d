cimport cython
from libc.stdint cimport uint32_t

cdef uint32_t _POLYNOMIAL, _ONE

cpdef uint32_t joined(uint32_t first, uint32_t second, size) except? 0

cpdef uint32_t without_start(uint32_t whole, uint32_t start, size) except? 0

cpdef uint32_t without_end(uint32_t whole, uint32_t end, size) except? 0

@cython.locals(product=uint32_t, bit=uint32_t)
cdef uint32_t _multiply(uint32_t one, uint32_t other) noexcept
