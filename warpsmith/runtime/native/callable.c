/* Objects whose calls go past Python: `object.shortcut.launch` first, then `object.run`. */
#include "launcher.h"

static PyObject *names[3]; /* shortcut, launch, run */

static PyObject *call(PyObject *self, PyObject *arguments, PyObject *named)
{
    PyObject *result = Py_NotImplemented;
    Py_INCREF(result);
    if (!named || !PyDict_Size(named)) {
        PyObject *shortcut = PyObject_GetAttr(self, names[0]);
        PyObject *launch = shortcut ? PyObject_GetAttr(shortcut, names[1]) : NULL;
        Py_DECREF(result);
        if (launch && PyCFunction_CheckExact(launch)
            && PyCFunction_GetFunction(launch) == (PyCFunction)launch_by_table)
            result = launch_by_table(PyCFunction_GetSelf(launch), arguments);
        else
            result = launch ? PyObject_CallFunctionObjArgs(launch, arguments, NULL) : NULL;
        Py_XDECREF(launch);
        Py_XDECREF(shortcut);
    }
    if (result != Py_NotImplemented)
        return result;
    Py_DECREF(result);
    PyObject *slow = PyObject_GetAttr(self, names[2]);
    result = slow ? PyObject_Call(slow, arguments, named) : NULL;
    Py_XDECREF(slow);
    return result;
}

static PyType_Slot slots[] = {
    {Py_tp_call, call},
    {Py_tp_doc, "The base, but its calls ask the launcher in C first."},
    {0, NULL},
};

static PyType_Spec spec = {
    "warpsmith.runtime._launcher.Called", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

/* A subclass of a class written in Python, of the same layout, with calls as above. */
PyObject *called(PyObject *module, PyObject *base)
{
    static const char *const spelled[] = {"shortcut", "launch", "run"};
    for (int k = 0; k < 3; k++)
        if (!names[k] && !(names[k] = PyUnicode_InternFromString(spelled[k])))
            return NULL;
    PyObject *bases = PyTuple_Pack(1, base);
    PyObject *made = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
    Py_XDECREF(bases);
    return made;
}
