/* Nodes of torch's autograd whose calls and gradients go past Python, where tables have launches.
 *
 * `recording` makes `forward(node, *arguments)` of a way: (shortcut, slow), where entries of the
 * shortcut's table have notes: (told, saved, count, ways); or (shortcut, slow, saved), whose node has
 * the first result, and is told the last argument. Places in `saved` are of the arguments and, behind
 * them, of the results, -1 for none. The first `count` results are the node's, of which those behind
 * the first are a function of the first two arguments alone. The node then has `told`: (None, note or
 * argument). A forward call in Python puts the knobs of its scope first.
 *
 * `applying` makes the method `apply(*gradients)`. The node's class has `way`: (shortcut, slow,
 * asked). `asked(needs, told)` gives what launches are told behind their tensors, and for each
 * argument of the forward call the place of its gradient among the results, the one behind the last
 * for none; `ways`, a dictionary, keeps that by what is needed. The launches read two gradients of
 * results, or the first alone, and what was saved. Or it is (shortcut, slow, read, places): the
 * launches read one gradient, those of what was saved, and what the node was told. */
#include "launcher.h"

enum { WAY, TOLD, NEEDS, SAVED, LAUNCH, TO_SAVE, FILLS, CONSTANTS, NAMES };

static PyObject *names[NAMES];

static int are_named(void)
{
    static const char *const spelled[NAMES] = {
        "way", "told", "needs_input_grad", "saved_tensors", "launch", "to_save",
        "materialize_grads", "non_differentiable"};
    for (int k = 0; k < NAMES; k++)
        if (!names[k] && !(names[k] = PyUnicode_InternFromString(spelled[k])))
            return 0;
    return 1;
}

/* What a shortcut's table makes of arguments; NotImplemented where Python has to. */
static PyObject *launched(PyObject *shortcut, PyObject *arguments, PyObject **note)
{
    PyObject *launch = PyObject_GetAttr(shortcut, names[LAUNCH]), *result = NULL;
    if (launch && PyCFunction_CheckExact(launch)
        && PyCFunction_GetFunction(launch) == (PyCFunction)launch_by_table)
        result = launch_noted(PyCFunction_GetSelf(launch), arguments, note);
    else if (launch)
        Py_INCREF(result = Py_NotImplemented);
    Py_XDECREF(launch);
    return result;
}

/* A tuple of results, of which there may be one, in place of them. */
static PyObject *several(PyObject *results)
{
    if (PyTuple_Check(results))
        return results;
    PyObject *made = PyTuple_Pack(1, results);
    Py_DECREF(results);
    return made;
}

/* Items of a sequence of two tuples by their places; None for a place that neither has. */
static PyObject *picked(PyObject *first, PyObject *second, PyObject *places)
{
    Py_ssize_t count = PyTuple_Size(places), before = PyTuple_Size(first);
    Py_ssize_t all = before + PyTuple_Size(second);
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t k = 0; made && k < count; k++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(places, k));
        PyObject *each = place < 0 || place >= all ? Py_None
            : place < before                       ? PyTuple_GetItem(first, place)
                                                   : PyTuple_GetItem(second, place - before);
        Py_INCREF(each);
        PyTuple_SetItem(made, k, each);
    }
    return made;
}

/* Results behind the first need no gradient where neither of the first two arguments needs one. */
static int mark_constants(PyObject *node, PyObject *results, Py_ssize_t count)
{
    PyObject *needs = PyObject_GetAttr(node, names[NEEDS]), *constants = NULL;
    if (!needs)
        return 0;
    int marked = 1;
    if (PyTuple_GetItem(needs, 0) == Py_False && PyTuple_GetItem(needs, 1) == Py_False) {
        constants = PyTuple_GetSlice(results, 1, count);
        marked = constants && !PyObject_SetAttr(node, names[CONSTANTS], constants);
    }
    Py_XDECREF(constants);
    Py_DECREF(needs);
    return marked;
}

/* The node's results, when it has what its gradient needs. */
static PyObject *recorded(
    PyObject *node, PyObject *arguments, PyObject *results, PyObject *told, PyObject *places,
    Py_ssize_t count)
{
    PyObject *saved = picked(arguments, results, places), *made = NULL;
    PyObject *both = PyTuple_Pack(2, Py_None, told);
    if (saved && both && !PyObject_SetAttr(node, names[TO_SAVE], saved)
        && !PyObject_SetAttr(node, names[TOLD], both)
        && !PyObject_SetAttr(node, names[FILLS], Py_False)
        && (count == 1 || mark_constants(node, results, count))) {
        if (count == 1)
            Py_XINCREF(made = PyTuple_GetItem(results, 0));
        else
            made = PyTuple_GetSlice(results, 0, count);
    }
    Py_XDECREF(both);
    Py_XDECREF(saved);
    return made;
}

static PyObject *forward(PyObject *way, PyObject *given)
{
    PyObject *note = NULL, *made = NULL, *node = PyTuple_GetItem(given, 0);
    PyObject *arguments = node ? PyTuple_GetSlice(given, 1, PyTuple_Size(given)) : NULL;
    PyObject *results = arguments ? launched(PyTuple_GetItem(way, 0), arguments, &note) : NULL;
    if (results == Py_NotImplemented)
        made = PyObject_CallObject(PyTuple_GetItem(way, 1), given);
    else if (results && PyTuple_Size(way) == 3) {
        PyObject *told = PyTuple_GetItem(arguments, PyTuple_Size(arguments) - 1);
        if ((results = several(results)))
            made = recorded(node, arguments, results, told, PyTuple_GetItem(way, 2), 1);
    } else if (results && note) {
        Py_ssize_t count = PyLong_AsSsize_t(PyTuple_GetItem(note, 2));
        made = recorded(node, arguments, results, note, PyTuple_GetItem(note, 1), count);
    } else if (results)
        PyErr_SetString(PyExc_SystemError, "an entry for a node has no note");
    Py_XDECREF(note);
    Py_XDECREF(results);
    Py_XDECREF(arguments);
    return made;
}

