/* The recipes of one function, by the signature of its arguments.
 *
 * A table holds its recipes weakly: who made them decides how many are kept. */
#include <stdlib.h>

#include "launcher.h"

typedef struct {
    int references;
    uint64_t hash;
    int count, word_count, place_count, as;
    int64_t *words;
    int *places;        /* of the recipe's inputs among the arguments */
    PyObject *statics;  /* a tuple: the arguments that count by value */
    PyObject *recipe;   /* a weak reference */
    PyObject *note;     /* what is told with the results, or NULL */
    PyObject **forms;   /* of each memory that is made in another shape, else NULL; NULL for none */
    int form_count;
    int64_t *factors;   /* of a line: what words are of its size, 0 for those that are constant */
    int first;          /* of a line: the first word that is no constant, its size */
    int64_t low, high;  /* of a line: its sizes */
} Entry;

enum { LINES = 8 };

typedef struct {
    PyObject_HEAD
    Host *host;
    Entry **slots;
    size_t room, used;  /* room is a power of two, or 0 */
    Entry *lines[LINES];
    int next_line;
} Table;

static void let_go(Entry *entry)
{
    if (--entry->references)
        return;
    Py_XDECREF(entry->statics);
    Py_XDECREF(entry->recipe);
    Py_XDECREF(entry->note);
    for (int k = 0; k < entry->form_count; k++)
        Py_XDECREF(entry->forms[k]);
    free(entry->forms);
    free(entry->words);
    free(entry->factors);
    free(entry->places);
    free(entry);
}

static int is_dead(const Entry *entry)
{
    return PyWeakref_GetObject(entry->recipe) == Py_None;
}

/* Whether two values of equal hash mean the same program: 1, 1.0 and True do not, in tuples too. */
static int same_static(PyObject *a, PyObject *b)
{
    if (a == b)
        return 1;
    if (Py_TYPE(a) != Py_TYPE(b))
        return 0;
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    if (equal < 0)
        PyErr_Clear();
    if (equal <= 0)
        return 0;
    if (PyTuple_Check(a)) {
        Py_ssize_t count = PyTuple_Size(a);
        for (Py_ssize_t k = 0; k < count; k++)
            if (Py_TYPE(PyTuple_GetItem(a, k)) != Py_TYPE(PyTuple_GetItem(b, k)))
                return 0;
    }
    return 1;
}

static int same_statics(const Entry *entry, PyObject *arguments, const Signature *given)
{
    for (int k = 0; k < given->count; k++)
        if (given->is_static[k]
            && !same_static(PyTuple_GetItem(entry->statics, k), PyTuple_GetItem(arguments, k)))
            return 0;
    return 1;
}

static int same_words(const Entry *entry, const Signature *given)
{
    return entry->hash == given->hash && entry->count == given->count
        && entry->word_count == given->word_count
        && !memcmp(entry->words, given->words, given->word_count * sizeof(int64_t));
}

/* The entry of a signature, with a reference of the caller's own; NULL where there is none.
 * Statics are compared by Python code, which may change the table: no slot is relied on after. */
static Entry *find(Table *table, PyObject *arguments, const Signature *given)
{
    for (size_t step = 0; step < table->room; step++) {
        Entry *entry = table->slots[(given->hash + step) & (table->room - 1)];
        if (!entry)
            return NULL;
        if (!same_words(entry, given))
            continue;
        entry->references++;
        if (same_statics(entry, arguments, given) && !is_dead(entry))
            return entry;
        let_go(entry);
    }
    return NULL;
}

/* Whether a signature lies on a line: its words are what the line's size makes of them. */
static int is_on(const Entry *line, const Signature *given)
{
    if (line->count != given->count || line->word_count != given->word_count)
        return 0;
    int64_t size = given->words[line->first];
    if (size < line->low || size > line->high)
        return 0;
    for (int k = 0; k < given->word_count; k++)
        if (given->words[k] != (line->factors[k] ? line->factors[k] * size : line->words[k]))
            return 0;
    return 1;
}

