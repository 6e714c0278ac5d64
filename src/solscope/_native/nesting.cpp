// Which interval is around each one: the loop of `solscope.intervals.nest`, in one pass.
//
//     nest(start, end, above, depth)
//
// Four buffers of int64, all of one length. Intervals are in the order of starts, of those that
// start together the longest first, and each ends after its start. Writes to `above` the last
// interval before each one that is still open at its start, or -1, and to `depth` how many are
// around it. `above` is the stack of open intervals at the same time: from an interval it leads to
// the one below it. The interpreter is not held meanwhile.

#include "columns.h"

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
    Column start, end, above, depth;
    if (!PyArg_ParseTuple(arguments, "y*y*w*w*", &start.buffer, &end.buffer, &above.buffer,
                          &depth.buffer)) {
        return nullptr;
    }
    const bool fits = start.whole() && start.buffer.len == end.buffer.len &&
                      start.buffer.len == above.buffer.len && start.buffer.len == depth.buffer.len;
    const auto work = [&] {
        find_above(start.data(), end.data(), above.data(), depth.data(), start.size());
        return true;
    };
    return run(fits, work, "four buffers of int64 of one length are needed");
}

}  // namespace

PyMODINIT_FUNC PyInit__nesting() {
    return module_of("_nesting", "Native nesting of intervals.",
                     {"nest", nest, METH_VARARGS,
                      "Write what is above each interval, and how deep it is."});
}
