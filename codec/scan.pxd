cimport cython

from kafka_sidecar.codec.cursor cimport Cursor

cdef Py_ssize_t _MIN_BYTES


@cython.final
cdef class Layout:
    cdef int version
    cdef bint flexible, by_id
    cdef bytes to_transactional_id, to_acks, to_topics, to_records, to_aborted, aborted, after_records, after_partitions


@cython.final
cdef class PartitionSpan:
    cdef readonly int index
    cdef readonly bint is_null
    cdef readonly Py_ssize_t start, end, records_at, records_start, records_end


@cython.final
cdef class TopicSpan:
    cdef readonly object key
    cdef readonly Py_ssize_t start, end, partitions_at
    cdef readonly list partitions


@cython.final
cdef class ProduceSpans:
    cdef readonly str transactional_id
    cdef readonly int acks
    cdef readonly Py_ssize_t topics_at, end
    cdef readonly list topics


@cython.final
cdef class FetchPartitionSpan:
    cdef readonly int index, error_code
    cdef readonly bint is_null
    cdef readonly long long high_watermark
    cdef readonly Py_ssize_t start, end, aborted_at, aborted_end, records_at, records_start, records_end


@cython.final
cdef class FetchTopicSpan:
    cdef readonly object key
    cdef readonly Py_ssize_t start, end, partitions_at
    cdef readonly list partitions


@cython.final
cdef class FetchSpans:
    cdef readonly Py_ssize_t topics_at, end
    cdef readonly list topics


@cython.locals(layout=Layout)
cdef Layout _layout(message, topic, int version)

@cython.locals(layout=Layout, cursor=Cursor, spans=ProduceSpans, count=Py_ssize_t)
cpdef ProduceSpans scan_produce(bytes data, Py_ssize_t at, int version, Py_ssize_t max_partitions=*)

@cython.locals(topic=TopicSpan, count=Py_ssize_t)
cdef TopicSpan _topic(Cursor cursor, Layout layout)

@cython.locals(partition=PartitionSpan, size=Py_ssize_t)
cdef PartitionSpan _partition(Cursor cursor, Layout layout)

@cython.locals(topic=TopicSpan, partition=PartitionSpan, named=tuple, seen=set)
cpdef tuple find_duplicate(ProduceSpans spans)

@cython.locals(layout=Layout, cursor=Cursor, spans=FetchSpans, count=Py_ssize_t)
cpdef FetchSpans scan_fetch(bytes data, Py_ssize_t at, int version, Py_ssize_t max_partitions=*)

@cython.locals(topic=FetchTopicSpan, count=Py_ssize_t)
cdef FetchTopicSpan _fetch_topic(Cursor cursor, Layout layout)

@cython.locals(partition=FetchPartitionSpan, size=Py_ssize_t)
cdef FetchPartitionSpan _fetch_partition(Cursor cursor, Layout layout)