static Entry *find_line(Table *table, PyObject *arguments, const Signature *given)
{
    for (int k = 0; k < LINES; k++) {
        Entry *line = table->lines[k];
        if (!line || !is_on(line, given))
            continue;
        line->references++;
        if (same_statics(line, arguments, given) && !is_dead(line))
            return line;
        let_go(line);
    }
    return NULL;
}

static void put(Entry **slots, size_t room, Entry *entry)
{
    size_t place = entry->hash & (room - 1);
    while (slots[place])
        place = (place + 1) & (room - 1);
    slots[place] = entry;
}

/* Room for one more: what lost its recipe goes, and the rest fills half of it at most. */
static int make_room(Table *table)
{
    if (2 * (table->used + 1) <= table->room)
        return 1;
    size_t alive = 0, room = 16;
    for (size_t k = 0; k < table->room; k++)
        alive += table->slots[k] && !is_dead(table->slots[k]);
    while (room < 4 * (alive + 1))
        room *= 2;
    Entry **slots = calloc(room, sizeof *slots), **old = table->slots;
    if (!slots)
        return 0;
    size_t before = table->room;
    table->slots = slots;
    table->room = room;
    table->used = alive;
    for (size_t k = 0; k < before; k++)
        if (old[k] && !is_dead(old[k])) {
            put(slots, room, old[k]);
            old[k] = NULL;
        }
    for (size_t k = 0; k < before; k++)
        if (old[k])
            let_go(old[k]);
    free(old);
    return 1;
}

static Entry *entry_of(const Signature *given, PyObject *arguments, PyObject *places)
{
    Entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->references = 1;
    entry->hash = given->hash;
    entry->count = given->count;
    entry->word_count = given->word_count;
    entry->place_count = (int)PyTuple_Size(places);
    entry->words = malloc((given->word_count + 1) * sizeof(int64_t));
    entry->places = malloc((entry->place_count + 1) * sizeof(int));
    entry->statics = PyTuple_New(given->count);
    if (!entry->words || !entry->places || !entry->statics) {
        let_go(entry);
        return NULL;
    }
    memcpy(entry->words, given->words, given->word_count * sizeof(int64_t));
    for (int k = 0; k < entry->place_count; k++)
        entry->places[k] = (int)PyLong_AsLong(PyTuple_GetItem(places, k));
    for (int k = 0; k < given->count; k++) {
        PyObject *value = given->is_static[k] ? PyTuple_GetItem(arguments, k) : Py_None;
        Py_INCREF(value);
        PyTuple_SetItem(entry->statics, k, value);
    }
    return entry;
}

/* A line through two signatures, whose words differ by one factor each; 0 where there is none. */
static int draw(Entry *line, const Entry *one, const Signature *other)
{
    int count = one->word_count;
    if (count != other->word_count || !(line->factors = calloc(count + 1, sizeof(int64_t))))
        return 0;
    line->first = -1;
    for (int k = 0; k < count; k++) {
        int64_t a = one->words[k], b = other->words[k];
        if (a == b)
            continue;
        if (line->first < 0) {
            line->first = k;
            line->low = a;
            line->high = b;
        }
        if (!other->is_extent[k] || line->low < 2 || line->high < 2 || a < 0)
            return 0;
        line->factors[k] = a / line->low;
        if (a % line->low || line->factors[k] * line->high != b)
            return 0;
    }
    if (line->low > line->high) {
        int64_t high = line->low;
        line->low = line->high;
        line->high = high;
    }
    return line->first >= 0;
}

static Entry *entry_by(const Table *table, PyObject *recipe)
{
    for (size_t k = 0; k < table->room; k++)
        if (table->slots[k] && PyWeakref_GetObject(table->slots[k]->recipe) == recipe)
            return table->slots[k];
    return NULL;
}

