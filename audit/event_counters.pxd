cimport cython
from libc.stdint cimport int64_t

from kafka_sidecar.audit.counters cimport BatchCount, FetchCounter, ProduceCounter
from kafka_sidecar.audit.memory cimport Acked, AckMemory, Delivered, Recent
from kafka_sidecar.audit.tally cimport OffsetRanges, Room, Tallies, Tally

cdef int64_t _MAX_OFFSET, _NO_TIMESTAMP
cdef object ACKED, UNCONFIRMED, REJECTED, UNKNOWN


@cython.final
cdef class Memory:
    cdef readonly AckMemory acks
    cdef readonly Recent commits, readers

    @cython.locals(seen=Delivered)
    cpdef Delivered delivered(self, client, group, topic, partition)


@cython.final
cdef class EventStats:
    cdef readonly int64_t bucket_ms
    cdef readonly Room room
    cdef readonly dict copies
    cdef readonly Tallies acked, failed, unknown, delivered, shared, committed

    @cython.locals(tallies=Tallies)
    cpdef Tally produced(self, client, topic, partition, int64_t event_time, result)
    cpdef Tally read(self, client, group, topic, partition, int64_t event_time)
    @cython.locals(bucket=int64_t, key=tuple, tally=Tally)
    cdef Tally _tally(self, Tallies tallies, client, group, topic, partition, int64_t event_time)
    cpdef Tally acquired(self, client, group, topic, partition, int64_t event_time)
    @cython.locals(tally=Tally)
    cpdef add_duplicated(self, client, topic, partition, int64_t event_time, BatchCount batch, is_certain)
    @cython.locals(tally=Tally)
    cpdef add_done(
        self, client, group, topic, partition, int64_t first, int64_t last, int64_t event_time
    )


@cython.final
cdef class EventCounting:
    cdef readonly object clock
    cdef readonly int64_t interval
    cdef readonly object lock
    cdef Memory _memory
    cdef object _intervals

    cpdef use(self, intervals)
    cdef EventStats stats_for(self, event_time)
    cdef int64_t event_time(self, int64_t timestamp) except? -1
    cpdef tuple times(self, event_time, bucket_ms)
    cpdef committed(self, client, group, topic, partition, offset)
    @cython.locals(event_time=int64_t, stats=EventStats)
    cpdef duplicated(self, client, topic, partition, BatchCount batch, is_certain)
    @cython.locals(event_time=int64_t, stats=EventStats)
    cpdef accepted(self, client, group, topic, partition, first, last)
    @cython.locals(event_time=int64_t, stats=EventStats, tally=Tally, count=int64_t, hidden=int64_t)
    cpdef acquired(self, client, group, topic, partition, BatchCount batch)
    @cython.locals(event_time=int64_t, stats=EventStats)
    cpdef count_large(self, large, result, int deliveries)
    @cython.locals(tally=Tally)
    cdef _add_large(self, EventStats stats, large, int64_t event_time, result, int deliveries)
    @cython.locals(first=int64_t, memory=Memory, acks=Acked, seen=Delivered)
    cdef bint _is_repeated(self, large, int64_t offset, result, int deliveries) except -1


cdef class ProducedEvents(ProduceCounter):
    cdef EventCounting _counting
    cdef object _client, _topic, _partition
    cdef int64_t _interval, _since, _until, _generation
    cdef Tally _tally
    cdef Acked _acked

    @cython.locals(timestamp=int64_t, is_found=bint)
    cpdef count(self, BatchCount batch)
    @cython.locals(counting=EventCounting, count=int64_t, event_time=int64_t, stats=EventStats, tally=Tally)
    cdef _find(self, BatchCount batch)
    @cython.locals(count=int64_t, first=int64_t, acked=Acked)
    cdef int _count_acked(self, Tally tally, BatchCount batch, int64_t event_time) except -1
    @cython.locals(acks=AckMemory)
    cdef Acked _remembered(self)


cdef class DeliveredEvents(FetchCounter):
    cdef EventCounting _counting
    cdef object _client, _group, _topic, _partition
    cdef int64_t _interval, _since, _until, _generation
    cdef Tally _tally
    cdef Delivered _seen

    @cython.locals(
        counting=EventCounting, timestamp=int64_t, event_time=int64_t, tally=Tally, count=int64_t, hidden=int64_t,
        aborted=int64_t, before=int64_t, offsets=int64_t, fresh=int64_t, is_found=bint,
    )
    cpdef count(self, BatchCount batch)
    @cython.locals(counting=EventCounting, stats=EventStats)
    cdef bint _find(self, int64_t event_time) except -1
    @cython.locals(memory=Memory)
    cdef Delivered _remembered(self)


cdef int64_t _share(int64_t count, int64_t fresh, int64_t offsets) except? -1
cdef int64_t _proportion(count, fresh, offsets) except? -1
