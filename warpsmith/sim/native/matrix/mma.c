/* mma.sync: the product of one warp, operands and result in registers. */
#include "matrix/mma.h"

#include <math.h>
#include <string.h>

#include "matrix/elements.h"
#include "matrix/fragments.h"
#include "matrix/product.h"

enum { MAX_M = 16, MAX_N = 8, FRACTION_BITS = 25 };

/* One supported combination: the type of D, that of A and B, the products summed at once. */
typedef struct {
    u8 m, k, type, factors, depth;
} shape;

static const shape SHAPES[] = {
    {16, 8, TYPE_F32, TYPE_F16, 8},   {16, 16, TYPE_F32, TYPE_F16, 16},
    {16, 8, TYPE_F16, TYPE_F16, 8},   {16, 16, TYPE_F16, TYPE_F16, 16},
    {16, 8, TYPE_F32, TYPE_BF16, 8},  {16, 16, TYPE_F32, TYPE_BF16, 16},
    {16, 4, TYPE_F32, TYPE_TF32, 4},  {16, 8, TYPE_F32, TYPE_TF32, 8},
    {16, 16, TYPE_F32, TYPE_E4M3, 8}, {16, 32, TYPE_F32, TYPE_E4M3, 16},
    {16, 16, TYPE_F32, TYPE_E5M2, 8}, {16, 32, TYPE_F32, TYPE_E5M2, 16},
    {16, 16, TYPE_F16, TYPE_E4M3, 8}, {16, 32, TYPE_F16, TYPE_E4M3, 16},
    {16, 16, TYPE_F16, TYPE_E5M2, 8}, {16, 32, TYPE_F16, TYPE_E5M2, 16},
    {16, 16, TYPE_S32, TYPE_S8, 0},   {16, 32, TYPE_S32, TYPE_S8, 0},
    {16, 16, TYPE_S32, TYPE_U8, 0},   {16, 32, TYPE_S32, TYPE_U8, 0},
    {8, 4, TYPE_F64, TYPE_F64, 0},    {16, 4, TYPE_F64, TYPE_F64, 0},
    {16, 8, TYPE_F64, TYPE_F64, 0},   {16, 16, TYPE_F64, TYPE_F64, 0},
};

static const shape *find_shape(const insn *in) {
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
        const shape *s = &SHAPES[i];
        if (s->m == in->m && s->k == in->k && in->n == MAX_N && s->type == in->type &&
            s->factors == in->type2)
            return s;
    }
    return NULL;
}

/* The operands as raw bits, with the poison of rows of A and columns of B. */
typedef struct {
    int m, k, a_count, b_count, d_count, d_packed;
    u64 a[MAX_M][PRODUCT_DEPTH], b[PRODUCT_DEPTH][MAX_N], c[MAX_M][MAX_N];
    u32 a_poison, b_poison; /* one bit a row, one bit a column */
} matrices;

static void gather(const insn *in, int b_type, const u64 *const *a, const u64 *const *b,
                   const u64 *const *c, const u32 *poison, matrices *to) {
    const int packed = elements_per_register(in->type2);
    to->m = in->m;
    to->k = in->k;
    to->d_packed = elements_per_register(in->type);
    to->a_count = in->m * in->k / LANES / packed;
    to->b_count = in->k * MAX_N / LANES / packed;
    to->d_count = in->m * MAX_N / LANES / to->d_packed;
    to->a_poison = to->b_poison = 0;
    for (int r = 0; r < to->a_count; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < packed; i++) {
                const place at = place_a(in->m, packed, lane, r, i);
                to->a[at.row][at.column] = element_bits(a[r][lane], in->type2, i);
                if (lane_in(poison[r], lane)) to->a_poison |= 1u << at.row;
            }
    poison += to->a_count;
    for (int r = 0; r < to->b_count; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < packed; i++) {
                const place at = place_b(packed, lane, r, i);
                to->b[at.row][at.column] = element_bits(b[r][lane], b_type, i);
                if (lane_in(poison[r], lane)) to->b_poison |= 1u << at.column;
            }
    for (int r = 0; r < to->d_count; r++)
        for (int lane = 0; lane < LANES; lane++)
            for (int i = 0; i < to->d_packed; i++) {
                const place at = place_d(to->d_packed, lane, r, i);
                to->c[at.row][at.column] = element_bits(c[r][lane], in->type, i);
            }
}

/* Products of eight-bit floats are two products of halves on sm_90: the first takes the lower two
   elements of every register, the second the upper two, and C is added at the end. */
static int order_of(const matrices *x, bool bytes, int k) {
    return bytes ? k % 4 / 2 * (x->k / 2) + k / 4 * 2 + k % 2 : k;
}

