/* A call by its recipe: memory, arguments, launches on torch's current stream.
 *
 * All that can fail without harm comes first. The launches themselves run without the interpreter's
 * lock, from memory of this thread alone. */
#include <math.h>

#include "launcher.h"

static int address_of(Host *host, PyObject *tensor, int device, uint64_t *address)
{
    DLTensor told;
    if (!look(host, tensor, &told)
        || told.device.device_type != kDLCUDA || told.device.device_id != device)
        return 0;
    *address = (uint64_t)told.data + told.byte_offset;
    return 1;
}

/* A new tensor; `here` says that the recipe's device is the current one. */
static PyObject *empty_of(
    Recipe *recipe, const Memory *memory, PyObject *form, int here, uint64_t *address)
{
    Host *host = recipe->host;
    PyObject *made = NULL;
    if (here && host->empty_here) {
        made = PyObject_CallObject(host->empty_here, form);
        if (!made || address_of(host, made, recipe->device, address))
            return made;
        Py_CLEAR(made); /* torch's current device is another one than the driver's */
        PyErr_Clear();
    }
    PyObject *names = PyDict_New(), *places = PyTuple_GetSlice(form, 0, 2);
    if (names && places && !PyDict_SetItem(names, host->dtype, memory->dtype)
        && !PyDict_SetItem(names, host->device, recipe->where))
        made = PyObject_Call(host->empty, places, names);
    Py_XDECREF(names);
    Py_XDECREF(places);
    if (made && !address_of(host, made, recipe->device, address))
        Py_CLEAR(made);
    return made;
}

static PyObject *empty(
    Recipe *recipe, const Memory *memory, PyObject *form, const int64_t *numbers, int here,
    uint64_t *address)
{
    PyObject *made;
    if (form || (form = memory->form))
        return empty_of(recipe, memory, form, here, address);
    form = form_of(numbers + memory->number, memory->rank, memory->dtype);
    made = form ? empty_of(recipe, memory, form, here, address) : NULL;
    Py_XDECREF(form);
    return made;
}

static PyObject *counters(
    Recipe *recipe, Memory *memory, int64_t elements, void *stream, uint64_t *address)
{
    int serves = memory->stream == stream && memory->room >= elements;
    PyObject *tensor = serves ? memory->kept : NULL, *before;
    Py_XINCREF(tensor);
    if (!tensor) {
        tensor = PyObject_CallFunction(
            recipe->counters, "iLK", memory->of, (long long)elements, (unsigned long long)stream);
        if (!tensor)
            return NULL;
        before = memory->kept;
        Py_INCREF(tensor);
        memory->kept = tensor;
        memory->stream = stream;
        memory->room = elements;
        Py_XDECREF(before);
    }
    if (!address_of(recipe->host, tensor, recipe->device, address))
        Py_CLEAR(tensor);
    return tensor;
}

/* Addresses of all memory of a call; what was made for it, each with a reference, in `made`. */
static int find_memory(
    Recipe *recipe, const int64_t *numbers, const int *places, const DLTensor *tensors,
    PyObject *const *forms, void *stream, int here, uint64_t *addresses, PyObject **made)
{
    for (int k = 0; k < recipe->memory_count; k++) {
        Memory *memory = &recipe->memories[k];
        switch (memory->source) {
        case GIVEN: {
            const DLTensor *tensor = &tensors[places[memory->of]];
            addresses[k] = (uint64_t)tensor->data + tensor->byte_offset;
            break;
        }
        case PART:
            addresses[k] = addresses[memory->of] + (uint64_t)numbers[memory->number];
            break;
        case MADE:
            if (!(made[k] = empty(
                      recipe, memory, forms ? forms[k] : NULL, numbers, here, &addresses[k])))
                return 0;
            break;
        case COUNTERS:
            if (!(made[k] = counters(
                      recipe, memory, numbers[memory->number], stream, &addresses[k])))
                return 0;
        }
    }
    return 1;
}

static int encode(Recipe *recipe, Map *map, uint64_t address, unsigned char *into)
{
    const uint64_t *sizes = (const uint64_t *)recipe->numbers + map->number;
    for (int d = 0; d < map->rank; d++)
        if (!sizes[d]) { /* a tensor without elements is none for the unit, and nothing is copied */
            memset(into, 0, MAP_BYTES);
            return 1;
        }
    Encoded *known = &map->known[(address >> 9 ^ address >> 4) % MAPS_KEPT];
    if (known->address != address) {
        static const uint64_t any[1] = {16}; /* a line has no strides, but some are asked for */
        const uint64_t *strides = map->rank > 1 ? sizes + map->rank : any;
        _Alignas(64) unsigned char made[MAP_BYTES];
        if (address % 16
            || recipe->host->driver.cuTensorMapEncodeTiled(
                made, map->type, (uint32_t)map->rank, (void *)(address - sizes[2 * map->rank - 1]),
                sizes, strides, map->box,
                map->steps, 0, map->swizzle, map->promotion, 0))
            return 0;
        memcpy(known->bytes, made, MAP_BYTES);
        known->address = address;
    }
    memcpy(into, known->bytes, MAP_BYTES);
    return 1;
}

