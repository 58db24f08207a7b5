/* What cuTensorMapEncodeTiled and the copies refuse, said so that the reader can mend it. */
#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdio.h>

enum { LAST_TYPE = TENSOR_TF32_FTZ, MAX_BOX = 256, MAX_ELEMENT_STRIDE = 8 };
enum { MAX_BOX_BYTES = 228 * 1024, CHUNK = 16, SHARED_ALIGNMENT = 128 };
static const u64 MAX_DIM = 1ull << 32, STRIDE_END = 1ull << 40;

/* Where the first sentence is written. */
typedef struct {
    char *text;
    size_t size;
    bool found;
} complaint;

__attribute__((format(printf, 2, 3))) static bool complain(complaint *to, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(to->text, to->size, format, values);
    va_end(values);
    to->found = true;
    return true;
}

static bool is_float(int type) { return type >= TENSOR_F16 && type <= LAST_TYPE; }

static bool bad_kind(const tensor_map *map, complaint *to) {
    if (map->rank < 1 || map->rank > MAX_RANK)
        return complain(to, "rank is %u; a tensor map has 1 to 5 dimensions", map->rank);
    if (map->type > LAST_TYPE)
        return complain(to, "type %u is no CUtensorMapDataType; they are 0 to %d", map->type,
                        LAST_TYPE);
    if (map->interleave > INTERLEAVE_32B)
        return complain(to, "interleave %u is unknown; use 0 (none), 1 (16B) or 2 (32B)",
                        map->interleave);
    if (map->swizzle > SWIZZLE_128B)
        return complain(to, "swizzle %u is unknown; use 0 (none), 1 (32B), 2 (64B) or 3 (128B)",
                        map->swizzle);
    if (map->fill > FILL_NAN)
        return complain(to, "fill %u is unknown; use 0 (zero) or 1 (NaN)", map->fill);
    if (map->interleave != INTERLEAVE_NONE && map->rank < 3)
        return complain(to, "rank is %u; an interleaved tensor map has at least 3 dimensions",
                        map->rank);
    /* as documented; the driver for the H200 takes others, too */
    if (map->interleave == INTERLEAVE_32B && map->swizzle != SWIZZLE_32B)
        return complain(to, "swizzle is %u; interleave 32B demands swizzle 32B", map->swizzle);
    if (map->fill == FILL_NAN && !is_float(map->type))
        return complain(to, "fill is NaN, but type %u is an integer type; fill with zero",
                        map->type);
    return false;
}

static bool bad_tensor(const tensor_map *map, complaint *to) {
    const u32 grain = map->interleave == INTERLEAVE_32B ? 32 : 16;
    if (map->address % grain)
        return complain(to, "global address 0x%llx is not a multiple of %u",
                        (unsigned long long)map->address, grain);
    for (int i = 0; i < map->rank; i++)
        if (map->dim[i] < 1 || map->dim[i] > MAX_DIM)
            return complain(to, "global_dim[%d] is %llu; a dimension has 1 to 2^32 elements", i,
                            (unsigned long long)map->dim[i]);
    for (int i = 0; i + 1 < map->rank; i++) {
        const unsigned long long stride = map->stride[i];
        if (stride % grain)
            return complain(to, "global_stride[%d] is %llu bytes, not a multiple of %u", i, stride,
                            grain);
        if (stride >= STRIDE_END)
            return complain(to, "global_stride[%d] is %llu bytes; strides are less than 2^40", i,
                            stride);
    }
    return false;
}

static bool bad_box(const tensor_map *map, complaint *to) {
    for (int i = 0; i < map->rank; i++)
        if (map->box[i] < 1 || map->box[i] > MAX_BOX)
            return complain(to, "box_dim[%d] is %u; a box has 1 to 256 elements along a dimension",
                            i, map->box[i]);
    for (int i = 0; i < map->rank; i++)
        if (map->element_stride[i] < 1 || map->element_stride[i] > MAX_ELEMENT_STRIDE)
            return complain(to, "element_stride[%d] is %u; element strides are 1 to 8", i,
                            map->element_stride[i]);
    const u32 inner = map->box[0] * tensor_element_bytes(map->type);
    if (inner % CHUNK)
        return complain(to, "box_dim[0] is %u elements or %u bytes, not a multiple of 16 bytes",
                        map->box[0], inner);
    const u32 span = 16u << map->swizzle;
    const bool plain = map->interleave == INTERLEAVE_NONE;
    if (plain && map->swizzle != SWIZZLE_NONE && inner > span)
        return complain(to, "box_dim[0] is %u elements or %u bytes; swizzle %uB allows %u bytes",
                        map->box[0], inner, span, span);
    if (tensor_box_bytes(map) > MAX_BOX_BYTES)
        return complain(to, "the box has %u bytes; shared memory has room for %d",
                        tensor_box_bytes(map), MAX_BOX_BYTES);
    return false;
}

const char *tensor_map_error(const tensor_map *map, char *text, size_t size) {
    complaint to = {text, size, false};
    (void)(bad_kind(map, &to) || bad_tensor(map, &to) || bad_box(map, &to));
    return to.found ? text : NULL;
}

const char *tensor_copy_error(const tensor_map *map, const i32 *coordinates, u32 shared, bool store,
                              char *text, size_t size) {
    complaint to = {text, size, false};
    const i64 inner = (i64)coordinates[0] * tensor_element_bytes(map->type);
    if (shared % SHARED_ALIGNMENT)
        complain(&to, "shared address 0x%x is not a multiple of %d", shared, SHARED_ALIGNMENT);
    else if (inner % CHUNK)
        complain(&to, "coordinate 0 is %d elements or %lld bytes, not a multiple of %d bytes",
                 coordinates[0], (long long)inner, CHUNK);
    for (int i = 0; store && !to.found && i < map->rank; i++)
        if (coordinates[i] < 0)
            complain(&to, "coordinate %d of a store is %d; stores take no negative ones", i,
                     coordinates[i]);
    return to.found ? text : NULL;
}
