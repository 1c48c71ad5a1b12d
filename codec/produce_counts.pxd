cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.records_walk cimport RecordsWalk

cdef int _PRODUCE_FLEXIBLE, _PRODUCE_TRANSACTIONS, _PRODUCE_IDS
cdef int _PRODUCED_FLEXIBLE, _PRODUCED_TIME, _PRODUCED_START, _PRODUCED_ERRORS, _PRODUCED_IDS
cdef Py_ssize_t _MIN_REQUEST, _NEXT_BYTES, _PRODUCED_BYTES, _HEADER_SIZE, _LENGTH_FROM, _MAGIC_AT, _LENGTH_AT
cdef Py_ssize_t _CRC_AT, _COUNT_AT, _DELTA_AT, _TIMESTAMP_AT, _PRODUCER_ID_AT
cdef int _ONE_BYTE, _MAGIC
cdef int _NOT_ANSWERED, _NO_OFFSET, _NO_TIME, _NOWHERE, _MAX_SCANNED


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class Sent:
    cdef readonly object key
    cdef public object counter
    cdef readonly int index, error
    cdef readonly int64_t count, size, timestamp, crc, base_offset, append_time


cdef class ProduceWalk(RecordsWalk):
    cdef readonly int acks
    cdef Py_ssize_t _filled

    cpdef int restart(self) except -1
    cpdef bint read(self, bytes data, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(here=Py_ssize_t, acks=int, topics=int, _=int)
    cdef bint _read_usual(self, bytes data, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(found=int64_t, size=Py_ssize_t, partitions=int, _=int, text=bytes)
    cdef Py_ssize_t _read_topic(self, bytes data, Py_ssize_t here, Py_ssize_t end) except -2
    @cython.locals(found=int64_t, stop=Py_ssize_t, size=Py_ssize_t, count=int64_t, one=Sent)
    cdef Py_ssize_t _read_partition(self, bytes data, Py_ssize_t here, Py_ssize_t end) except -2
    @cython.locals(one=Sent)
    cdef Sent _row(self)
    cdef Py_ssize_t _head(self, Cursor cursor) except -2
    @cython.locals(index=int, size=Py_ssize_t)
    cdef Py_ssize_t _partition(self, Cursor cursor) except -2
    @cython.locals(one=Sent)
    cdef _add(
        self, int64_t base, int64_t delta, int64_t count, Py_ssize_t size, int64_t timestamp, int attributes,
        int64_t producer_id,
    )


@cython.locals(
    flexible=bint, by_id=bint, has_time=bint, size=Py_ssize_t, cursor=Cursor, places=dict, place=Py_ssize_t,
    _=Py_ssize_t, here=Py_ssize_t, index=int, error=int, base=int64_t, time=int64_t,
)
cpdef acknowledge(list sent, bytes data, Py_ssize_t at, Py_ssize_t end, int version)

@cython.locals(here=Py_ssize_t, place=Py_ssize_t, topics=int, _=int, partitions=int)
cdef bint _acknowledge_usual(list sent, bytes data, Py_ssize_t at, Py_ssize_t end, bint by_id) except -1

@cython.locals(found=int64_t, size=Py_ssize_t, one=Sent, partitions=int, is_whole=bint)
cdef Py_ssize_t _find_partitions(
    list sent, Py_ssize_t place, bytes data, Py_ssize_t here, Py_ssize_t end, bint by_id
) except -2

@cython.locals(_=int, one=Sent)
cdef Py_ssize_t _note_partitions(
    list sent, Py_ssize_t place, bytes data, Py_ssize_t here, int partitions
) except -2

@cython.locals(found=dict, place=Py_ssize_t, one=Sent)
cdef dict _places(list sent)

@cython.locals(size=Py_ssize_t, _=Py_ssize_t, one=Sent)
cdef Py_ssize_t _place(list sent, object key, int index, Py_ssize_t place) except -2

@cython.locals(first=Sent, one=Sent)
cdef Py_ssize_t _note(list sent, Py_ssize_t place, int error, int64_t base, int64_t time) except -2
