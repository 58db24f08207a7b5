/* Arithmetic of f16 and bf16, alone and in pairs. */
#include <math.h>

#include "formats.h"

static inline u32 to_f16(double value) {
    if (isnan(value)) return F16_NAN;
    const u32 sign = signbit(value) ? 0x8000u : 0;
    return sign | round_magnitude(value, FORMAT_F16, ROUND_RN, false);
}

static inline u32 to_bf16(double value) {
    if (isnan(value)) return BF16_NAN;
    const u32 sign = signbit(value) ? 0x8000u : 0;
    return sign | round_magnitude(value, FORMAT_BF16, ROUND_RN, false);
}

#define IS_NAN16(bits, infinity) (((bits) & 0x7fffu) > (infinity))

static inline u32 flush16(u32 bits, u32 infinity) { return bits & infinity ? bits : bits & 0x8000u; }

static inline u32 limit16(u32 bits, u32 flags, u32 infinity, u32 one) {
    if ((flags & FLAG_FTZ)) bits = flush16(bits, infinity);
    if (flags & FLAG_SAT) {
        if ((bits & 0x8000u) || IS_NAN16(bits, infinity)) return 0;
        return bits > one ? one : bits;
    }
    /* .relu: negative numbers and -0 become +0, a NaN the canonical one. */
    if ((flags & FLAG_RELU) && (bits & 0x8000u)) return IS_NAN16(bits, infinity) ? 0x7fffu : 0;
    return bits;
}

static inline double product_and_sum(double p, double q, double r) {
    const double product = p * q; /* exact: at most 22 bits */
    const double sum = product + r;
    return isfinite(sum) ? add_to_odd(product, r) : sum;
}

/* As f32_choose in floats.c. */
static inline u32 choose16(u32 p, u32 q, u32 flags, bool is_max, u32 infinity) {
    const u32 sign = flags & FLAG_XORSIGN ? (p ^ q) & 0x8000u : 0;
    const bool p_nan = IS_NAN16(p, infinity), q_nan = IS_NAN16(q, infinity);
    if (flags & (FLAG_XORSIGN | FLAG_ABS)) p &= 0x7fffu, q &= 0x7fffu;
    if (p_nan && q_nan) return 0x7fffu;
    if (p_nan || q_nan) return flags & FLAG_NAN ? 0x7fffu : (p_nan ? q : p) | sign;
    const i16 p_order = (i16)(p ^ (p & 0x8000u ? 0x7fffu : 0));
    const i16 q_order = (i16)(q ^ (q & 0x8000u ? 0x7fffu : 0));
    return ((p_order < q_order) != is_max ? p : q) | sign;
}

/* One operation on one number. FROM is exact; TO rounds to nearest. A sum or product of two halves
   is exact in a double; of two bfloat16, the sum is rounded to odd first. */
#define DEFINE_HALF(name, FROM, TO, INFINITY_, ONE)                                          \
    static inline u32 name(u32 op, u32 flags, u32 p, u32 q, u32 r) {                         \
        if (flags & FLAG_FTZ) {                                                              \
            p = flush16(p, INFINITY_);                                                       \
            q = flush16(q, INFINITY_);                                                       \
            r = flush16(r, INFINITY_);                                                       \
        }                                                                                    \
        u32 result;                                                                          \
        switch (op) {                                                                        \
        case OP_ADD:                                                                         \
            result = TO(product_and_sum(FROM(p), 1.0, FROM(q)));                             \
            break;                                                                           \
        case OP_SUB:                                                                         \
            result = TO(product_and_sum(FROM(p), 1.0, -FROM(q)));                            \
            break;                                                                           \
        case OP_MUL:                                                                         \
            result = TO((double)FROM(p) * FROM(q));                                          \
            break;                                                                           \
        case OP_FMA:                                                                         \
            result = TO(product_and_sum(FROM(p), FROM(q), FROM(r)));                         \
            break;                                                                           \
        case OP_MIN:                                                                         \
        case OP_MAX:                                                                         \
            return choose16(p, q, flags, op == OP_MAX, INFINITY_);                           \
        case OP_ABS:                                                                         \
            return p & 0x7fffu;                                                              \
        default:                                                                             \
            return p ^ 0x8000u;                                                              \
        }                                                                                    \
        return limit16(result, flags, INFINITY_, ONE);                                       \
    }
DEFINE_HALF(f16_one, half_as_float, to_f16, 0x7c00u, 0x3c00u)
DEFINE_HALF(bf16_one, bfloat16_as_float, to_bf16, 0x7f80u, 0x3f80u)

/* `y` and `z` stand for `x` where an operation has fewer sources. */
#define SINGLE(one, op)                                                             \
    EACH(d[i] = one(op, flags, (u32)x[i] & 0xffff, (u32)y[i] & 0xffff, (u32)z[i] & 0xffff))
#define PAIR(one, op)                                                               \
    EACH(const u32 low = one(op, flags, (u32)x[i] & 0xffff, (u32)y[i] & 0xffff,     \
                             (u32)z[i] & 0xffff);                                   \
         const u32 high = one(op, flags, (u32)x[i] >> 16, (u32)y[i] >> 16, (u32)z[i] >> 16); \
         d[i] = high << 16 | low)
#define CASE(op)                       \
    case KEY(op, TYPE_F16):            \
        SINGLE(f16_one, op);           \
        return true;                   \
    case KEY(op, TYPE_F16X2):          \
        PAIR(f16_one, op);             \
        return true;                   \
    case KEY(op, TYPE_BF16):           \
        SINGLE(bf16_one, op);          \
        return true;                   \
    case KEY(op, TYPE_BF16X2):         \
        PAIR(bf16_one, op);            \
        return true

bool half_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u32 flags = in->flags;
    const bool unary = in->op == OP_ABS || in->op == OP_NEG;
    const u64 *x = a[0], *y = unary ? x : a[1], *z = in->op == OP_FMA ? a[2] : x;
    if (in->round != ROUND_NONE && in->round != ROUND_RN) return false;
    switch (KEY(in->op, in->type)) {
        CASE(OP_ADD);
        CASE(OP_SUB);
        CASE(OP_MUL);
        CASE(OP_FMA);
        CASE(OP_MIN);
        CASE(OP_MAX);
        CASE(OP_ABS);
        CASE(OP_NEG);
    default:
        return false;
    }
}
