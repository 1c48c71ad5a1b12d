cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.longs cimport Longs

cdef Py_ssize_t _MAX_KEYS, _MAX_KEPT, _HEAD, _ROW, _NOWHERE, _MIN_REQUEST, _NEXT_BYTES, _HEADER_SIZE, _LENGTH_FROM
cdef Py_ssize_t _MAGIC_AT, _LENGTH_AT, _CRC_AT, _COUNT_AT, _DELTA_AT, _TIMESTAMP_AT, _PRODUCER_ID_AT
cdef int _MAGIC, _ONE_BYTE, _FLEXIBLE, _IDS, _NOT_ANSWERED


cdef class NotedRequests:
    cdef readonly bint is_flexible
    cdef bint _by_id
    cdef Longs _integers
    cdef Py_ssize_t _end, _key_at
    cdef list _keys
    cdef readonly Py_ssize_t open

    @cython.locals(start=Py_ssize_t, is_usual=bint)
    cpdef bint ask(self, bytes data, Py_ssize_t at, Py_ssize_t end, int64_t now_us) except -1
    cpdef bint is_long(self) noexcept
    @cython.final
    cdef int _shrink(self) except -1
    @cython.locals(place=Py_ssize_t)
    @cython.final
    cdef Py_ssize_t _reserve(self, Py_ssize_t size) except -1
    @cython.locals(here=Py_ssize_t, topics=int, _=int)
    @cython.final
    cdef bint _read(self, bytes data, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(found=int64_t, size=Py_ssize_t, partitions=int, _=int)
    @cython.final
    cdef Py_ssize_t _read_topic(self, bytes data, Py_ssize_t here, Py_ssize_t end) except -2
    @cython.locals(keys=list, _=Py_ssize_t, text=bytes)
    @cython.final
    cdef bint _find_key(self, bytes data, Py_ssize_t here, Py_ssize_t size) except -1
    @cython.locals(
        found=int64_t, index=int64_t, stop=Py_ssize_t, size=Py_ssize_t, count=int64_t, place=Py_ssize_t,
        values="long long*", is_idempotent=bint,
    )
    @cython.final
    cdef Py_ssize_t _read_partition(self, bytes data, Py_ssize_t here, Py_ssize_t end) except -2