/* Whether a tensor is negated on reading, which no pointer says. */
static int is_negated(const Host *host, PyObject *tensor)
{
    PyObject *negated = PyObject_CallMethodObjArgs(tensor, host->is_neg, NULL);
    Py_XDECREF(negated);
    return negated != Py_False;
}

/* The signature of arguments that a table may hold, 1; or 0. Where tensors' dispatch keys are words
 * of it, calls that have it bring none that is negated. */
static int signature_to_keep(Host *host, PyObject *arguments, Signature *found)
{
    if (!signature_of(host, arguments, found))
        return 0;
    for (int k = 0; k < found->count; k++)
        if (found->is_tensor[k] && is_negated(host, PyTuple_GetItem(arguments, k))) {
            PyErr_Clear();
            return 0;
        }
    return 1;
}

static PyObject *keep_line(Table *table, PyObject *given)
{
    PyObject *known, *arguments, *recipe;
    if (!PyArg_ParseTuple(
            given, "O!O!O!", recipe_type, &known, &PyTuple_Type, &arguments, recipe_type, &recipe))
        return NULL;
    Signature other;
    Entry *one = entry_by(table, known);
    if (!one || !signature_to_keep(table->host, arguments, &other))
        Py_RETURN_FALSE;
    PyObject *places = PyTuple_New(0);
    one->references++;
    Entry *line = places ? entry_of(&other, arguments, places) : NULL;
    Py_XDECREF(places);
    int *of_inputs = line ? malloc((one->place_count + 1) * sizeof(int)) : NULL;
    if (of_inputs) {
        memcpy(of_inputs, one->places, one->place_count * sizeof(int));
        free(line->places);
        line->places = of_inputs;
        line->place_count = one->place_count;
        line->as = one->as;
        line->recipe = PyWeakref_NewRef(recipe, NULL);
    }
    const Recipe *drawn = (Recipe *)recipe;
    int fits = of_inputs && line->recipe && drawn->program
        && drawn->input_count == one->place_count && one->count == other.count
        && draw(line, one, &other) && same_statics(one, arguments, &other)
        && drawn->low == line->low && drawn->high == line->high;
    let_go(one);
    if (fits) {
        Entry *before = table->lines[table->next_line];
        table->lines[table->next_line] = line;
        table->next_line = (table->next_line + 1) % LINES;
        line = before;
    }
    if (line)
        let_go(line);
    if (PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(fits);
}

/* Elements of a tensor without gaps, -1 of another one; its form is of sizes and strides. */
static int64_t dense_elements(const int64_t *sizes, const int64_t *strides, int rank)
{
    int64_t count = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (sizes[d] < 1 || (sizes[d] > 1 && strides[d] != count))
            return -1;
        if (__builtin_mul_overflow(count, sizes[d], &count))
            return -1;
    }
    return count;
}

/* The form of a memory in another shape without gaps; NULL, with an error or without, where it has
 * not as many elements. */
static PyObject *form_in(const Recipe *recipe, const Memory *memory, PyObject *shape)
{
    int64_t numbers[2 * MAX_RANK], count = 1;
    const int64_t *own = recipe->numbers + memory->number;
    Py_ssize_t rank = PyTuple_Check(shape) ? PyTuple_Size(shape) : MAX_RANK + 1;
    if (memory->source != MADE || rank > MAX_RANK)
        return NULL;
    for (Py_ssize_t d = rank - 1; d >= 0; d--) {
        numbers[d] = PyLong_AsLongLong(PyTuple_GetItem(shape, d));
        numbers[rank + d] = count;
        if (numbers[d] < 1 || __builtin_mul_overflow(count, numbers[d], &count))
            return NULL;
    }
    if (dense_elements(own, own + memory->rank, memory->rank) != count)
        return NULL;
    return form_of(numbers, (int)rank, memory->dtype);
}

