// How much later each activity could end: the loop of `solscope.views.slack`, in one pass.
//
//     walk(kind, number, due, queued, following, end, work, begun, slack, host)
//
// Buffers of int64, and `host` an integer. `kind` and `number` are the moments, the last first: 0 is
// the end of an activity, 1 the return of a wait, 2 the launch of an activity. `due`, `queued`,
// `following`, `end` and `slack` have a value for each activity; `work` and `begun` for each wait:
// the activity that ended last before its return, and when the call began. Writes to `slack`. The
// interpreter is not held meanwhile.

#include "columns.h"

#include <algorithm>
#include <initializer_list>

namespace {

struct Columns {
    Column kind, number, due, queued, following, end, work, begun, slack;
};

bool fit(const Columns& of) {
    const int64_t activities = of.slack.size(), waits = of.work.size();
    for (const Column* each : {&of.kind, &of.number, &of.due, &of.queued, &of.following, &of.end,
                               &of.work, &of.begun, &of.slack}) {
        if (!each->whole()) return false;
    }
    return of.kind.size() == of.number.size() && of.due.size() == activities &&
           of.queued.size() == activities && of.following.size() == activities &&
           of.end.size() == activities && of.begun.size() == waits;
}

// Times of a file may be anything: sums wrap around instead of being undefined.
int64_t sum(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

int64_t difference(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// False where a number is that of no activity and of no wait. Numbers are read once: whoever owns
// the buffers could change them meanwhile.
bool walk_back(const Columns& of, int64_t host) {
    for (int64_t i = 0; i < of.kind.size(); ++i) {
        const int64_t number = of.number[i];
        if (of.kind[i] == 1) {
            if (!of.work.has(number)) return false;
            const int64_t work = of.work[number];
            if (!of.slack.has(work)) return false;
            const int64_t idle = difference(of.begun[number], of.end[work]);
            of.slack[work] = std::min(of.slack[work], sum(host, std::max<int64_t>(0, idle)));
            host = sum(host, std::max<int64_t>(0, difference(0, idle)));
            continue;
        }
        if (!of.slack.has(number)) return false;
        if (of.kind[i] == 2) {
            host = std::min(host, sum(of.slack[number], of.queued[number]));
            continue;
        }
        const int64_t after = of.following[number];
        if (of.slack.has(after)) {
            const int64_t late = std::max<int64_t>(0, difference(of.due[after], of.end[number]));
            of.slack[number] = std::min(of.slack[number], sum(of.slack[after], late));
        }
    }
    return true;
}

PyObject* walk(PyObject*, PyObject* arguments) {
    Columns of;
    long long host;
    if (!PyArg_ParseTuple(arguments, "y*y*y*y*y*y*y*y*w*L", &of.kind.buffer, &of.number.buffer,
                          &of.due.buffer, &of.queued.buffer, &of.following.buffer, &of.end.buffer,
                          &of.work.buffer, &of.begun.buffer, &of.slack.buffer, &host)) {
        return nullptr;
    }
    const auto work = [&] { return walk_back(of, host); };
    return run(fit(of), work, "buffers of int64 that fit together are needed");
}

}  // namespace

PyMODINIT_FUNC PyInit__slack() {
    return module_of("_slack", "Native slack of activities.",
                     {"walk", walk, METH_VARARGS, "Write how much later each activity could end."});
}
