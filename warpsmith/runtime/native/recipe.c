/* Recipes as Python describes them. */
#include <stdlib.h>

#include "launcher.h"

enum { MOST = 1024, MOST_BYTES = 1 << 15 }; /* of anything that a call keeps on the stack */

static int wrong(const char *what)
{
    PyErr_Format(PyExc_ValueError, "a recipe's %s", what);
    return 0;
}

static void *array(PyObject *tuple, size_t size, int *count)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) > MOST) {
        wrong("parts are tuples of at most 1024");
        return NULL;
    }
    *count = (int)PyTuple_Size(tuple);
    void *made = calloc(*count + 1, size);
    if (!made)
        PyErr_NoMemory();
    return made;
}

static int are_numbers(const Recipe *recipe, int first, int count)
{
    if (first >= 0 && first + count <= recipe->number_count)
        return 1;
    return wrong("numbers are fewer than are asked for");
}

/* (shape, strides, dtype) of these numbers; NULL with an error. */
PyObject *form_of(const int64_t *numbers, int rank, PyObject *dtype)
{
    PyObject *form = PyTuple_New(3);
    for (int part = 0; form && part < 2; part++) {
        PyObject *tuple = PyTuple_New(rank);
        for (int d = 0; tuple && d < rank; d++) {
            PyObject *number = PyLong_FromLongLong(numbers[part * rank + d]);
            if (!number || PyTuple_SetItem(tuple, d, number))
                Py_CLEAR(tuple);
        }
        if (!tuple || PyTuple_SetItem(form, part, tuple))
            Py_CLEAR(form);
    }
    if (form) {
        Py_INCREF(dtype);
        PyTuple_SetItem(form, 2, dtype);
    }
    return form;
}

static int read_memory(Recipe *recipe, Memory *memory, int index, PyObject *told)
{
    int source, of = 0, number = 0, rank = 0;
    PyObject *dtype = NULL;
    if (!PyArg_ParseTuple(told, "iii|Oi", &source, &of, &number, &dtype, &rank))
        return 0;
    memory->source = (Source)source;
    memory->of = of;
    memory->number = number;
    memory->rank = rank;
    switch (source) {
    case GIVEN:
        return of >= 0 && of < recipe->input_count ? 1 : wrong("memory is no input");
    case MADE:
        if (!dtype || rank < 0 || rank > MAX_RANK)
            return wrong("memory has no form");
        if (!are_numbers(recipe, number, 2 * rank))
            return 0;
        Py_INCREF(dtype);
        memory->dtype = dtype;
        if (recipe->program)
            return 1;
        memory->form = form_of(recipe->numbers + number, rank, dtype);
        return memory->form != NULL;
    case PART:
        return of < 0 || of >= index ? wrong("part is of memory that stands behind it")
                                     : are_numbers(recipe, number, 1);
    case COUNTERS:
        return are_numbers(recipe, number, 1);
    default:
        return wrong("memory comes from nowhere");
    }
}

static int read_counts(PyObject *tuple, uint32_t *into, int count)
{
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != count)
        return wrong("maps have a length of each dimension");
    for (int k = 0; k < count; k++)
        into[k] = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GetItem(tuple, k));
    return !PyErr_Occurred();
}

static int read_map(Recipe *recipe, Map *map, PyObject *told)
{
    PyObject *box, *steps;
    if (!PyArg_ParseTuple(
            told, "iiiiiiOO", &map->memory, &map->rank, &map->number, &map->type, &map->swizzle,
            &map->promotion, &box, &steps))
        return 0;
    if (map->memory < 0 || map->memory >= recipe->memory_count || map->rank < 1
        || map->rank > MAP_RANK)
        return wrong("map is of no memory");
    if (!are_numbers(recipe, map->number, 2 * map->rank))
        return 0;
    map->known = calloc(MAPS_KEPT, sizeof *map->known);
    if (!map->known)
        return PyErr_NoMemory() != NULL;
    return read_counts(box, map->box, map->rank) && read_counts(steps, map->steps, map->rank);
}

