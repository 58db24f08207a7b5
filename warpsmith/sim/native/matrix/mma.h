/* Matrix products: mma.sync of one warp, wgmma of one warp of a warp group. */
#pragma once
#include "sim.h"

/* mma.sync for a whole warp: rows of the D, A, B and C registers in PTX order; D may be the same
   rows as C. Shapes and types as PTX has them for sm_90: f16, bf16, tf32, f64, e4m3, e5m2, s8, u8;
   not sparse, not m8n8k4 of f16. B has the type of A, `type2`, unless `vector` names another.
   Results are those of an H200, bit by bit. `poison[i]` gives for each source register row in order
   A, B, C the lanes that are undefined; `d_poison` receives the same for D, exact by matrix row and
   column. False when the combination is not supported. */
bool mma_run(const insn *in, u64 *const *d, const u64 *const *a, const u64 *const *b,
             const u64 *const *c, const u32 *poison, u32 *d_poison);

/* Where a wgmma operand lies in shared memory: `count` chunks of 16 bytes, in matrix order. For A
   they are the 16 rows of warp `quarter` (0 to 3): row by row, along k. For B all n columns:
   column by column, along k - or, when the operand is transposed (MN-major), k by k along m or n.
   Returns the number of chunks, at most WGMMA_MAX_CHUNKS. `descriptor` is the 64-bit matrix
   descriptor (start, leading and stride byte offsets, base offset, swizzle). */
enum { WGMMA_MAX_CHUNKS = 1024 };
typedef struct {
    u32 address[WGMMA_MAX_CHUNKS];
    u32 count;
    bool transposed;
} wgmma_chunks;
void wgmma_locate(const insn *in, bool is_b, bool transposed, u64 descriptor, int quarter,
                  wgmma_chunks *out);

/* The product of one warp's 16 rows: `a_data` and `b_data` hold the chunks' bytes in the order of
   `wgmma_locate`; `a_rows` are A's register rows instead when in->flags has FLAG_A_REGISTERS.
   D = scale_d ? A*B*(scale_a*scale_b) + D : A*B*(scale_a*scale_b). Sums are formed in one step per
   instruction as an H200 forms them, bit by bit: see product.c. `a_poison` and `b_poison` are one
   flag a chunk (registers: one lane mask a row); `d_poison` is read where D is added, and written.
   False when the combination is not supported. */
typedef struct {
    const u8 *a_data, *b_data;
    const u8 *a_poison, *b_poison;
    const u64 *const *a_rows;
    const u32 *a_row_poison;
    bool a_transposed, b_transposed, scale_d;
    int scale_a, scale_b;
} wgmma_operands;
bool wgmma_run(const insn *in, const wgmma_operands *operands, u64 *const *d, u32 *d_poison);
