cimport cython

from kafka_sidecar.codec.cursor cimport Cursor
from kafka_sidecar.codec.scan cimport PartitionSpan, ProduceSpans, TopicSpan

cdef Py_ssize_t _LENGTH_SIZE, _CORRELATION_AT, _CLIENT_ID_AT, _RESPONSE_BODY_AT


@cython.final
cdef class OpenRequest:
    cdef readonly bytes frame
    cdef readonly Py_ssize_t body_at

    @cython.locals(cursor=Cursor)
    cdef long _integer(self, Py_ssize_t at, Py_ssize_t size) except? -1


@cython.locals(cursor=Cursor, request=OpenRequest)
cpdef OpenRequest open_request(bytes frame)

@cython.locals(cursor=Cursor)
cpdef Py_ssize_t response_body_at(int key, int version, bytes data, Py_ssize_t start=*) except -1

@cython.locals(parts=list, at=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t)
cpdef bytes splice(bytes frame, edits)

cpdef bytes records_field(records, bint flexible)

cpdef bytes array_count(Py_ssize_t count, bint flexible)

@cython.locals(
    flexible=bint, edits=list, topic=TopicSpan, partition=PartitionSpan, topic_at=Py_ssize_t, at=Py_ssize_t,
    kept=Py_ssize_t, kept_topics=Py_ssize_t, gone=list
)
cpdef bytes without(bytes frame, ProduceSpans spans, int version, dropped)
