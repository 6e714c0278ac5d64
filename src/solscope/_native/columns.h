// What a native module with one function shares with the others: columns of int64 that it reads and
// writes without holding the interpreter, and the module itself.

#ifndef SOLSCOPE_COLUMNS_H
#define SOLSCOPE_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace {

// A buffer of int64 that `PyArg_ParseTuple` fills in (`y*` or `w*`).
struct Column {
    Py_buffer buffer{};

    Column() = default;
    Column(const Column&) = delete;
    Column& operator=(const Column&) = delete;
    ~Column() { PyBuffer_Release(&buffer); }  // does nothing where none was given

    int64_t size() const { return buffer.len / static_cast<int64_t>(sizeof(int64_t)); }
    int64_t* data() const { return static_cast<int64_t*>(buffer.buf); }
    int64_t& operator[](int64_t at) const { return data()[at]; }
    bool has(int64_t at) const { return at >= 0 && at < size(); }
    bool whole() const { return buffer.len % static_cast<Py_ssize_t>(sizeof(int64_t)) == 0; }
};

// None after `work()`, which runs without the interpreter; a ValueError where the columns do not
// fit or `work` returns false.
template <typename Work>
PyObject* run(bool fits, Work work, const char* needed) {
    if (fits) {
        Py_BEGIN_ALLOW_THREADS;
        fits = work();
        Py_END_ALLOW_THREADS;
    }
    if (fits) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, needed);
    return nullptr;
}

// A module with this function alone.
PyObject* module_of(const char* name, const char* about, PyMethodDef function) {
    static PyMethodDef methods[] = {function, {nullptr, nullptr, 0, nullptr}};
    static PyModuleDef module = {PyModuleDef_HEAD_INIT, name, about, -1, methods, nullptr, nullptr,
                                 nullptr, nullptr};
    return PyModule_Create(&module);
}

}  // namespace

#endif
