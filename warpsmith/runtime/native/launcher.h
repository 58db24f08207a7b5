/* The values that the launcher works on.
 *
 * A Host says what torch and the driver offer. A Recipe is what one prepared call does: memory that
 * it asks for, and launches, in terms of numbers. A Table finds the recipe of a call's arguments. */
#ifndef WARPSMITH_LAUNCHER_H
#define WARPSMITH_LAUNCHER_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <structmember.h>
#include <stddef.h>
#include <string.h>

#include "abi.h"

enum {
    MAX_ARGUMENTS = 512, /* of a call; more go the long way */
    MAX_WORDS = 4096,    /* of a signature */
    MAX_RANK = 32,
    MAP_BYTES = 128,
    MAP_RANK = 5,
    MAPS_KEPT = 16,     /* encoded maps that a launch keeps of each of its tensors */
    KINDS = 64,         /* of tensors that are read without DLPack: types, of each device */
    SEEN_EVERY = 1024,  /* every so many-th call goes the long way, whose caches see that it is used */
};

/* Where torch keeps what: `Places` in `runtime/tensor_words.py`. */
typedef struct {
    int record, keys, gradient, storage, sizes, offset, kind, data, checked;
} Places;

/* Tensors that are read without DLPack, and what it says of each. */
typedef struct {
    uint64_t keys, kind;
    DLDataType dtype;
    DLDevice device;
} Kind;

typedef struct {
    PyObject_HEAD
    const DLPackExchangeAPI *tensors;
    Driver driver;
    PyObject *kinds;        /* a tuple: the exact types of tensors */
    PyObject *empty;        /* torch.empty_strided */
    PyObject *empty_here;   /* (shape, strides, dtype): on the current device; or NULL */
    PyObject *grad_enabled; /* torch.is_grad_enabled */
    PyObject *scope;        /* a context variable: the knobs of the innermost scope, or None */
    int (*value_of)(PyObject *variable, PyObject *usual, PyObject **value); /* PyContextVar_Get */
    PyObject *requires_grad, *is_neg, *copy_, *dtype, *device, *note; /* names */
    Places at;
    Kind known[KINDS];
    int kind_count;
} Host;

/* A word of the record that a tensor points to, where that is known. */
static inline uint64_t word_of(const Host *host, PyObject *tensor, int at)
{
    const char *record;
    uint64_t word;
    memcpy(&record, (const char *)tensor + host->at.record, sizeof record);
    memcpy(&word, record + at, sizeof word);
    return word;
}

/* Where a piece of memory comes from. */
typedef enum { GIVEN, MADE, PART, COUNTERS } Source;

typedef struct {
    Source source;
    int of;           /* GIVEN: which input; PART: of which memory; COUNTERS: which of its launch */
    int number;       /* PART: its offset in bytes; COUNTERS: how many; MADE: shape, then strides */
    int rank;         /* MADE */
    PyObject *dtype;  /* MADE */
    PyObject *form;   /* MADE: (shape, strides, dtype); NULL where a size decides it */
    PyObject *kept;   /* COUNTERS: the tensor of `stream`, of `room` elements or more */
    void *stream;
    int64_t room;
} Memory;

typedef struct {
    uint64_t address;
    uint64_t sizes[MAP_RANK], strides[MAP_RANK];
    unsigned char bytes[MAP_BYTES];
} Encoded;

/* A tensor map but for its address. */
typedef struct {
    int memory, rank, number; /* sizes, strides in bytes but for the first, bytes before memory */
    int type, swizzle, promotion;
    uint32_t box[MAP_RANK], steps[MAP_RANK];
    Encoded *known;
} Map;

typedef struct {
    char format;  /* P address of a memory, T map; else as in `struct`: d f q i ? */
    char scalar;  /* it is the input `of`, a number */
    int of;       /* memory, map, input or number */
    int offset;   /* in the bytes of all arguments */
} Argument;

typedef struct {
    PyObject *ready;     /* () -> (kernel, function, context): loads it where need be */
    PyObject *kernel;    /* a weak reference to the loaded one, or NULL */
    void *function, *context;
    void *noted;         /* the stream that the kernel was told of last */
    char is_noted;
    char kind;           /* id of the attribute that it is launched with; 0 for none */
    int number;          /* grid (x, y, z), block (x, y, z), shared bytes */
    int argument_count;
    Argument *arguments;
} Launch;

typedef struct {
    PyObject_HEAD
    PyObject *weak;
    Host *host;
    PyObject *where;    /* its device, as torch's */
    PyObject *counters; /* (place, elements, stream) -> a tensor of zeros */
    int device;
    unsigned calls;
    int number_count, memory_count, map_count, launch_count, result_count, alias_count;
    int input_count, argument_bytes, argument_total;
    int64_t *numbers;
    int64_t *program;   /* makes those that follow from a size; NULL where none do */
    int64_t low, high;  /* sizes that the program is for */
    int program_length;
    Memory *memories;
    Map *maps;
    Launch *launches;
    int *results;      /* memories */
    int *aliases;      /* pairs of a memory and the input that it is written into */
} Recipe;

/* What a call's arguments are, as far as recipes depend on it. */
typedef struct {
    int count, word_count;
    uint64_t hash;
    int64_t words[MAX_WORDS];
    char is_extent[MAX_WORDS]; /* the word is a size or a stride */
    char is_tensor[MAX_ARGUMENTS], is_static[MAX_ARGUMENTS];
    DLTensor tensors[MAX_ARGUMENTS];
} Signature;

int look(Host *host, PyObject *tensor, DLTensor *told);
int signature_of(Host *host, PyObject *arguments, Signature *found);

int is_program(const int64_t *program, int length, int number_count);
int numbers_of(const int64_t *program, int length, int64_t size, int64_t *numbers);
PyObject *form_of(const int64_t *numbers, int rank, PyObject *dtype);

/* How results are handed over. */
enum { AS_TUPLE, AS_ONE, AS_LIST };

/* The results of a call; NULL where the long way has to go. `size` is what the program is asked for,
 * `forms` is of each memory what it is made as in place of its own form, NULL for that, or NULL. */
PyObject *run(
    Recipe *recipe, PyObject *arguments, const int *places, const DLTensor *tensors, int64_t size,
    PyObject *const *forms, int as);

/* What a table makes of a sequence of arguments: the results, or NotImplemented. With results, a
 * new reference to the note of their entry, or NULL, where one is asked for. */
PyObject *launch_by_table(PyObject *table, PyObject *sequence);
PyObject *launch_noted(PyObject *table, PyObject *sequence, PyObject **note);

PyObject *called(PyObject *module, PyObject *base);
PyObject *recording(PyObject *module, PyObject *way);
PyObject *applying(PyObject *module, PyObject *type);

extern PyType_Spec host_spec, recipe_spec, table_spec;
extern PyTypeObject *host_type, *recipe_type;

#endif
