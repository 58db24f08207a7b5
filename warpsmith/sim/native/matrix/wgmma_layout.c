/* wgmma: where operands lie in shared memory.

   K-major operands are rows of 32 bytes, MN-major ones lines of n (or m) elements of two bytes.
   Both come in groups of eight lines. In units of 16-byte chunks, with W the chunks of a swizzled
   row (2, 4 or 8), a chunk lies behind the start address at

       K-major,  none      (line % 8) + (line / 8) SBO + chunk LBO
       K-major,  swizzled  (line % 8) W + (line / 8) SBO + chunk
       MN-major, none      (k % 8) + (k / 8) LBO + chunk SBO
       MN-major, swizzled  (k % 8) W + (k / 8) SBO + (chunk % W) + (chunk / W) LBO

   with LBO and SBO the leading and stride byte offsets; then the swizzle is applied to the
   address. */
#include "matrix/mma.h"

enum { WARP_ROWS = 16, CHUNK = 16, LINE_CHUNKS = 2, ADDRESS_MASK = 0x3ffff };

typedef struct {
    u32 start, leading, stride, base;
    int width; /* bytes of a swizzled row; 16 without swizzle */
} layout;

static u32 field_of(u64 descriptor, int bit) { return (u32)(descriptor >> bit & 0x3fff) << 4; }

static layout layout_of(u64 descriptor) {
    static const int WIDTHS[] = {16, 128, 64, 32};
    return (layout){field_of(descriptor, 0), field_of(descriptor, 16), field_of(descriptor, 32),
                    (u32)(descriptor >> 49 & 7), WIDTHS[descriptor >> 62]};
}

/* The number of the chunk within its row changes with the number of the 128-byte line, counted
   from where the pattern starts: see the descriptor's base offset. */
static u32 swizzled(const layout *in, u32 address) {
    const u32 mask = (u32)in->width / CHUNK - 1;
    return (address ^ (((address >> 7) - in->base) & mask) << 4) & ADDRESS_MASK;
}

static u32 locate_k_major(const layout *in, u32 line, u32 chunk) {
    const u32 across = in->width == CHUNK ? chunk * in->leading : chunk * CHUNK;
    return in->start + line % 8 * (u32)in->width + line / 8 * in->stride + across;
}

static u32 locate_mn_major(const layout *in, u32 k, u32 chunk) {
    const u32 wide = (u32)in->width / CHUNK;
    if (wide == 1)
        return in->start + k % 8 * CHUNK + k / 8 * in->leading + chunk * in->stride;
    return in->start + k % 8 * (u32)in->width + k / 8 * in->stride + chunk % wide * CHUNK +
           chunk / wide * in->leading;
}

void wgmma_locate(const insn *in, bool is_b, bool transposed, u64 descriptor, int quarter,
                  wgmma_chunks *out) {
    const layout in_shared = layout_of(descriptor);
    const u32 lines = is_b ? in->n : WARP_ROWS, first = is_b ? 0 : (u32)quarter * WARP_ROWS;
    out->count = 0;
    out->transposed = transposed;
    if (transposed) {
        for (u32 k = 0; k < in->k; k++)
            for (u32 chunk = first / 8; chunk < (first + lines) / 8; chunk++)
                out->address[out->count++] =
                    swizzled(&in_shared, locate_mn_major(&in_shared, k, chunk));
        return;
    }
    for (u32 line = first; line < first + lines; line++)
        for (u32 chunk = 0; chunk < LINE_CHUNKS; chunk++)
            out->address[out->count++] =
                swizzled(&in_shared, locate_k_major(&in_shared, line, chunk));
}
