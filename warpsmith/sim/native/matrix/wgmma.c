/* wgmma: the product of one warp's 16 rows. */
#include <string.h>

#include "matrix/elements.h"
#include "matrix/fragments.h"
#include "matrix/mma.h"
#include "matrix/product.h"

enum { WARP_ROWS = 16, CHUNK = 16, LINE_CHUNKS = 2, A_REGISTERS = 4 };

/* A legal combination of types and shape, and how its sums are formed. */
static bool find_summation(const insn *in, const wgmma_operands *x, summation *how) {
    const bool to_float = in->type == TYPE_F32, to_half = in->type == TYPE_F16;
    *how = (summation){in->k, 25, to_half};
    if (in->m != 64 || in->n < 8 || in->n > PRODUCT_COLUMNS || in->n % 8) return false;
    if (bits_of_type(type_of_b(in)) != bits_of_type(in->type2)) return false;
    const bool transposed = x->b_transposed || (x->a_transposed && !(in->flags & FLAG_A_REGISTERS));
    switch (in->type2) {
    case TYPE_F16: return in->k == 16 && (to_float || to_half);
    case TYPE_BF16: return in->k == 16 && to_float;
    case TYPE_TF32: return in->k == 8 && to_float && !transposed;
    case TYPE_E4M3:
    case TYPE_E5M2:
        how->fraction = 13;
        return in->k == 32 && (to_float || to_half) && !transposed;
    case TYPE_S8:
    case TYPE_U8: return in->k == 32 && in->type == TYPE_S32 && !transposed;
    default: return false;
    }
}

/* Raw bits of A (16 x k) and B (k x n), the poison of rows and columns, and the sums' bits. */
typedef struct {
    u32 a[WARP_ROWS * PRODUCT_DEPTH], b[PRODUCT_NUMBERS], c[WARP_ROWS * PRODUCT_COLUMNS];
    u8 row_poison[WARP_ROWS], column_poison[PRODUCT_COLUMNS];
    bool poisoned;
} matrices;

static void gather_registers(const insn *in, const wgmma_operands *x, matrices *to) {
    const int packed = elements_per_register(in->type2);
    for (int r = 0; r < A_REGISTERS; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < packed; i++) {
                const place at = place_a(WARP_ROWS, packed, lane, r, i);
                to->a[at.row * in->k + at.column] =
                    (u32)element_bits(x->a_rows[r][lane], in->type2, i);
                if (lane_in(x->a_row_poison[r], lane)) to->row_poison[at.row] = 1;
            }
}

/* Elements in the order of memory. */
static void load_elements(const u8 *data, int bytes, int count, u32 *to) {
    if (bytes == 4) memcpy(to, data, (size_t)count * 4);
    else if (bytes == 1)
        for (int i = 0; i < count; i++) to[i] = data[i];
    else
        for (int i = 0; i < count; i++) to[i] = (u32)data[2 * i] | (u32)data[2 * i + 1] << 8;
}

static void transpose(const u32 *from, int rows, int columns, u32 *to) {
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < rows; i++) to[j * rows + i] = from[i * columns + j];
}

static void mark_poison(const u8 *chunks, bool transposed, int lines, int count, u8 *line_poison) {
    const int across = transposed ? lines / 8 : LINE_CHUNKS;
    for (int chunk = 0; chunk < count; chunk++) {
        if (!chunks[chunk]) continue;
        if (transposed) memset(line_poison + chunk % across * 8, 1, 8);
        else line_poison[chunk / across] = 1;
    }
}

static void gather_shared(const insn *in, const wgmma_operands *x, bool is_b, matrices *to) {
    const bool transposed = is_b ? x->b_transposed : x->a_transposed;
    const int lines = is_b ? in->n : WARP_ROWS, k = in->k, bytes = bits_of_type(in->type2) / 8;
    u32 loaded[PRODUCT_NUMBERS], *out = is_b ? to->b : to->a;
    const bool turn = is_b != transposed; /* lines lie the other way round than in the matrix */
    load_elements(is_b ? x->b_data : x->a_data, bytes, lines * k, turn ? loaded : out);
    if (turn && is_b) transpose(loaded, lines, k, out);
    if (turn && !is_b) transpose(loaded, k, lines, out);
    mark_poison(is_b ? x->b_poison : x->a_poison, transposed, lines, lines * k * bytes / CHUNK,
                is_b ? to->column_poison : to->row_poison);
}

