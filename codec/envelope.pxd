cimport cython

from kafka_sidecar.codec.cursor cimport Cursor


@cython.final
cdef class OpenRequest:
    cdef readonly bytes frame
    cdef readonly Py_ssize_t body_at

    @cython.locals(cursor=Cursor)
    cdef _integer(self, Py_ssize_t at, Py_ssize_t size)


@cython.locals(cursor=Cursor, request=OpenRequest)
cpdef OpenRequest open_request(bytes frame)

cpdef splice(frame, edits)

@cython.locals(parts=list, at=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
cpdef list spliced(frame, edits)

cpdef bytes records_field(records, bint flexible)
