cimport cython

cdef extern from "Python.h":
    memoryview PyMemoryView_FromMemory(char*, Py_ssize_t, int)
    const int PyBUF_WRITE

cdef extern from *:
    """
    #include <stdint.h>
    #ifdef __linux__
    #include <sys/mman.h>
    #endif

    /* A hint: where the kernel has no such pages, or they are switched off, all is as before. */
    static CYTHON_INLINE void want_large_pages(char *start, Py_ssize_t size) {
    #ifdef MADV_HUGEPAGE
        const uintptr_t page = 4096;
        uintptr_t from = (uintptr_t)start & ~(page - 1), to = ((uintptr_t)start + size + page - 1) & ~(page - 1);
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
    #else
        (void)start; (void)size;
    #endif
    }
    """
    void want_large_pages(char*, Py_ssize_t) noexcept

cdef extern from *:
    """
    /* Copies while other threads may run Python: the first write to a new page takes longer than the copy. */
    static Py_ssize_t copy_released(char *to, PyObject *part, Py_ssize_t room) {
        Py_buffer view;
        if (PyObject_GetBuffer(part, &view, PyBUF_SIMPLE) < 0) return -1;
        const Py_ssize_t size = view.len;
        if (size > room) {
            PyBuffer_Release(&view);
            PyErr_SetString(PyExc_ValueError, "a part is longer than what is missing");
            return -1;
        }
        Py_BEGIN_ALLOW_THREADS
        memcpy(to, view.buf, size);
        Py_END_ALLOW_THREADS
        PyBuffer_Release(&view);
        return size;
    }
    """
    Py_ssize_t copy_released(char*, object, Py_ssize_t) except -1

cdef Py_ssize_t _MIN_LARGE_BYTES, _HELD_BYTES


@cython.final
cdef class Gathered:
    cdef Py_ssize_t _at
    cdef bytes _out
    cdef object _view

    @cython.locals(end=Py_ssize_t)
    cpdef add(self, part)

    cdef _add_released(self, part)

    cpdef fill(self, Py_ssize_t size)

    cpdef bytes whole(self)


cpdef bytes copy(data, Py_ssize_t start, Py_ssize_t end)


@cython.locals(size=Py_ssize_t, held=Py_ssize_t, out=Gathered)
cpdef bytes join(parts)
