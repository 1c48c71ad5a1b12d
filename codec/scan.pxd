cimport cython

from kafka_sidecar.codec.cursor cimport Cursor

cdef int _PRODUCE_FLEXIBLE, _PRODUCE_IDS, _PRODUCE_TRANSACTIONS, _PRODUCE_MIN, _PRODUCE_MAX
cdef int _FETCH_MIN, _FETCH_MAX
cdef int _FETCH_START_OFFSET, _FETCH_SESSIONS, _FETCH_REPLICAS, _FETCH_FLEXIBLE, _FETCH_IDS


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


@cython.locals(cursor=Cursor, by_id=bint, spans=ProduceSpans, count=Py_ssize_t)
cpdef ProduceSpans scan_produce(bytes data, Py_ssize_t at, int version, Py_ssize_t max_partitions=*)

@cython.locals(topic=TopicSpan, count=Py_ssize_t)
cdef TopicSpan _topic(Cursor cursor, bint by_id)

@cython.locals(partition=PartitionSpan, size=Py_ssize_t)
cdef PartitionSpan _partition(Cursor cursor)

@cython.locals(topic=TopicSpan, partition=PartitionSpan, named=tuple, seen=set)
cpdef tuple find_duplicate(ProduceSpans spans)

@cython.locals(cursor=Cursor, by_id=bint, spans=FetchSpans, count=Py_ssize_t)
cpdef FetchSpans scan_fetch(bytes data, Py_ssize_t at, int version, Py_ssize_t max_partitions=*)

@cython.locals(topic=FetchTopicSpan, before=Py_ssize_t, between=Py_ssize_t, count=Py_ssize_t)
cdef FetchTopicSpan _fetch_topic(Cursor cursor, int version, bint by_id)

@cython.locals(partition=FetchPartitionSpan, size=Py_ssize_t)
cdef FetchPartitionSpan _fetch_partition(Cursor cursor, int version, Py_ssize_t before, Py_ssize_t between)

@cython.locals(count=Py_ssize_t, _=Py_ssize_t)
cdef int _skip_aborted(Cursor cursor) except -1

cdef int _min_topic_bytes(bint flexible, bint by_id) noexcept