/* Read the shapes of results, each a tuple or None; 0 where a recipe cannot make them. */
static int read_forms(Entry *entry, const Recipe *recipe, PyObject *shapes)
{
    if (recipe->program || PyTuple_Size(shapes) != recipe->result_count
        || !(entry->forms = calloc(recipe->memory_count + 1, sizeof *entry->forms)))
        return 0;
    entry->form_count = recipe->memory_count;
    for (int k = 0; k < recipe->result_count; k++) {
        PyObject *shape = PyTuple_GetItem(shapes, k), **form = &entry->forms[recipe->results[k]];
        if (shape == Py_None)
            continue;
        if (*form || !(*form = form_in(recipe, &recipe->memories[recipe->results[k]], shape)))
            return 0;
    }
    return 1;
}

static PyObject *keep(Table *table, PyObject *given)
{
    PyObject *arguments, *recipe, *places, *shapes = NULL, *note = NULL;
    int as;
    if (!PyArg_ParseTuple(
            given, "O!O!O!i|O!O!", &PyTuple_Type, &arguments, recipe_type, &recipe, &PyTuple_Type,
            &places, &as, &PyTuple_Type, &shapes, &PyTuple_Type, &note))
        return NULL;
    Signature found;
    if (!signature_to_keep(table->host, arguments, &found))
        Py_RETURN_FALSE;
    for (Py_ssize_t k = 0; k < PyTuple_Size(places); k++) {
        long place = PyLong_AsLong(PyTuple_GetItem(places, k));
        if (PyErr_Occurred())
            return NULL;
        if (place < 0 || place >= found.count) /* a default, which no argument brings */
            Py_RETURN_FALSE;
    }
    const Recipe *asked = (Recipe *)recipe;
    if (PyTuple_Size(places) != asked->input_count)
        return PyErr_Format(PyExc_ValueError, "a place for each input of the recipe is needed");
    for (int k = 0; k < asked->memory_count; k++)
        if (asked->memories[k].source == GIVEN
            && !found.is_tensor[PyLong_AsLong(PyTuple_GetItem(places, asked->memories[k].of))])
            Py_RETURN_FALSE; /* of a subclass, say, which no signature takes for one */
    if (as < AS_TUPLE || as > AS_LIST || (as == AS_ONE && asked->result_count != 1))
        return PyErr_Format(PyExc_ValueError, "results are no tuple, no list, and not one");
    Entry *known = find(table, arguments, &found);
    if (known) {
        let_go(known);
        Py_RETURN_TRUE;
    }
    Entry *entry = entry_of(&found, arguments, places);
    if (!entry)
        return PyErr_NoMemory();
    if (shapes && !read_forms(entry, asked, shapes)) {
        let_go(entry);
        if (PyErr_Occurred())
            return NULL;
        Py_RETURN_FALSE;
    }
    entry->as = as;
    Py_XINCREF(entry->note = note);
    entry->recipe = PyWeakref_NewRef(recipe, NULL);
    if (!entry->recipe || !make_room(table)) {
        let_go(entry);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    put(table->slots, table->room, entry);
    table->used++;
    Py_RETURN_TRUE;
}

/* Whether Python has to look at a tensor: it needs a gradient that it would not get, or it may be
 * negated on reading. `recording` is whether gradients are recorded, -1 where nobody asked yet. */
static int is_special(const Host *host, PyObject *tensor, int *recording)
{
    if (*recording && (!host->at.record || word_of(host, tensor, host->at.gradient))) {
        if (*recording < 0) {
            PyObject *enabled = PyObject_CallNoArgs(host->grad_enabled);
            Py_XDECREF(enabled);
            if (!enabled)
                return 1;
            *recording = enabled != Py_False;
        }
        if (*recording) {
            PyObject *needs = PyObject_GetAttr(tensor, host->requires_grad);
            Py_XDECREF(needs);
            if (needs != Py_False)
                return 1;
        }
    }
    return !host->at.record && is_negated(host, tensor);
}

/* Whether a scope of knobs is around the call, which plans may depend on. */
static int is_scoped(Host *host)
{
    PyObject *scope = NULL;
    int failed = host->value_of(host->scope, Py_None, &scope);
    Py_XDECREF(scope);
    return failed || scope != Py_None;
}

static PyObject *launch_by(Table *table, Entry *entry, PyObject *arguments, const Signature *given)
{
    PyObject *result = NULL;
    Recipe *recipe = (Recipe *)PyWeakref_GetObject(entry->recipe);
    Py_INCREF((PyObject *)recipe);
    int usual = (PyObject *)recipe != Py_None && (entry->factors || ++recipe->calls % SEEN_EVERY)
        && !is_scoped(table->host);
    int recording = -1;
    for (int k = 0; usual && k < given->count; k++)
        if (given->is_tensor[k])
            usual = !is_special(table->host, PyTuple_GetItem(arguments, k), &recording);
    if (usual)
        result = run(
            recipe, arguments, entry->places, given->tensors,
            entry->factors ? given->words[entry->first] : 0, entry->forms, entry->as);
    Py_DECREF((PyObject *)recipe);
    return result;
}

PyObject *launch_noted(PyObject *self, PyObject *sequence, PyObject **note)
{
    Table *table = (Table *)self;
    Signature given;
    PyObject *result = NULL;
    PyObject *arguments = table->room ? PySequence_Tuple(sequence) : NULL;
    if (arguments && signature_of(table->host, arguments, &given)) {
        Entry *entry = find(table, arguments, &given);
        if (!entry)
            entry = find_line(table, arguments, &given);
        if (entry) {
            result = launch_by(table, entry, arguments, &given);
            if (result && note)
                Py_XINCREF(*note = entry->note);
            let_go(entry);
        }
    }
    Py_XDECREF(arguments);
    if (result)
        return result;
    PyErr_Clear();
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
}

PyObject *launch_by_table(PyObject *self, PyObject *sequence)
{
    return launch_noted(self, sequence, NULL);
}

static PyObject *table_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    Host *host;
    if (!PyArg_ParseTuple(given, "O!", host_type, &host))
        return NULL;
    Table *table = (Table *)PyType_GenericAlloc(type, 0);
    if (!table)
        return NULL;
    Py_INCREF((PyObject *)host);
    table->host = host;
    return (PyObject *)table;
}

