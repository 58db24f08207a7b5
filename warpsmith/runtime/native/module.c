/* The module, and what torch and the driver offer, as Python hands it over. */
#include "launcher.h"

PyTypeObject *host_type, *recipe_type;

static int named(PyObject **into, const char *name)
{
    return (*into = PyUnicode_InternFromString(name)) != NULL;
}

static PyObject *host_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *exchange, *kinds, *empty, *empty_here, *enabled, *scope;
    unsigned long long at[7];
    Places places;
    if (!PyArg_ParseTuple(
            given, "OO!OOOO(KKKKKKK)(iiiiiiiii)", &exchange, &PyTuple_Type, &kinds, &empty, &empty_here,
            &enabled, &scope, &at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6],
            &places.record, &places.keys, &places.gradient, &places.storage, &places.sizes,
            &places.offset, &places.kind, &places.data, &places.checked))
        return NULL;
    const DLPackExchangeAPI *tensors = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
    if (!tensors)
        return NULL;
    if (tensors->header.major != 1 || !tensors->dltensor_from_py_object_no_sync
        || !tensors->current_work_stream)
        return PyErr_Format(PyExc_ValueError, "DLPack's exchange API is not of version 1");
    Host *host = (Host *)PyType_GenericAlloc(type, 0);
    if (!host)
        return NULL;
    host->tensors = tensors;
    memcpy(&host->driver, at, sizeof host->driver);
    Py_INCREF(host->kinds = kinds);
    Py_INCREF(host->empty = empty);
    Py_INCREF(host->grad_enabled = enabled);
    Py_INCREF(host->scope = scope);
    memcpy(&host->value_of, &at[6], sizeof host->value_of);
    host->at = places;
    if (empty_here != Py_None)
        Py_INCREF(host->empty_here = empty_here);
    if (!named(&host->requires_grad, "requires_grad") || !named(&host->is_neg, "is_neg")
        || !named(&host->copy_, "copy_") || !named(&host->dtype, "dtype")
        || !named(&host->device, "device") || !named(&host->note, "note"))
        Py_CLEAR(host);
    return (PyObject *)host;
}

static void host_free(Host *host)
{
    PyTypeObject *type = Py_TYPE((PyObject *)host);
    PyObject *held[] = {
        host->kinds, host->empty, host->empty_here, host->grad_enabled, host->scope,
        host->requires_grad,
        host->is_neg, host->copy_, host->dtype, host->device, host->note};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_XDECREF(held[k]);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(host);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_new, host_new},
    {Py_tp_dealloc, host_free},
    {Py_tp_doc, "What torch and the CUDA driver offer to launches."},
    {0, NULL},
};

PyType_Spec host_spec = {
    "warpsmith.runtime._launcher.Host", sizeof(Host), 0, Py_TPFLAGS_DEFAULT, slots};

static PyMethodDef functions[] = {
    {"called", called, METH_O,
     "called(base): a subclass whose calls are those of `shortcut.launch`, and of `run` where that\n"
     "gives NotImplemented."},
    {"recording", recording, METH_O,
     "recording((shortcut, slow)): a function `forward(node, *arguments)`: gradient.c."},
    {"applying", applying, METH_O,
     "applying(nodes): a method `apply` of subclasses of such a class: gradient.c."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_launcher", "Calls whose launches are prepared.", -1, functions,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__launcher(void)
{
    PyObject *module = PyModule_Create(&definition), *table = NULL;
    if (!module)
        return NULL;
    if (!host_type && !(host_type = (PyTypeObject *)PyType_FromSpec(&host_spec)))
        return NULL;
    if (!recipe_type && !(recipe_type = (PyTypeObject *)PyType_FromSpec(&recipe_spec)))
        return NULL;
    if (!(table = PyType_FromSpec(&table_spec)) || PyModule_AddObjectRef(module, "Table", table)
        || PyModule_AddObjectRef(module, "Host", (PyObject *)host_type)
        || PyModule_AddObjectRef(module, "Recipe", (PyObject *)recipe_type))
        Py_CLEAR(module);
    Py_XDECREF(table);
    return module;
}