static int read_argument(Recipe *recipe, Argument *argument, PyObject *told)
{
    int format, scalar, of;
    if (!PyArg_ParseTuple(told, "Cpi", &format, &scalar, &of))
        return 0;
    if (!strchr("PTdfqi?", format))
        return wrong("argument has no such format");
    int most = scalar ? recipe->input_count
        : format == 'P' ? recipe->memory_count
        : format == 'T' ? recipe->map_count
                        : recipe->number_count;
    if (of < 0 || of >= most)
        return wrong("argument is nowhere");
    int size = format == 'T' ? MAP_BYTES : 8, unit = format == 'T' ? 64 : 8;
    argument->format = (char)format;
    argument->scalar = (char)scalar;
    argument->of = of;
    argument->offset = (recipe->argument_bytes + unit - 1) / unit * unit;
    recipe->argument_bytes = argument->offset + size;
    recipe->argument_total++;
    return 1;
}

static int read_launch(Recipe *recipe, Launch *launch, PyObject *told)
{
    PyObject *ready, *arguments;
    int kind;
    if (!PyArg_ParseTuple(told, "OiiO", &ready, &kind, &launch->number, &arguments))
        return 0;
    Py_INCREF(ready);
    launch->ready = ready;
    launch->kind = (char)kind;
    launch->arguments = array(arguments, sizeof(Argument), &launch->argument_count);
    if (!launch->arguments || !are_numbers(recipe, launch->number, 7))
        return 0;
    for (int k = 0; k < launch->argument_count; k++)
        if (!read_argument(recipe, &launch->arguments[k], PyTuple_GetItem(arguments, k)))
            return 0;
    if (recipe->argument_bytes > MOST_BYTES)
        return wrong("arguments are too many");
    return 1;
}

static int read_indices(Recipe *recipe, int *into, PyObject *tuple, int count, int width)
{
    for (int k = 0; k < count; k++) {
        long index = PyLong_AsLong(PyTuple_GetItem(tuple, k));
        long most = k % width ? recipe->input_count : recipe->memory_count;
        if (PyErr_Occurred())
            return 0;
        if (index < 0 || index >= most)
            return wrong("results are nowhere");
        into[k] = (int)index;
    }
    return 1;
}

static int read_all(Recipe *recipe, PyObject *given)
{
    PyObject *host, *memories, *maps, *launches, *results, *aliases, *counters, *where;
    const char *numbers, *program;
    Py_ssize_t bytes, program_bytes;
    long long low, high;
    if (!PyArg_ParseTuple(
            given, "O!iOiy#OOOOOO(y#LL)", host_type, &host, &recipe->device, &where,
            &recipe->input_count, &numbers, &bytes, &memories, &maps, &launches, &results,
            &aliases, &counters, &program, &program_bytes, &low, &high))
        return 0;
    Py_INCREF(host);
    recipe->host = (Host *)host;
    Py_INCREF(counters);
    recipe->counters = counters;
    Py_INCREF(where);
    recipe->where = where;
    recipe->number_count = (int)(bytes / sizeof(int64_t));
    if (recipe->input_count > MAX_ARGUMENTS || recipe->number_count > MOST)
        return wrong("inputs or numbers are too many");
    recipe->numbers = malloc(bytes + 1);
    if (!recipe->numbers)
        return PyErr_NoMemory() != NULL;
    memcpy(recipe->numbers, numbers, bytes);
    if (program_bytes) {
        recipe->low = low;
        recipe->high = high;
        recipe->program_length = (int)(program_bytes / sizeof(int64_t));
        recipe->program = malloc(program_bytes);
        if (!recipe->program)
            return PyErr_NoMemory() != NULL;
        memcpy(recipe->program, program, program_bytes);
        if (!is_program(recipe->program, recipe->program_length, recipe->number_count))
            return wrong("program leaves its memory");
    }
    if (!(recipe->memories = array(memories, sizeof(Memory), &recipe->memory_count)))
        return 0;
    for (int k = 0; k < recipe->memory_count; k++)
        if (!read_memory(recipe, &recipe->memories[k], k, PyTuple_GetItem(memories, k)))
            return 0;
    if (!(recipe->maps = array(maps, sizeof(Map), &recipe->map_count)))
        return 0;
    for (int k = 0; k < recipe->map_count; k++)
        if (!read_map(recipe, &recipe->maps[k], PyTuple_GetItem(maps, k)))
            return 0;
    if (!(recipe->launches = array(launches, sizeof(Launch), &recipe->launch_count)))
        return 0;
    for (int k = 0; k < recipe->launch_count; k++)
        if (!read_launch(recipe, &recipe->launches[k], PyTuple_GetItem(launches, k)))
            return 0;
    if (!(recipe->results = array(results, sizeof(int), &recipe->result_count)))
        return 0;
    if (!(recipe->aliases = array(aliases, sizeof(int), &recipe->alias_count)))
        return 0;
    recipe->alias_count /= 2;
    return read_indices(recipe, recipe->results, results, recipe->result_count, 1)
        && read_indices(recipe, recipe->aliases, aliases, 2 * recipe->alias_count, 2);
}

