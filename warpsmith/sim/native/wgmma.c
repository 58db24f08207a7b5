/* wgmma: where operands lie in shared memory, and the product of one warp's 16 rows.

   K-major operands are rows of 32 bytes, MN-major ones lines of n (or m) elements of two bytes.
   Both come in groups of eight lines. In units of 16-byte chunks, with W the chunks of a swizzled
   row (2, 4 or 8), a chunk lies behind the start address at

       K-major,  none      (line % 8) + (line / 8) SBO + chunk LBO
       K-major,  swizzled  (line % 8) W + (line / 8) SBO + chunk
       MN-major, none      (k % 8) + (k / 8) LBO + chunk SBO
       MN-major, swizzled  (k % 8) W + (k / 8) SBO + (chunk % W) + (chunk / W) LBO

   with LBO and SBO the leading and stride byte offsets; then the swizzle is applied to the
   address. */
#include <string.h>

#include "fragments.h"
#include "mma.h"
#include "product.h"

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

/* A legal combination of types and shape, and how its sums are formed. */
static bool find_summation(const insn *in, const wgmma_operands *x, summation *how) {
    const bool sums_to_float = in->type == TYPE_F32, sums_to_half = in->type == TYPE_F16;
    *how = (summation){in->k, 25, sums_to_half};
    if (in->m != 64 || in->n < 8 || in->n > PRODUCT_COLUMNS || in->n % 8) return false;
    if (bits_of_type(type_of_b(in)) != bits_of_type(in->type2)) return false;
    const bool transposed = x->b_transposed || (x->a_transposed && !(in->flags & FLAG_A_REGISTERS));
    switch (in->type2) {
    case TYPE_F16: return in->k == 16 && (sums_to_float || sums_to_half);
    case TYPE_BF16: return in->k == 16 && sums_to_float;
    case TYPE_TF32: return in->k == 8 && sums_to_float && !transposed;
    case TYPE_E4M3:
    case TYPE_E5M2:
        how->fraction = 13;
        return in->k == 32 && (sums_to_float || sums_to_half) && !transposed;
    case TYPE_S8:
    case TYPE_U8: return in->k == 32 && in->type == TYPE_S32 && !transposed;
    default: return false;
    }
}

/* Raw bits of A (rows x depth) and B (depth x columns), and their poison by row and column. */
typedef struct {
    u32 a[WARP_ROWS * PRODUCT_DEPTH], b[PRODUCT_DEPTH * PRODUCT_COLUMNS];
    u8 row_poison[WARP_ROWS], column_poison[PRODUCT_COLUMNS];
} sources;

static u32 load_element(const u8 *data, int index, int bytes) {
    u32 value = 0;
    memcpy(&value, data + index * bytes, (size_t)bytes);
    return value;
}

static void gather_a_registers(const insn *in, const wgmma_operands *x, sources *to) {
    const int packed = elements_per_register(in->type2);
    for (int r = 0; r < 4; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < packed; i++) {
                const place at = place_a(WARP_ROWS, packed, lane, r, i);
                to->a[at.row * PRODUCT_DEPTH + at.column] =
                    (u32)element_bits(x->a_rows[r][lane], in->type2, i);
                if (lane_in(x->a_row_poison[r], lane)) to->row_poison[at.row] = 1;
            }
}

/* `lines` rows of A or columns of B: element (line, k) goes to to[line * line_pitch + k *
   k_pitch]. */
static void gather_shared(const u8 *data, const u8 *poison, bool transposed, int lines, int depth,
                          int bytes, u32 *to, int line_pitch, int k_pitch, u8 *line_poison) {
    for (int k = 0; k < depth; k++)
        for (int line = 0; line < lines; line++)
            to[line * line_pitch + k * k_pitch] =
                load_element(data, transposed ? k * lines + line : line * depth + k, bytes);
    const int chunks = lines * depth * bytes / CHUNK, across = transposed ? lines / 8 : LINE_CHUNKS;
    for (int chunk = 0; chunk < chunks; chunk++) {
        if (!poison[chunk]) continue;
        if (transposed) memset(line_poison + chunk % across * 8, 1, 8);
        else line_poison[chunk / across] = 1;
    }
}

