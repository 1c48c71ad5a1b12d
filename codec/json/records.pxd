cimport cython

from kafka_sidecar.codec.records.record cimport Record
from kafka_sidecar.codec.records.records cimport Records

cdef Py_ssize_t _COMPILED, _MAX_BYTES


@cython.locals(
    found=list, record=Record, data=bytes, read=Py_ssize_t, index=Py_ssize_t, start=Py_ssize_t, size=Py_ssize_t,
    fault=Py_ssize_t,
)
cpdef list find_not_json(Records records, bint of_key, int max_depth, bint nulls=*, Py_ssize_t max_results=*)