/* A number of the caller's as `struct` would pack it. */
static int pack(char format, PyObject *value, unsigned char *into)
{
    double real;
    float single;
    long long whole;
    int32_t word;
    switch (format) {
    case 'd':
    case 'f':
        real = PyFloat_AsDouble(value);
        if (real == -1.0 && PyErr_Occurred())
            return 0;
        single = (float)real;
        if (format == 'f' && isinf(single) && !isinf(real))
            return 0;
        memcpy(into, format == 'd' ? (void *)&real : (void *)&single, format == 'd' ? 8 : 4);
        return 1;
    case '?':
        *into = (unsigned char)(value == Py_True);
        return value == Py_True || value == Py_False;
    default:
        whole = PyLong_AsLongLong(value);
        if (whole == -1 && PyErr_Occurred())
            return 0;
        word = (int32_t)whole;
        if (format == 'i' && word != whole)
            return 0;
        memcpy(into, format == 'q' ? (void *)&whole : (void *)&word, format == 'q' ? 8 : 4);
        return 1;
    }
}

static int fill(
    Recipe *recipe, const int64_t *numbers, PyObject *given, const int *places, const uint64_t *addresses,
    unsigned char *bytes, void **parameters)
{
    for (int l = 0; l < recipe->launch_count; l++) {
        const Launch *launch = &recipe->launches[l];
        for (int k = 0; k < launch->argument_count; k++) {
            const Argument *argument = &launch->arguments[k];
            unsigned char *into = bytes + argument->offset;
            *parameters++ = into;
            if (argument->scalar) {
                if (!pack(argument->format, PyTuple_GetItem(given, places[argument->of]), into))
                    return 0;
            } else if (argument->format == 'P')
                memcpy(into, &addresses[argument->of], 8);
            else if (argument->format == 'T') {
                Map *map = &recipe->maps[argument->of];
                if (!encode(recipe, map, addresses[map->memory], into))
                    return 0;
            } else
                memcpy(into, &numbers[argument->of], 8);
        }
    }
    return 1;
}

/* The launch's kernel, loaded, and told of the stream; a new reference, and its handles. Both are
 * read before the stream is noted: that runs Python, which may let another thread load it anew. */
static PyObject *kernel_of(
    Host *host, Launch *launch, void *stream, void **function, void **context)
{
    PyObject *kernel = launch->kernel ? PyWeakref_GetObject(launch->kernel) : Py_None;
    Py_INCREF(kernel);
    if (kernel == Py_None) {
        Py_DECREF(kernel);
        PyObject *found = PyObject_CallNoArgs(launch->ready), *weak;
        unsigned long long function, context;
        if (!found || !PyArg_ParseTuple(found, "OKK", &kernel, &function, &context)
            || !(weak = PyWeakref_NewRef(kernel, NULL))) {
            Py_XDECREF(found);
            return NULL;
        }
        Py_INCREF(kernel);
        Py_DECREF(found);
        Py_XDECREF(launch->kernel);
        launch->kernel = weak;
        launch->function = (void *)function;
        launch->context = (void *)context;
        launch->is_noted = 0;
    }
    *function = launch->function;
    *context = launch->context;
    if (!launch->is_noted || launch->noted != stream) {
        PyObject *handle = PyLong_FromUnsignedLongLong((unsigned long long)stream);
        PyObject *answer
            = handle ? PyObject_CallMethodObjArgs(kernel, host->note, handle, NULL) : NULL;
        Py_XDECREF(handle);
        if (!answer) {
            Py_DECREF(kernel);
            return NULL;
        }
        Py_DECREF(answer);
        launch->noted = stream;
        launch->is_noted = 1;
    }
    return kernel;
}