static void gather(const insn *in, const wgmma_operands *x, matrices *to) {
    memset(to->row_poison, 0, sizeof to->row_poison);
    memset(to->column_poison, 0, sizeof to->column_poison);
    if (in->flags & FLAG_A_REGISTERS) gather_registers(in, x, to);
    else gather_shared(in, x, false, to);
    gather_shared(in, x, true, to);
    to->poisoned = memchr(to->row_poison, 1, sizeof to->row_poison) ||
                   memchr(to->column_poison, 1, sizeof to->column_poison);
}

static void multiply_float(const insn *in, const wgmma_operands *x, const summation *how,
                           matrices *of) {
    const int n = in->n, b_type = type_of_b(in);
    factor a, b;
    factor_fill(&a, false, in->type2, of->a, WARP_ROWS, in->k, least_exponent(in->type2));
    factor_fill(&b, true, b_type, of->b, in->k, n, least_exponent(b_type));
    if (x->scale_a * x->scale_b < 0)
        for (int at = 0; at < WARP_ROWS * in->k; at++) a.value[at] = -a.value[at];
    float sum[WARP_ROWS * PRODUCT_COLUMNS];
    sums_from_bits(how->half, of->c, WARP_ROWS * n, sum);
    product_float(how, &a, &b, WARP_ROWS, n, in->k, sum);
    sums_to_bits(how->half, sum, WARP_ROWS * n, of->c);
}

/* In floats, which hold the sum of 32 products of bytes exactly. */
static void multiply_integer(const insn *in, matrices *of) {
    const int n = in->n, b_type = type_of_b(in);
    float b[PRODUCT_NUMBERS];
    for (int at = 0; at < in->k * n; at++) b[at] = (float)integer_from_bits(b_type, of->b[at]);
    for (int i = 0; i < WARP_ROWS; i++) {
        float sum[PRODUCT_COLUMNS] = {0};
        for (int k = 0; k < in->k; k++) {
            const float left = (float)integer_from_bits(in->type2, of->a[i * in->k + k]);
            for (int j = 0; j < n; j++) sum[j] += left * b[k * n + j];
        }
        for (int j = 0; j < n; j++) {
            u32 *to = &of->c[i * n + j];
            *to = integer_sum((i64)(i32)*to + (i64)sum[j], in->flags & FLAG_SATFINITE);
        }
    }
}

/* D between registers and matrix. A register holds one sum or two neighbours. */
static void load_sums(const insn *in, u64 *const *d, int registers, int packed, u32 *c) {
    for (int r = 0; r < registers; r++)
        for (int lane = 0; lane < LANES; lane++) {
            const place at = place_d(packed, lane, r, 0);
            u32 *to = c + at.row * in->n + at.column;
            const u32 slot = (u32)d[r][lane];
            to[0] = packed == 2 ? slot & 0xffff : slot;
            if (packed == 2) to[1] = slot >> 16;
        }
}

static void store_sums(const insn *in, const u32 *c, int registers, int packed, u64 *const *d) {
    for (int r = 0; r < registers; r++)
        for (int lane = 0; lane < LANES; lane++) {
            const place at = place_d(packed, lane, r, 0);
            const u32 *from = c + at.row * in->n + at.column;
            d[r][lane] = packed == 2 ? from[0] | from[1] << 16 : from[0];
        }
}

static u32 find_poison(const matrices *of, int packed, int r) {
    u32 lanes = 0;
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < packed; i++) {
            const place at = place_d(packed, lane, r, i);
            if (of->row_poison[at.row] || of->column_poison[at.column]) lanes |= 1u << lane;
        }
    return lanes;
}

bool wgmma_run(const insn *in, const wgmma_operands *x, u64 *const *d, u32 *d_poison) {
    summation how;
    if (!find_summation(in, x, &how)) return false;
    const int packed = elements_per_register(in->type);
    const int registers = WARP_ROWS * in->n / LANES / packed;
    matrices all;
    gather(in, x, &all);
    if (x->scale_d) load_sums(in, d, registers, packed, all.c);
    else memset(all.c, 0, sizeof(u32) * WARP_ROWS * in->n);
    if (in->type == TYPE_S32) multiply_integer(in, &all);
    else multiply_float(in, x, &how, &all);
    store_sums(in, all.c, registers, packed, d);
    for (int r = 0; r < registers; r++)
        d_poison[r] = (x->scale_d ? d_poison[r] : 0) |
                      (all.poisoned ? find_poison(&all, packed, r) : 0);
    return true;
}