static void recipe_free(Recipe *recipe)
{
    PyTypeObject *type = Py_TYPE((PyObject *)recipe);
    if (recipe->weak)
        PyObject_ClearWeakRefs((PyObject *)recipe);
    for (int k = 0; recipe->memories && k < recipe->memory_count; k++) {
        Py_XDECREF(recipe->memories[k].dtype);
        Py_XDECREF(recipe->memories[k].form);
        Py_XDECREF(recipe->memories[k].kept);
    }
    for (int k = 0; recipe->maps && k < recipe->map_count; k++)
        free(recipe->maps[k].known);
    for (int k = 0; recipe->launches && k < recipe->launch_count; k++) {
        Py_XDECREF(recipe->launches[k].ready);
        Py_XDECREF(recipe->launches[k].kernel);
        free(recipe->launches[k].arguments);
    }
    free(recipe->numbers);
    free(recipe->program);
    free(recipe->memories);
    free(recipe->maps);
    free(recipe->launches);
    free(recipe->results);
    free(recipe->aliases);
    Py_XDECREF(recipe->counters);
    Py_XDECREF(recipe->where);
    Py_XDECREF((PyObject *)recipe->host);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(recipe);
    Py_DECREF(type);
}

static PyObject *recipe_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    Recipe *recipe = (Recipe *)PyType_GenericAlloc(type, 0);
    if (recipe && !read_all(recipe, given))
        Py_CLEAR(recipe);
    return (PyObject *)recipe;
}

/* The recipe's numbers for a size as bytes; None where it is not for that. */
static PyObject *numbers_at(Recipe *recipe, PyObject *given)
{
    long long size = PyLong_AsLongLong(given);
    int64_t numbers[recipe->number_count + 1];
    if (size == -1 && PyErr_Occurred())
        return NULL;
    memcpy(numbers, recipe->numbers, recipe->number_count * sizeof(int64_t));
    if (recipe->program
        && !numbers_of(recipe->program, recipe->program_length, size, numbers))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((char *)numbers, recipe->number_count * sizeof(int64_t));
}

static PyMethodDef methods[] = {
    {"numbers", (PyCFunction)numbers_at, METH_O,
     "numbers(size): the recipe's numbers as bytes, or None where it is not for that size."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Recipe, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, recipe_new},
    {Py_tp_dealloc, recipe_free},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_tp_doc, "What one prepared call does: memory that it asks for, and launches."},
    {0, NULL},
};

PyType_Spec recipe_spec = {
    "warpsmith.runtime._launcher.Recipe", sizeof(Recipe), 0, Py_TPFLAGS_DEFAULT, slots};
