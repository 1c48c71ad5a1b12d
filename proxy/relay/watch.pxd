cimport cython


cdef class WatchedResponse


cdef class Watch:
    cdef public Py_ssize_t skip
    cdef Watch following

    cpdef request(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
    cpdef forwarded(self, bytes frame)
    cpdef unanswered(self)
    cpdef received(self, bytes frame)
    cpdef large_messages(self, found)
    cpdef response(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last, double now)
    @cython.locals(watched=WatchedResponse)
    cpdef show_response(self, frames, bytes data, Py_ssize_t at, Py_ssize_t size, double now)
    cpdef abandoned(self)
    cpdef lost(self, str why)
    cpdef done(self)


cdef class Tap:
    cpdef Watch begin(self, client, state, double now)
    @cython.locals(watch=Watch)
    cpdef Watch show_request(
        self, client, state, frames, bytes data, Py_ssize_t at, Py_ssize_t size, waits, double now
    )


cdef class TapWith(Tap):
    cdef object _watch


cdef class WatchedRequest:
    cdef public Py_ssize_t skip
    cdef readonly bint buffers
    cdef Watch _watch
    cdef bint _has_response

    @cython.locals(watch=Watch)
    cpdef feed(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)


@cython.freelist(8)
cdef class WatchedResponse:
    cdef public Py_ssize_t skip
    cdef readonly bint buffers
    cdef Py_ssize_t _given
    cdef double _now
    cdef Watch _watch
    cdef object _edit

    cdef int begin(self, Watch watch, double now, edit) except -1
    @cython.locals(watch=Watch, passed=Py_ssize_t, skip=Py_ssize_t)
    cpdef feed(self, bytes data, Py_ssize_t start, Py_ssize_t end, bint last)
