/* What DLPack would say of a tensor, read where torch keeps it (`runtime/tensor_words.py`).
 *
 * Tensors of a kind (equal dispatch keys, type and device) are read so once DLPack has said the same
 * of one of them; all others are asked each time. */
#include "launcher.h"

enum { INLINE = 5 }; /* dimensions whose sizes and strides a record holds itself */

typedef struct {
    DLTensor told;     /* but for the type and the device */
    uint64_t keys, kind, offset;
    char is_plain;     /* memory is there, and nothing is to be done before it is touched */
} Record;

static const char *pointer_at(const char *from, int at)
{
    const char *found;
    memcpy(&found, from + at, sizeof found);
    return found;
}

static uint64_t word_at(const char *from, int at)
{
    uint64_t word;
    memcpy(&word, from + at, sizeof word);
    return word;
}

/* 1 where a record holds all; empty tensors are DLPack's, too, which gives them no address. */
static int read_record(const Places *at, PyObject *tensor, Record *found)
{
    const char *record = pointer_at((const char *)tensor, at->record);
    const char *storage = pointer_at(record, at->storage);
    uint64_t rank = word_at(record, at->sizes);
    if (rank > INLINE || !storage || storage[at->checked])
        return 0;
    found->told.ndim = (int)rank;
    found->told.shape = (int64_t *)(record + at->sizes) + 1;
    found->told.strides = found->told.shape + INLINE;
    found->told.data = (void *)pointer_at(storage, at->data);
    found->keys = word_at(record, at->keys);
    found->kind = word_at(record, at->kind) & (((uint64_t)1 << 40) - 1);
    found->offset = word_at(record, at->offset);
    for (int d = 0; d < found->told.ndim; d++)
        if (found->told.shape[d] < 1)
            return 0;
    return found->told.data != NULL;
}

static uint64_t bytes_before(const Record *record, DLDataType type)
{
    return record->offset * (type.bits * type.lanes / 8);
}

/* Read tensors of such a kind from here on, where DLPack and the record agree. */
static void learn(Host *host, const Record *record, const DLTensor *told)
{
    const DLTensor *read = &record->told;
    size_t bytes = read->ndim * sizeof(int64_t);
    uint64_t address = (uint64_t)read->data + bytes_before(record, told->dtype);
    if (host->kind_count == KINDS || told->dtype.bits * told->dtype.lanes % 8
        || told->ndim != read->ndim || address != (uint64_t)told->data + told->byte_offset
        || (bytes && memcmp(told->shape, read->shape, bytes))
        || (bytes && (!told->strides || memcmp(told->strides, read->strides, bytes))))
        return;
    host->known[host->kind_count++]
        = (Kind){record->keys, record->kind, told->dtype, told->device};
}

static int is_empty(const DLTensor *tensor)
{
    for (int d = 0; d < tensor->ndim; d++)
        if (!tensor->shape[d])
            return 1;
    return 0;
}

/* What DLPack says of a tensor of one of the host's types: 1, or 0 with no error, as where its
 * memory was given back. */
int look(Host *host, PyObject *tensor, DLTensor *told)
{
    Record record;
    int is_read = host->at.storage && read_record(&host->at, tensor, &record);
    for (int k = 0; is_read && k < host->kind_count; k++) {
        const Kind *kind = &host->known[k];
        if (kind->kind == record.kind && kind->keys == record.keys) {
            *told = record.told;
            told->dtype = kind->dtype;
            told->device = kind->device;
            told->byte_offset = bytes_before(&record, kind->dtype);
            return 1;
        }
    }
    if (host->tensors->dltensor_from_py_object_no_sync(tensor, told)) {
        PyErr_Clear();
        return 0;
    }
    if (is_read)
        learn(host, &record, told);
    return told->data || is_empty(told);
}
