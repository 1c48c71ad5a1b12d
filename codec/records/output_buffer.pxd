cdef extern from "Python.h":
    void Py_SET_SIZE(object, Py_ssize_t)
    memoryview PyMemoryView_FromMemory(char*, Py_ssize_t, int)
    const int PyBUF_WRITE

cpdef bytes allocate(Py_ssize_t size)
cpdef memoryview writable_view(bytes out, Py_ssize_t size)
cpdef bytes truncate(bytes out, Py_ssize_t size)
