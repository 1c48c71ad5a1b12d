cimport cython

from kafka_sidecar.codec.records.record cimport Record
from kafka_sidecar.codec.records.records cimport Records

cdef Py_ssize_t _COMPILED, _MAX_BYTES, _STACK_BYTES


@cython.locals(
    found=list, record=Record, data=bytes, stack=bytearray, read=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t,
    size=Py_ssize_t,
)
cpdef list find_not_avro(Records records, bint of_key, Py_ssize_t skip, bytes program, int max_depth, Py_ssize_t max_results)
