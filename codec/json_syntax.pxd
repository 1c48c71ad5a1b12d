cpdef fault(bytes data, Py_ssize_t start, Py_ssize_t end, int max_depth)