/* What a function is asked of a note and of what is needed, once. */
static PyObject *asked_of(PyObject *note, PyObject *needs, PyObject *function)
{
    PyObject *ways = PyTuple_GetItem(note, 3), *found = PyDict_GetItemWithError(ways, needs);
    if (found || PyErr_Occurred()) {
        Py_XINCREF(found);
        return found;
    }
    found = PyObject_CallFunctionObjArgs(function, needs, PyTuple_GetItem(note, 0), NULL);
    if (found && PyDict_SetItem(ways, needs, found))
        Py_CLEAR(found);
    return found;
}

/* Arguments of launches: the gradients of the first result and, where there is one and it is read,
 * the second, what was saved, and one more. */
static PyObject *arguments_of(PyObject *given, int most, PyObject *saved, PyObject *last)
{
    int count = most > 1 && PyTuple_Size(given) > 1 && PyTuple_GetItem(given, 1) != Py_None ? 2 : 1;
    Py_ssize_t all = count + PyTuple_Size(saved) + 1;
    PyObject *made = PyTuple_New(all);
    for (Py_ssize_t k = 0; made && k < all; k++) {
        PyObject *each = k < count ? PyTuple_GetItem(given, k)
            : k < all - 1          ? PyTuple_GetItem(saved, k - count)
                                   : last;
        Py_INCREF(each);
        PyTuple_SetItem(made, k, each);
    }
    return made;
}

/* Gradients of the arguments; NotImplemented where Python has to find them. */
static PyObject *differentiated(PyObject *node, PyObject *way, PyObject *given, PyObject *saved)
{
    PyObject *made = NULL, *asked = NULL, *all = NULL, *places = NULL, *results = NULL;
    PyObject *told = PyObject_GetAttr(node, names[TOLD]), *none = PyTuple_New(0);
    if (!told || !none)
        goto done;
    if (PyTuple_GetItem(told, 0) != Py_None || PyTuple_GetItem(given, 0) == Py_None) {
        Py_INCREF(made = Py_NotImplemented);
        goto done;
    }
    if (PyTuple_Size(way) == 4) {
        PyObject *read = picked(saved, none, PyTuple_GetItem(way, 2));
        all = read ? arguments_of(given, 1, read, PyTuple_GetItem(told, 1)) : NULL;
        Py_XDECREF(read);
        places = PyTuple_GetItem(way, 3);
    } else {
        PyObject *needs = PyObject_GetAttr(node, names[NEEDS]);
        if (needs)
            asked = asked_of(PyTuple_GetItem(told, 1), needs, PyTuple_GetItem(way, 2));
        Py_XDECREF(needs);
        if (asked) {
            all = arguments_of(given, 2, saved, PyTuple_GetItem(asked, 0));
            places = PyTuple_GetItem(asked, 1);
        }
    }
    results = all ? launched(PyTuple_GetItem(way, 0), all, NULL) : NULL;
    if (results == Py_NotImplemented)
        Py_INCREF(made = results);
    else if (results && (results = several(results)))
        made = picked(results, none, places);
done:
    Py_XDECREF(results);
    Py_XDECREF(all);
    Py_XDECREF(asked);
    Py_XDECREF(none);
    Py_XDECREF(told);
    return made;
}

static PyObject *apply(PyObject *node, PyObject *given)
{
    if (PyTuple_Size(given) < 1)
        return PyErr_Format(PyExc_TypeError, "a gradient is needed");
    PyObject *way = PyObject_GetAttr(node, names[WAY]);
    PyObject *saved = way ? PyObject_GetAttr(node, names[SAVED]) : NULL;
    PyObject *result = saved ? differentiated(node, way, given, saved) : NULL;
    if (result == Py_NotImplemented) {
        PyObject *both = PyTuple_Pack(2, node, saved);
        PyObject *all = both ? PySequence_Concat(both, given) : NULL;
        Py_DECREF(result);
        result = all ? PyObject_CallObject(PyTuple_GetItem(way, 1), all) : NULL;
        Py_XDECREF(all);
        Py_XDECREF(both);
    }
    Py_XDECREF(saved);
    Py_XDECREF(way);
    return result;
}

PyObject *recording(PyObject *module, PyObject *way)
{
    static PyMethodDef function = {"forward", forward, METH_VARARGS, "forward(node, *arguments)"};
    if (!PyTuple_Check(way) || PyTuple_Size(way) < 2 || PyTuple_Size(way) > 3)
        return PyErr_Format(PyExc_TypeError, "a shortcut, a function and places are needed");
    return are_named() ? PyCFunction_New(&function, way) : NULL;
}

PyObject *applying(PyObject *module, PyObject *type)
{
    static PyMethodDef method = {"apply", apply, METH_VARARGS, "apply(*gradients)"};
    if (!PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "a class of nodes is needed");
    return are_named() ? PyDescr_NewMethod((PyTypeObject *)type, &method) : NULL;
}
