# C types for ids.py.

cimport cython

from kafka_sidecar.codec.records.record cimport Record, uvarint
from kafka_sidecar.codec.records.records cimport Records

cdef int _NULL, _NO_ID, _PREFIX
cdef Py_ssize_t _COMPILED, _NULL_LENGTH


@cython.locals(
    found=list, record=Record, data=bytes, first=Py_ssize_t, before=int, before_at=Py_ssize_t, before_size=Py_ssize_t,
    index=Py_ssize_t, at=Py_ssize_t, size=Py_ssize_t, place=int,
)
cpdef list find_runs(Records records, bint of_key, tuple headers, bytes sizes)
@cython.locals(place=int, found=Py_ssize_t, raw=Py_ssize_t, start=Py_ssize_t)
cdef (int, Py_ssize_t, Py_ssize_t) _in_headers(Record record, tuple headers, Py_ssize_t at, Py_ssize_t size)
cdef bint _same(bytes data, Py_ssize_t one, Py_ssize_t other, Py_ssize_t size) noexcept
