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

cdef Py_ssize_t _MIN_LARGE_BYTES


@cython.final
cdef class Gathered:
    cdef Py_ssize_t _at
    cdef bytes _out
    cdef object _view

    @cython.locals(end=Py_ssize_t)
    cpdef add(self, part)

    cpdef fill(self, Py_ssize_t size)

    cpdef bytes whole(self)


@cython.locals(size=Py_ssize_t, out=Gathered)
cpdef bytes join(parts)