static void multiply_float(const insn *in, const shape *s, int b_type, matrices *x) {
    const bool half = in->type == TYPE_F16, bytes = bits_of_type(in->type2) == 8;
    const int least = least_exponent(bytes ? TYPE_F16 : in->type2);
    u32 a_bits[MAX_M * PRODUCT_DEPTH], b_bits[PRODUCT_DEPTH * MAX_N];
    u32 c_bits[MAX_M * MAX_N];
    float c[MAX_M * MAX_N], sum[MAX_M * MAX_N];
    for (int k = 0; k < x->k; k++) {
        const int to = order_of(x, bytes, k);
        for (int i = 0; i < x->m; i++) a_bits[i * x->k + to] = (u32)x->a[i][k];
        for (int j = 0; j < MAX_N; j++) b_bits[to * MAX_N + j] = (u32)x->b[k][j];
    }
    const int count = x->m * MAX_N;
    for (int i = 0; i < count; i++) c_bits[i] = (u32)x->c[i / MAX_N][i % MAX_N];
    sums_from_bits(half, c_bits, count, c);
    for (int i = 0; i < count; i++) sum[i] = bytes ? 0 : c[i];
    factor a, b;
    factor_fill(&a, false, in->type2, a_bits, x->m, x->k, least);
    factor_fill(&b, true, b_type, b_bits, x->k, MAX_N, least);
    const summation how = {s->depth, FRACTION_BITS, half};
    product_float(&how, &a, &b, x->m, MAX_N, x->k, sum);
    for (int i = 0; bytes && i < count; i++) sum[i] += c[i];
    sums_to_bits(half, sum, count, c_bits);
    for (int i = 0; i < count; i++) x->c[i / MAX_N][i % MAX_N] = c_bits[i];
}

static double as_double(u64 bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static u64 as_bits(double value) {
    u64 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* A NaN of an operand becomes quiet and is the result, that of b before those of c and a. */
static u64 multiply_add(u64 a, u64 b, u64 c) {
    const u64 quiet = 1ull << 51, invalid = 0xfff8000000000000;
    if (isnan(as_double(b))) return b | quiet;
    if (isnan(as_double(c))) return c | quiet;
    if (isnan(as_double(a))) return a | quiet;
    const double sum = fma(as_double(a), as_double(b), as_double(c));
    return isnan(sum) ? invalid : as_bits(sum);
}

/* One fused multiply-add after the other, along k. */
static void multiply_double(matrices *x) {
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < MAX_N; j++)
            for (int k = 0; k < x->k; k++)
                x->c[i][j] = multiply_add(x->a[i][k], x->b[k][j], x->c[i][j]);
}

static void multiply_integer(const insn *in, int b_type, matrices *x) {
    for (int i = 0; i < x->m; i++)
        for (int j = 0; j < MAX_N; j++) {
            i64 sum = (i32)x->c[i][j];
            for (int k = 0; k < x->k; k++)
                sum += integer_from_bits(in->type2, (u32)x->a[i][k]) *
                       integer_from_bits(b_type, (u32)x->b[k][j]);
            x->c[i][j] = integer_sum(sum, in->flags & FLAG_SATFINITE);
        }
}

bool mma_run(const insn *in, u64 *const *d, const u64 *const *a, const u64 *const *b,
             const u64 *const *c, const u32 *poison, u32 *d_poison) {
    const shape *s = find_shape(in);
    if (!s) return false;
    const int b_type = type_of_b(in);
    if (elements_per_register(b_type) != elements_per_register(in->type2)) return false;
    matrices x;
    gather(in, b_type, a, b, c, poison, &x);
    if (in->type == TYPE_F64) multiply_double(&x);
    else if (in->type == TYPE_S32) multiply_integer(in, b_type, &x);
    else multiply_float(in, s, b_type, &x);
    const u32 *c_poison = poison + x.a_count + x.b_count;
    const int width = bits_of_type(in->type);
    u32 undefined[MAX_M * MAX_N / LANES] = {0};
    for (int r = 0; r < x.d_count; r++) {
        undefined[r] = c_poison[r];
        for (int lane = 0; lane < LANES; lane++) {
            u64 slot = 0;
            for (int i = 0; i < x.d_packed; i++) {
                const place at = place_d(x.d_packed, lane, r, i);
                slot |= x.c[at.row][at.column] << (i * width % 64);
                if (x.a_poison >> at.row & 1 || x.b_poison >> at.column & 1)
                    undefined[r] |= 1u << lane;
            }
            d[r][lane] = slot;
        }
    }
    memcpy(d_poison, undefined, (size_t)x.d_count * sizeof *undefined);
    return true;
}
