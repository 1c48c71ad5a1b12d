cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.longs cimport Longs
from kafka_sidecar.codec.produce_counts cimport Sent, new_sent

cdef Py_ssize_t _MAX_KEYS, _MAX_KEPT, _HEAD, _ROW, _NOWHERE, _MIN_REQUEST, _NEXT_BYTES, _HEADER_SIZE, _LENGTH_FROM
cdef Py_ssize_t _MAGIC_AT, _LENGTH_AT, _CRC_AT, _COUNT_AT, _DELTA_AT, _TIMESTAMP_AT, _PRODUCER_ID_AT, _PRODUCED_BYTES
cdef Py_ssize_t _MAX_SCANNED, _MAX_RESPONSE
cdef int _MAGIC, _ONE_BYTE, _FLEXIBLE, _IDS, _NOT_ANSWERED


@cython.final
cdef class ProduceNotes:
    cdef readonly bint is_flexible
    cdef bint _by_id
    cdef Longs _integers
    cdef Py_ssize_t _first, _next, _end, _key_at, _row, _rows_end, _next_response
    cdef list _keys, _responses
    cdef readonly bytes response
    cdef readonly Py_ssize_t open, answered
    cdef readonly object key
    cdef readonly int index
    cdef readonly int64_t count, size, timestamp, base_offset, elapsed_us

    @cython.locals(start=Py_ssize_t, is_usual=bint)
    cpdef bint ask(self, bytes data, Py_ssize_t at, Py_ssize_t end, int64_t now_us) except -1
    @cython.locals(place=Py_ssize_t, values="long long*")
    cpdef bint answer(self, bytes data, Py_ssize_t at, Py_ssize_t end, int64_t now_us) except -1
    cpdef bint next_request(self) except -1
    cpdef int take(self) except -1
    @cython.locals(values="long long*", place=Py_ssize_t)
    cdef int _step(self) except -1
    @cython.locals(row=Py_ssize_t, values="long long*")
    cpdef bint next_batch(self) except -1
    cpdef list batches(self)
    @cython.locals(at=Py_ssize_t, stop=Py_ssize_t, values="long long*", sent=list)
    cpdef list open_batches(self)
    @cython.locals(one=Sent, sent=list, values="long long*")
    cdef list _batches(self, Py_ssize_t row, Py_ssize_t stop)
    @cython.locals(at=Py_ssize_t, first=Py_ssize_t, values="long long*")
    cpdef int compact(self) except -1
    cdef int _shrink(self) except -1
    cpdef bint is_long(self) noexcept
    cpdef int release(self) except -1
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t _reserve(self, Py_ssize_t size) except -1
    @cython.locals(here=Py_ssize_t, topics=int, _=int)
    cdef bint _read(self, bytes data, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(found=int64_t, size=Py_ssize_t, partitions=int, _=int)
    cdef Py_ssize_t _read_topic(self, bytes data, Py_ssize_t here, Py_ssize_t end) except -2
    @cython.locals(keys=list, _=Py_ssize_t, text=bytes)
    cdef bint _find_key(self, bytes data, Py_ssize_t here, Py_ssize_t size) except -1
    @cython.locals(
        found=int64_t, index=int64_t, stop=Py_ssize_t, size=Py_ssize_t, count=int64_t, place=Py_ssize_t,
        values="long long*", is_idempotent=bint,
    )
    cdef Py_ssize_t _read_partition(self, bytes data, Py_ssize_t here, Py_ssize_t end) except -2
    @cython.locals(
        data=bytes, begin=Py_ssize_t, stop=Py_ssize_t, here=Py_ssize_t, row=Py_ssize_t, left=Py_ssize_t,
        values="long long*", _=int, found=int64_t, size=Py_ssize_t, key_at=Py_ssize_t, partitions=int,
    )
    cpdef bint fits(self) except -1
    @cython.locals(place=Py_ssize_t)
    cdef Py_ssize_t _find_key_of(self, bytes data, Py_ssize_t here, Py_ssize_t size, Py_ssize_t expected) except -2
    @cython.locals(values="long long*", _=Py_ssize_t)
    cdef Py_ssize_t _find_row(
        self, Py_ssize_t row, Py_ssize_t begin, Py_ssize_t stop, Py_ssize_t key_at, int64_t index
    ) noexcept


@cython.locals(here=Py_ssize_t, topics=int, _=int, found=int64_t, partitions=int)
cdef bint _is_success(bytes data, Py_ssize_t at, Py_ssize_t end, bint by_id) except -1
