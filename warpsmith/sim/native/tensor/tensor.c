/* Tensor maps as values: their 128 bytes in memory and tensormap.replace. */
#include "tensor/tensor.h"

#include <string.h>

/* How the bytes lie. Fields are little endian and independent, so a copy of the bytes is a copy of
   the map and one field can change alone. The rank is stored minus one, as PTX numbers it. */
enum {
    AT_MAGIC = 0,
    AT_ADDRESS = 8,
    AT_DIM = 16,
    AT_STRIDE = 56,
    AT_BOX = 88,
    AT_ELEMENT_STRIDE = 108,
    AT_KIND = 118, /* rank - 1, type, interleave, swizzle, fill */
    AT_END = 123
};
static const u8 MAGIC[8] = {'w', 's', 't', 'e', 'n', 's', 'o', 'r'};

static void put(u8 *to, u64 value, int count) {
    for (int i = 0; i < count; i++) to[i] = (u8)(value >> 8 * i);
}

static u64 get(const u8 *from, int count) {
    u64 value = 0;
    for (int i = 0; i < count; i++) value |= (u64)from[i] << 8 * i;
    return value;
}

/* Element strides have two bytes; a larger one is illegal anyhow and stays so. */
static u32 at_most_16_bits(u32 value) { return value < 0xffff ? value : 0xffff; }

void tensor_map_encode(const tensor_map *map, u8 bytes[TENSOR_MAP_BYTES]) {
    memset(bytes, 0, TENSOR_MAP_BYTES);
    memcpy(bytes + AT_MAGIC, MAGIC, sizeof MAGIC);
    put(bytes + AT_ADDRESS, map->address, 8);
    for (int i = 0; i < MAX_RANK; i++) {
        put(bytes + AT_DIM + 8 * i, map->dim[i], 8);
        put(bytes + AT_BOX + 4 * i, map->box[i], 4);
        put(bytes + AT_ELEMENT_STRIDE + 2 * i, at_most_16_bits(map->element_stride[i]), 2);
    }
    for (int i = 0; i < MAX_RANK - 1; i++) put(bytes + AT_STRIDE + 8 * i, map->stride[i], 8);
    const u8 kind[] = {(u8)(map->rank - 1), map->type, map->interleave, map->swizzle, map->fill};
    memcpy(bytes + AT_KIND, kind, sizeof kind);
}

static bool all_zero(const u8 *bytes, int count) {
    for (int i = 0; i < count; i++)
        if (bytes[i]) return false;
    return true;
}

bool tensor_map_decode(const u8 bytes[TENSOR_MAP_BYTES], tensor_map *map) {
    memset(map, 0, sizeof *map);
    if (all_zero(bytes, TENSOR_MAP_BYTES)) { /* where a kernel starts to build a map */
        map->rank = 1;
        return true;
    }
    if (memcmp(bytes + AT_MAGIC, MAGIC, sizeof MAGIC) != 0) return false;
    if (!all_zero(bytes + AT_END, TENSOR_MAP_BYTES - AT_END)) return false;
    map->address = get(bytes + AT_ADDRESS, 8);
    for (int i = 0; i < MAX_RANK; i++) {
        map->dim[i] = get(bytes + AT_DIM + 8 * i, 8);
        map->box[i] = (u32)get(bytes + AT_BOX + 4 * i, 4);
        map->element_stride[i] = (u32)get(bytes + AT_ELEMENT_STRIDE + 2 * i, 2);
    }
    for (int i = 0; i < MAX_RANK - 1; i++) map->stride[i] = get(bytes + AT_STRIDE + 8 * i, 8);
    map->rank = (u8)(bytes[AT_KIND] + 1);
    map->type = bytes[AT_KIND + 1];
    map->interleave = bytes[AT_KIND + 2];
    map->swizzle = bytes[AT_KIND + 3];
    map->fill = bytes[AT_KIND + 4];
    return true;
}

/* Types in the order of PTX's table for tensormap.replace.elemtype; the driver's enumeration has
   f64 and bf16 before f32.ftz. */
static const u8 PTX_TYPES[] = {
    TENSOR_U8,  TENSOR_U16, TENSOR_U32,     TENSOR_S32, TENSOR_U64,  TENSOR_S64,  TENSOR_F16,
    TENSOR_F32, TENSOR_F32_FTZ, TENSOR_F64, TENSOR_BF16, TENSOR_TF32, TENSOR_TF32_FTZ};

bool tensor_map_replace(tensor_map *map, int field, u32 ordinal, u64 value) {
    switch (field) {
    case MODE_GLOBAL_ADDRESS: map->address = value; return true;
    case MODE_RANK:
        if (value >= MAX_RANK) return false;
        map->rank = (u8)(value + 1);
        return true;
    case MODE_BOX_DIM:
        if (ordinal >= MAX_RANK) return false;
        map->box[ordinal] = (u32)value;
        return true;
    case MODE_GLOBAL_DIM:
        if (ordinal >= MAX_RANK) return false;
        map->dim[ordinal] = (u32)value ? (u32)value : 1ull << 32;
        return true;
    case MODE_GLOBAL_STRIDE:
        if (ordinal >= MAX_RANK - 1) return false;
        map->stride[ordinal] = value;
        return true;
    case MODE_ELEMENT_STRIDE:
        if (ordinal >= MAX_RANK) return false;
        map->element_stride[ordinal] = (u32)value;
        return true;
    case MODE_ELEMTYPE:
        if (value >= sizeof PTX_TYPES) return false;
        map->type = PTX_TYPES[value];
        return true;
    case MODE_INTERLEAVE:
        if (value > INTERLEAVE_32B) return false;
        map->interleave = (u8)value;
        return true;
    case MODE_SWIZZLE:
        if (value > SWIZZLE_128B) return false;
        map->swizzle = (u8)value;
        return true;
    case MODE_FILL:
        if (value > FILL_NAN) return false;
        map->fill = (u8)value;
        return true;
    default: return false;
    }
}
