/* The bytes that one box of a tensor map touches, in global and in shared memory. */
#include "tensor/tensor.h"

enum { CHUNK = 16 };

/* Elements that a copy moves along one dimension. A box covers `box` positions and a copy takes
   every `element_stride`th of them; along dimension 0 the hardware knows no such stride. */
static u32 step_of(const tensor_map *map, int dimension) {
    const u32 step = map->element_stride[dimension];
    return dimension == 0 || step == 0 ? 1 : step;
}

static u32 count_of(const tensor_map *map, int dimension) {
    const u32 step = step_of(map, dimension);
    return (map->box[dimension] + step - 1) / step;
}

u32 tensor_box_bytes(const tensor_map *map) {
    u32 bytes = tensor_element_bytes(map->type);
    for (int i = 0; i < map->rank; i++) bytes *= count_of(map, i);
    return bytes;
}

/* Swizzles exchange the 16-byte chunks of a row of 32, 64 or 128 bytes: the number of the chunk is
   combined with the number of the 128-byte line. Lines are counted from address 0. */
static u32 swizzle(u32 address, int mode) {
    const u32 mask = (1u << mode) - 1;
    return address ^ ((address >> 7 & mask) << 4);
}

/* Split `count` bytes at linear shared address `to` into runs within chunks. */
typedef struct {
    segment *out;
    size_t capacity, count;
    int swizzle;
} sink;

typedef enum { OUTSIDE, INSIDE, SPILLED } side;

static void emit(sink *to, u64 global, u32 shared, u32 bytes, side where) {
    while (bytes) {
        const u32 room = CHUNK - shared % CHUNK;
        const u32 part = bytes < room ? bytes : room;
        if (to->count < to->capacity)
            to->out[to->count] = (segment){.global = where == OUTSIDE ? 0 : global,
                                           .shared = swizzle(shared, to->swizzle),
                                           .bytes = (u16)part,
                                           .inside = where == INSIDE,
                                           .spills = where == SPILLED};
        to->count++;
        global += part;
        shared += part;
        bytes -= part;
    }
}

/* One row along dimension 0: bytes before, within and behind the tensor. */
static void emit_row(sink *to, const tensor_map *map, i64 first, u64 global, u32 shared,
                     bool inside) {
    const i64 size = tensor_element_bytes(map->type), count = map->box[0] * size;
    i64 from = first < 0 ? -first * size : 0, until = ((i64)map->dim[0] - first) * size;
    if (from > count || !inside) from = count;
    if (until < from) until = from;
    if (until > count) until = count;
    const u64 start = global + (u64)(first * size);
    const u64 end = start + (u64)until;
    i64 spilled = until > from ? until + (i64)(-end % CHUNK) : until;
    if (spilled > count) spilled = count;
    emit(to, 0, shared, (u32)from, OUTSIDE);
    emit(to, start + (u64)from, shared + (u32)from, (u32)(until - from), INSIDE);
    emit(to, end, shared + (u32)until, (u32)(spilled - until), SPILLED);
    emit(to, 0, shared + (u32)spilled, (u32)(count - spilled), OUTSIDE);
}

/* Rows lie one behind the other; a swizzled row takes its whole span even when it is narrower. */
static u32 row_pitch(const tensor_map *map) {
    const u32 inner = map->box[0] * tensor_element_bytes(map->type);
    const u32 span = 16u << map->swizzle;
    return map->swizzle != SWIZZLE_NONE && inner < span ? span : inner;
}

size_t tensor_segments(const tensor_map *map, const i32 *coordinates, u32 shared, segment *out,
                       size_t capacity) {
    if (map->interleave != INTERLEAVE_NONE) return 0;
    sink to = {out, capacity, 0, map->swizzle};
    u32 at[MAX_RANK] = {0};
    const u32 pitch = row_pitch(map);
    for (;;) {
        u64 global = map->address;
        bool inside = true;
        for (int i = 1; i < map->rank; i++) {
            const i64 position = coordinates[i] + (i64)at[i] * step_of(map, i);
            inside = inside && position >= 0 && position < (i64)map->dim[i];
            global += (u64)position * map->stride[i - 1];
        }
        emit_row(&to, map, coordinates[0], global, shared, inside);
        shared += pitch;
        int i = 1;
        while (i < map->rank && ++at[i] == count_of(map, i)) at[i++] = 0;
        if (i >= map->rank) return to.count;
    }
}