static void gather(const insn *in, const wgmma_operands *x, sources *to) {
    const int bytes = bits_of_type(in->type2) / 8, n = in->n, k = in->k;
    memset(to->row_poison, 0, sizeof to->row_poison);
    memset(to->column_poison, 0, sizeof to->column_poison);
    if (in->flags & FLAG_A_REGISTERS) gather_a_registers(in, x, to);
    else
        gather_shared(x->a_data, x->a_poison, x->a_transposed, WARP_ROWS, k, bytes, to->a,
                      PRODUCT_DEPTH, 1, to->row_poison);
    gather_shared(x->b_data, x->b_poison, x->b_transposed, n, k, bytes, to->b, 1, n,
                  to->column_poison);
}

/* The sums of the warp, as bits. */
typedef u32 sums[WARP_ROWS * PRODUCT_COLUMNS];

static void multiply_float(const insn *in, const wgmma_operands *x, const summation *how,
                           const sources *from, sums c) {
    factor a = {.pitch = PRODUCT_DEPTH, .special = false}, b;
    float sum[WARP_ROWS * PRODUCT_COLUMNS];
    const int n = in->n, b_type = type_of_b(in), sign = x->scale_a * x->scale_b;
    const int a_least = least_exponent(in->type2), b_least = least_exponent(b_type);
    b.pitch = n;
    b.special = false;
    for (int i = 0; i < WARP_ROWS; i++)
        for (int k = 0; k < in->k; k++) {
            const int at = i * PRODUCT_DEPTH + k;
            factor_set(&a, at, sign * number_from_bits(in->type2, from->a[at]), a_least);
        }
    for (int at = 0; at < in->k * n; at++)
        factor_set(&b, at, number_from_bits(b_type, from->b[at]), b_least);
    for (int at = 0; at < WARP_ROWS * n; at++) sum[at] = sum_from_bits(how->half, c[at]);
    product_float(how, &a, &b, WARP_ROWS, n, in->k, sum);
    for (int at = 0; at < WARP_ROWS * n; at++) c[at] = sum_to_bits(how->half, sum[at]);
}

static void multiply_integer(const insn *in, const sources *from, sums c) {
    const int n = in->n, b_type = type_of_b(in);
    for (int i = 0; i < WARP_ROWS; i++) {
        i64 sum[PRODUCT_COLUMNS];
        for (int j = 0; j < n; j++) sum[j] = (i32)c[i * n + j];
        for (int k = 0; k < in->k; k++) {
            const int left = integer_from_bits(in->type2, from->a[i * PRODUCT_DEPTH + k]);
            for (int j = 0; j < n; j++) sum[j] += left * integer_from_bits(b_type, from->b[k * n + j]);
        }
        for (int j = 0; j < n; j++)
            c[i * n + j] = integer_sum(sum[j], in->flags & FLAG_SATFINITE);
    }
}

bool wgmma_run(const insn *in, const wgmma_operands *x, u64 *const *d, u32 *d_poison) {
    summation how;
    if (!find_summation(in, x, &how)) return false;
    const int n = in->n, packed = elements_per_register(in->type), width = 32 / packed;
    const int registers = WARP_ROWS * n / LANES / packed;
    sources from;
    sums c;
    gather(in, x, &from);
    memset(c, 0, sizeof(u32) * WARP_ROWS * (size_t)n);
    for (int r = 0; x->scale_d && r < registers; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < packed; i++) {
                const place at = place_d(packed, lane, r, i);
                c[at.row * n + at.column] = (u32)element_bits(d[r][lane], in->type, i);
            }
    if (in->type == TYPE_S32) multiply_integer(in, &from, c);
    else multiply_float(in, x, &how, &from, c);
    for (int r = 0; r < registers; r++) {
        u32 undefined = x->scale_d ? d_poison[r] : 0;
        for (int lane = 0; lane < LANES; lane++) {
            u64 slot = 0;
            for (int i = 0; i < packed; i++) {
                const place at = place_d(packed, lane, r, i);
                slot |= (u64)c[at.row * n + at.column] << i * width;
                if (from.row_poison[at.row] || from.column_poison[at.column])
                    undefined |= 1u << lane;
            }
            d[r][lane] = slot;
        }
        d_poison[r] = undefined;
    }
    return true;
}
