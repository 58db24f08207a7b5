/* What a call's arguments are, as words: equal words and equal statics mean the same recipe. */
#include "launcher.h"

static int is_tensor(const Host *host, PyObject *type)
{
    Py_ssize_t count = PyTuple_Size(host->kinds);
    for (Py_ssize_t k = 0; k < count; k++)
        if (PyTuple_GetItem(host->kinds, k) == type)
            return 1;
    return 0;
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* 1 where the arguments may have a recipe, else 0, without an error. */
int signature_of(Host *host, PyObject *arguments, Signature *found)
{
    Py_ssize_t count = PyTuple_Size(arguments);
    if (count > MAX_ARGUMENTS)
        return 0;
    found->count = (int)count;
    int64_t *words = found->words;
    int used = 0;
    for (int k = 0; k < count; k++) {
        PyObject *value = PyTuple_GetItem(arguments, k);
        PyTypeObject *type = Py_TYPE(value);
        found->is_tensor[k] = found->is_static[k] = 0;
        if (is_tensor(host, (PyObject *)type)) {
            DLTensor *tensor = &found->tensors[k];
            if (!look(host, value, tensor))
                return 0;
            int rank = tensor->ndim;
            if (rank > MAX_RANK || used + 3 + 2 * rank > MAX_WORDS || (rank && !tensor->strides))
                return 0;
            found->is_tensor[k] = 1;
            uint64_t address = (uint64_t)tensor->data + tensor->byte_offset;
            const DLDataType *type = &tensor->dtype;
            words[used++] = 5 | (int64_t)rank << 8 | (int64_t)(address & 15) << 16
                | (int64_t)type->code << 24 | (int64_t)type->bits << 32
                | (int64_t)type->lanes << 40;
            words[used++] = (int64_t)tensor->device.device_type << 32
                | (uint32_t)tensor->device.device_id;
            words[used++]
                = host->at.record ? (int64_t)word_of(host, value, host->at.keys) : 0;
            memset(found->is_extent + used - 3, 0, 3);
            memset(found->is_extent + used, 1, 2 * rank);
            memcpy(words + used, tensor->shape, rank * sizeof(int64_t));
            memcpy(words + used + rank, tensor->strides, rank * sizeof(int64_t));
            used += 2 * rank;
            continue;
        }
        if (used + 2 > MAX_WORDS)
            return 0;
        memset(found->is_extent + used, 0, 2);
        if (type == &PyFloat_Type)
            words[used++] = 1;
        else if (type == &PyLong_Type)
            words[used++] = 2;
        else if (type == &PyBool_Type)
            words[used++] = 3;
        else {
            Py_hash_t hash = PyObject_Hash(value);
            if (hash == -1 && PyErr_Occurred()) {
                PyErr_Clear();
                return 0;
            }
            found->is_static[k] = 1;
            words[used++] = 4;
            words[used++] = hash;
        }
    }
    uint64_t hash = (uint64_t)count;
    for (int k = 0; k < used; k++)
        hash = mixed(hash, (uint64_t)words[k]);
    found->hash = hash;
    found->word_count = used;
    return 1;
}
