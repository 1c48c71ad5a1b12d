cimport cython

from kafka_sidecar.codec.records.record cimport Record
from kafka_sidecar.codec.records.records cimport Records

cdef Py_ssize_t NULL, _COMPILED, _MAX_BYTES, _LONG, MAX_LENGTH_BYTES, MAX_LENGTHS_BYTES

@cython.locals(size=Py_ssize_t, out=bytes)
cdef Records _edit_headers(Records records, list without, bytes key, value, list values, bint only_if_absent, Py_ssize_t limit)

@cython.locals(size=Py_ssize_t)
cdef Py_ssize_t _max_size(Records records, bytes key, value, list values) except -1
cdef Py_ssize_t _size(value) except -1

@cython.locals(
    data=bytes, record=Record, at=Py_ssize_t, copied=Py_ssize_t, checked=Py_ssize_t, index=Py_ssize_t, adds=bint, raw=Py_ssize_t,
    first=Py_ssize_t, size=Py_ssize_t, left=Py_ssize_t, _=Py_ssize_t,
)
cdef Py_ssize_t _write_records(
    bytes out, Records records, list without, bytes key, value, list values, bint only_if_absent, Py_ssize_t limit
) except -1

@cython.locals(begin=Py_ssize_t, raw=Py_ssize_t, size=Py_ssize_t, left=Py_ssize_t, _=Py_ssize_t)
cdef (Py_ssize_t, Py_ssize_t) _put_others(
    bytes out, Py_ssize_t to, bytes data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count, list without
) noexcept

@cython.locals(name=bytes)
cdef bint _is_among(list names, bytes data, Py_ssize_t at, Py_ssize_t size) noexcept

cdef Py_ssize_t _put_header(bytes out, Py_ssize_t at, bytes key, bytes value) except -1
cdef Py_ssize_t _put_varint(bytes out, Py_ssize_t at, Py_ssize_t raw) noexcept
cdef Py_ssize_t _put_byte(bytes out, Py_ssize_t at, unsigned char byte) noexcept
@cython.locals(to=cython.p_char, begin=cython.p_char, size=Py_ssize_t)
cdef Py_ssize_t _put(bytes out, Py_ssize_t at, bytes data, Py_ssize_t start, Py_ssize_t end) noexcept
