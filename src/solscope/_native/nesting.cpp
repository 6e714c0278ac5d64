// Which interval is around each one: the loop of `solscope.intervals.nest`, in one pass.
//
//     nest(start, end, above, depth)
//
// Four buffers of int64, all of one length. Intervals are in the order of starts, of those that
// start together the longest first, and each ends after its start. Writes to `above` the last
// interval before each one that is still open at its start, or -1, and to `depth` how many are
// around it. `above` is the stack of open intervals at the same time: from an interval it leads to
// the one below it. The interpreter is not held meanwhile.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <initializer_list>

namespace {

void find_above(const int64_t* start, const int64_t* end, int64_t* above, int64_t* depth,
                int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
        int64_t open = i - 1;
        while (open >= 0 && end[open] <= start[i]) open = above[open];
        above[i] = open;
        depth[i] = open < 0 ? 0 : depth[open] + 1;
    }
}

PyObject* nest(PyObject*, PyObject* arguments) {
    Py_buffer start, end, above, depth;
    if (!PyArg_ParseTuple(arguments, "y*y*w*w*", &start, &end, &above, &depth)) return nullptr;
    const bool fits = start.len % sizeof(int64_t) == 0 && start.len == end.len &&
                      start.len == above.len && start.len == depth.len;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS;
        find_above(static_cast<const int64_t*>(start.buf), static_cast<const int64_t*>(end.buf),
                   static_cast<int64_t*>(above.buf), static_cast<int64_t*>(depth.buf),
                   start.len / static_cast<int64_t>(sizeof(int64_t)));
        Py_END_ALLOW_THREADS;
    } else {
        PyErr_SetString(PyExc_ValueError, "four buffers of int64 of one length are needed");
    }
    for (Py_buffer* buffer : {&start, &end, &above, &depth}) PyBuffer_Release(buffer);
    if (!fits) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"nest", nest, METH_VARARGS, "Write what is above each interval, and how deep it is."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef kModule = {PyModuleDef_HEAD_INIT, "_nesting", "Native nesting of intervals.", -1,
                       kMethods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__nesting() { return PyModule_Create(&kModule); }
