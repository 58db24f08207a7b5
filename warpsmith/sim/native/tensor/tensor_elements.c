/* The elements of tensor maps: their sizes, and what a load makes of them. */
#include "tensor/tensor.h"

#include <string.h>

u32 tensor_element_bytes(int type) {
    switch (type) {
    case TENSOR_U8: return 1;
    case TENSOR_U16:
    case TENSOR_F16:
    case TENSOR_BF16: return 2;
    case TENSOR_U32:
    case TENSOR_S32:
    case TENSOR_F32:
    case TENSOR_F32_FTZ:
    case TENSOR_TF32:
    case TENSOR_TF32_FTZ: return 4;
    case TENSOR_U64:
    case TENSOR_S64:
    case TENSOR_F64: return 8;
    default: return 0;
    }
}

/* As recorded on an H200: every float type is filled with this half again and again. */
enum { NAN_FILL = 0x7ff7 };

void tensor_fill(const tensor_map *map, u8 *to, u32 count) {
    for (u32 i = 0; i < count; i++)
        to[i] = map->fill == FILL_NAN ? (u8)(NAN_FILL >> i % 2 * 8) : 0;
}

/* The H200 rounds to the nearest tf32. Ties go away from zero here, which is not recorded. */
static u32 round_to_tf32(u32 bits) {
    const u32 exponent = 0x7f800000, dropped = 0x1fff;
    if ((bits & ~(1u << 31)) > exponent) return 0x7fffffff & ~dropped;
    return (bits + (dropped + 1) / 2) & ~dropped;
}

static u32 flush(u32 bits) { return bits & 0x7f800000 ? bits : bits & 1u << 31; }

void tensor_convert(const tensor_map *map, u8 *bytes, u32 count) {
    const bool flushes = map->type == TENSOR_F32_FTZ || map->type == TENSOR_TF32_FTZ;
    const bool rounds = map->type == TENSOR_TF32 || map->type == TENSOR_TF32_FTZ;
    if (!flushes && !rounds) return;
    for (u32 i = 0; i + 4 <= count; i += 4) {
        u32 value;
        memcpy(&value, bytes + i, sizeof value);
        if (flushes) value = flush(value);
        if (rounds) value = round_to_tf32(value);
        memcpy(bytes + i, &value, sizeof value);
    }
}