/* 0 where all were launched. Runs without the interpreter's lock. */
static int start(
    const Recipe *recipe, const int64_t *numbers, void *const *functions, void *stream,
    void **parameters)
{
    int status = 0;
    for (int l = 0; l < recipe->launch_count && !status; l++) {
        const Launch *launch = &recipe->launches[l];
        const int64_t *form = numbers + launch->number;
        CUlaunchAttribute asked = {.id = (unsigned)launch->kind, .value.on = 1};
        CUlaunchConfig config = {
            .grid = {(unsigned)form[0], (unsigned)form[1], (unsigned)form[2]},
            .block = {(unsigned)form[3], (unsigned)form[4], (unsigned)form[5]},
            .shared_bytes = (unsigned)form[6],
            .stream = stream,
            .attributes = launch->kind ? &asked : NULL,
            .attribute_count = launch->kind != 0,
        };
        status = recipe->host->driver.cuLaunchKernelEx(&config, functions[l], parameters, NULL);
        parameters += launch->argument_count;
    }
    return status;
}

/* 1 where arguments were filled, and all launched: both in the context that is current. */
static int fill_and_start(
    Recipe *recipe, const int64_t *numbers, PyObject *given, const int *places,
    const uint64_t *addresses, unsigned char *bytes, void **parameters, void *const *functions,
    void *stream)
{
    if (!fill(recipe, numbers, given, places, addresses, bytes, parameters))
        return 0;
    PyThreadState *state = PyEval_SaveThread();
    int status = start(recipe, numbers, functions, stream, parameters);
    PyEval_RestoreThread(state);
    return !status;
}

static PyObject *results_of(Recipe *recipe, PyObject **made, int as)
{
    int count = recipe->result_count;
    PyObject *results = as == AS_ONE ? made[recipe->results[0]]
        : as == AS_LIST              ? PyList_New(count)
                                     : PyTuple_New(count);
    if (as == AS_ONE) {
        Py_INCREF(results);
        return results;
    }
    for (int k = 0; results && k < count; k++) {
        PyObject *result = made[recipe->results[k]];
        Py_INCREF(result);
        if (as == AS_LIST)
            PyList_SetItem(results, k, result);
        else
            PyTuple_SetItem(results, k, result);
    }
    return results;
}

PyObject *run(
    Recipe *recipe, PyObject *given, const int *places, const DLTensor *tensors, int64_t size,
    PyObject *const *forms, int as)
{
    Host *host = recipe->host;
    const Driver *driver = &host->driver;
    const int memory_count = recipe->memory_count, launch_count = recipe->launch_count;
    void *stream = NULL, *current = NULL;
    if (host->tensors->current_work_stream(kDLCUDA, recipe->device, &stream))
        return NULL;
    int capture = 0;
    if (stream && (driver->cuStreamIsCapturing(stream, &capture) || capture))
        return NULL;
    if (driver->cuCtxGetCurrent(&current))
        return NULL;

    const int64_t *numbers = recipe->numbers;
    int64_t sized[recipe->program ? recipe->number_count + 1 : 1];
    if (recipe->program) {
        memcpy(sized, numbers, recipe->number_count * sizeof *sized);
        if (!numbers_of(recipe->program, recipe->program_length, size, sized))
            return NULL;
        numbers = sized;
    }

    uint64_t addresses[memory_count + 1];
    PyObject *made[memory_count + 1], *kernels[launch_count + 1];
    void *functions[launch_count + 1], *parameters[recipe->argument_total + 1];
    unsigned char storage[recipe->argument_bytes + 64];
    unsigned char *bytes = storage + (-(uintptr_t)storage & 63);
    memset(made, 0, sizeof made);
    memset(kernels, 0, sizeof kernels);
    PyObject *results = NULL;
    void *context = NULL;
    for (int l = 0; l < launch_count; l++) {
        if (!(kernels[l]
              = kernel_of(host, &recipe->launches[l], stream, &functions[l], &context)))
            goto done;
    }
    int here = context && context == current;
    if (!find_memory(recipe, numbers, places, tensors, forms, stream, here, addresses, made)
        || (context && !here && driver->cuCtxPushCurrent(context)))
        goto done;
    int started = fill_and_start(
        recipe, numbers, given, places, addresses, bytes, parameters, functions, stream);
    if (context && !here)
        driver->cuCtxPopCurrent(&context);
    if (!started)
        goto done;
    for (int k = 0; k < recipe->alias_count; k++) {
        const int *alias = &recipe->aliases[2 * k];
        PyObject *into = PyTuple_GetItem(given, places[alias[1]]);
        PyObject *answer = PyObject_CallMethodObjArgs(into, host->copy_, made[alias[0]], NULL);
        if (!answer)
            goto done;
        Py_DECREF(answer);
    }
    results = results_of(recipe, made, as);
done:
    for (int k = 0; k < memory_count; k++)
        Py_XDECREF(made[k]);
    for (int l = 0; l < launch_count; l++)
        Py_XDECREF(kernels[l]);
    return results;
}