static void table_free(Table *table)
{
    PyTypeObject *type = Py_TYPE((PyObject *)table);
    for (size_t k = 0; k < table->room; k++)
        if (table->slots[k])
            let_go(table->slots[k]);
    free(table->slots);
    for (int k = 0; k < LINES; k++)
        if (table->lines[k])
            let_go(table->lines[k]);
    Py_XDECREF((PyObject *)table->host);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(table);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"keep", (PyCFunction)keep, METH_VARARGS,
     "keep(arguments, recipe, places, as, shapes=(), note=()): calls of such arguments follow the\n"
     "recipe.\n\n"
     "places say which argument each input of the recipe is; results come as a tuple (0), as the\n"
     "only one (1) or as a list (2), in its own shapes, or in those of a tuple that has one for each\n"
     "result, None for its own. False where such arguments or shapes are not for tables."},
    {"keep_line", (PyCFunction)keep_line, METH_VARARGS,
     "keep_line(known, arguments, recipe): all calls between the one of a known recipe and another\n"
     "one, which differ in one size and in whole multiples of it, follow a recipe. False where the\n"
     "two are not such."},
    {"launch", launch_by_table, METH_O,
     "launch(arguments): what the call returns, or NotImplemented where Python has to run it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, table_new},
    {Py_tp_dealloc, table_free},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Recipes of one function by the signature of its arguments, held weakly."},
    {0, NULL},
};

PyType_Spec table_spec = {
    "warpsmith.runtime._launcher.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, slots};
