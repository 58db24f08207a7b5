/* Tensor maps: how they lie in memory, what is wrong with one, and which bytes a box touches. */
#pragma once
#include "sim.h"

enum { TENSOR_MAP_BYTES = 128, MAX_RANK = 5 };

/* Element types with the numbers of CUtensorMapDataType. */
enum {
    TENSOR_U8, TENSOR_U16, TENSOR_U32, TENSOR_S32, TENSOR_U64, TENSOR_S64, TENSOR_F16, TENSOR_F32,
    TENSOR_F64, TENSOR_BF16, TENSOR_F32_FTZ, TENSOR_TF32, TENSOR_TF32_FTZ
};
enum { INTERLEAVE_NONE, INTERLEAVE_16B, INTERLEAVE_32B };
enum { SWIZZLE_NONE, SWIZZLE_32B, SWIZZLE_64B, SWIZZLE_128B };
enum { FILL_ZERO, FILL_NAN };

/* A decoded tensor map. Strides in bytes; `stride[0]` is that of dimension 1. */
typedef struct tensor_map {
    u64 address;
    u64 dim[MAX_RANK]; /* 1 to 2^32 */
    u64 stride[MAX_RANK - 1];
    u32 box[MAX_RANK];
    u32 element_stride[MAX_RANK];
    u8 rank, type, interleave, swizzle, fill;
} tensor_map;

/* To and from the 128 opaque bytes. `tensor_map_decode` returns false when the bytes never were a
   tensor map. Every field can be changed and written again: see tensormap.replace. */
void tensor_map_encode(const tensor_map *map, u8 bytes[TENSOR_MAP_BYTES]);
bool tensor_map_decode(const u8 bytes[TENSOR_MAP_BYTES], tensor_map *map);

/* What is illegal about a map by the rules of cuTensorMapEncodeTiled, as a sentence that names the
   value and the rule, or NULL. Written to `text`. */
const char *tensor_map_error(const tensor_map *map, char *text, size_t size);

/* Apply tensormap.replace: `field` is MODE_GLOBAL_ADDRESS and so on, `ordinal` the dimension.
   Values as PTX gives them (rank minus one; types numbered as PTX numbers them). */
bool tensor_map_replace(tensor_map *map, int field, u32 ordinal, u64 value);

/* What is illegal about one copy: coordinates and the shared address, or NULL. The H200 raises an
   illegal instruction. */
const char *tensor_copy_error(const tensor_map *map, const i32 *coordinates, u32 shared, bool store,
                              char *text, size_t size);

/* One run of bytes that a copy moves: `inside` is false for elements out of bounds, which a load
   fills and a store skips; `global` counts only where `inside` or `spills`. At most 16 bytes,
   within one 16-byte chunk of shared memory. A store writes whole 16-byte chunks of a row, so it
   writes elements behind the row's end that share a chunk with the last one: these `spill`. */
typedef struct {
    u64 global;
    u32 shared;
    u16 bytes;
    bool inside, spills;
} segment;

/* The runs of a box at `coordinates`, with `shared` the address of its first byte before
   swizzling; swizzles apply to address bits, so bases need not be aligned here. `tensor_segments`
   writes at most `capacity` runs to `out` and returns how many there are: none for an interleaved
   map, which is not modelled. `tensor_box_bytes` is what a load completes on its barrier. */
size_t tensor_segments(const tensor_map *map, const i32 *coordinates, u32 shared, segment *out,
                       size_t capacity);
u32 tensor_box_bytes(const tensor_map *map);
u32 tensor_element_bytes(int type);

/* The bytes that a load writes for `count` bytes of whole elements: out of bounds, and inside,
   where types f32.ftz, tf32 and tf32.ftz change values on their way. */
void tensor_fill(const tensor_map *map, u8 *to, u32 count);
void tensor_convert(const tensor_map *map, u8 *bytes, u32 count);
