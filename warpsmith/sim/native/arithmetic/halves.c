/* Arithmetic of f16 and bf16, alone and in pairs, rounded to nearest.

   Sums and products of two halves and sums of two bfloat16 may be rounded to a float first: it has
   more than twice their digits, and then the second rounding does no harm. The others are rounded
   to odd on the way. */
#include "arithmetic/formats.h"

#define F16_INF 0x7c00u
#define BF16_INF 0x7f80u

/* Results as the bits of a float, still to be rounded. */
static inline u32 f16_add(u32 p, u32 q) { return bits_of(half_as_float(p) + half_as_float(q)); }
static inline u32 f16_sub(u32 p, u32 q) { return bits_of(half_as_float(p) - half_as_float(q)); }
static inline u32 f16_mul(u32 p, u32 q) { return bits_of(half_as_float(p) * half_as_float(q)); }

/* The product is exact in a float, and so is the error of the sum. */
static inline u32 f16_fma(u32 p, u32 q, u32 r) {
    const float product = half_as_float(p) * half_as_float(q), addend = half_as_float(r);
    const float sum = product + addend, part = sum - product;
    const float error = (product - (sum - part)) + (addend - part);
    const u32 bits = bits_of(sum);
    const u32 step = 1u - ((bits_of(error) ^ bits) >> 31 << 1); /* 1, or -1 against the sign */
    /* The error of an infinite sum is a NaN. */
    const bool inexact = (bits_of(error) & ~F32_SIGN) - 1 < F32_INF - 1;
    return bits + (choose(inexact, step, 0) & ((bits & 1) - 1)); /* none where it is odd */
}

static inline u32 bf16_add(u32 p, u32 q) {
    return bits_of(bfloat16_as_float(p) + bfloat16_as_float(q));
}
static inline u32 bf16_sub(u32 p, u32 q) {
    return bits_of(bfloat16_as_float(p) - bfloat16_as_float(q));
}

/* A double as a float, its last bit set where that is not exact. */
static inline u32 float_to_odd(double value) {
    const float near = (float)value;
    const u32 bits = bits_of(near);
    const u64 magnitude = bits_of_double(value) & ~F64_SIGN;
    const u64 back = bits_of_double((double)near) & ~F64_SIGN;
    const u32 odd = back > magnitude ? bits - 1 : bits + 1;
    return back == magnitude || (bits & 1) || magnitude >= F64_INF ? bits : odd;
}

static inline u32 bf16_mul(u32 p, u32 q) {
    return float_to_odd((double)bfloat16_as_float(p) * (double)bfloat16_as_float(q));
}

static inline u32 bf16_fma(u32 p, u32 q, u32 r) {
    const double product = (double)bfloat16_as_float(p) * (double)bfloat16_as_float(q);
    return float_to_odd(add_to_odd(product, (double)bfloat16_as_float(r)));
}

#define IS_NAN16(bits, infinity) (((bits) & 0x7fffu) > (infinity))

static inline u32 flush16(bool ftz, u32 bits, u32 infinity) {
    return !ftz || (bits & infinity) ? bits : bits & 0x8000u;
}

/* .sat as f32_saturate; .relu: negative numbers and -0 become +0, a NaN stays. */
static inline u32 limit16(u32 bits, u32 flags, u32 infinity, u32 one) {
    const bool negative = bits & 0x8000u, nan = IS_NAN16(bits, infinity);
    if (flags & FLAG_SAT) return negative || nan ? 0 : bits > one ? one : bits;
    return (flags & FLAG_RELU) && negative && !nan ? 0 : bits;
}

static inline i32 order16(u32 bits) { return (i16)(bits ^ (bits & 0x8000u ? 0x7fffu : 0)); }

/* As f32_choose in floats.c. */
static inline u32 choose16(u32 p, u32 q, u32 flags, bool is_max, u32 infinity) {
    const u32 kept = flags & (FLAG_XORSIGN | FLAG_ABS) ? 0x7fffu : 0xffffu;
    const u32 sign = flags & FLAG_XORSIGN ? (p ^ q) & 0x8000u : 0;
    const bool p_nan = IS_NAN16(p, infinity), q_nan = IS_NAN16(q, infinity);
    const bool lost = (p_nan && q_nan) || ((p_nan || q_nan) && (flags & FLAG_NAN));
    p &= kept, q &= kept;
    const bool take_p = (order16(p) < order16(q)) != is_max;
    const u32 chosen = p_nan ? q : q_nan || take_p ? p : q;
    return lost ? 0x7fffu : chosen | sign;
}

/* `least`, as a float: smaller numbers are subnormal when rounded to all digits, which is what .ftz
   flushes. */
#define DEFINE_OPERATIONS(type, infinity, one, least, round)                                \
    ALWAYS_INLINE u32 type##_unrounded(u32 op, u32 p, u32 q, u32 r) {                       \
        switch (op) {                                                                       \
        case OP_ADD:                                                                        \
            return type##_add(p, q);                                                        \
        case OP_SUB:                                                                        \
            return type##_sub(p, q);                                                        \
        case OP_MUL:                                                                        \
            return type##_mul(p, q);                                                        \
        default:                                                                            \
            return type##_fma(p, q, r);                                                     \
        }                                                                                   \
    }                                                                                       \
    ALWAYS_INLINE u32 type##_bitwise(u32 op, u32 flags, u32 p, u32 q) {                     \
        switch (op) {                                                                       \
        case OP_MIN:                                                                        \
            return choose16(p, q, flags, false, infinity);                                  \
        case OP_MAX:                                                                        \
            return choose16(p, q, flags, true, infinity);                                   \
        case OP_ABS:                                                                        \
            return IS_NAN16(p, infinity) ? 0x7fffu : p & 0x7fffu;                           \
        default:                                                                            \
            return IS_NAN16(p, infinity) ? 0x7fffu : p ^ 0x8000u;                           \
        }                                                                                   \
    }                                                                                       \
    ALWAYS_INLINE u32 type##_plain(u32 op, u32 p, u32 q, u32 r) {                           \
        return IS_BITWISE(op) ? type##_bitwise(op, 0, p, q)                                 \
                              : round(type##_unrounded(op, p, q, r));                       \
    }                                                                                       \
    /* By a call for each half: few kernels need it. */                                     \
    static __attribute__((noinline)) u32 type##_modified(u32 op, u32 flags, u32 p, u32 q, u32 r) { \
        const bool ftz = flags & FLAG_FTZ;                                                  \
        p = flush16(ftz, p, infinity);                                                      \
        q = flush16(ftz, q, infinity);                                                      \
        r = flush16(ftz, r, infinity);                                                      \
        if (IS_BITWISE(op)) return type##_bitwise(op, flags, p, q);                         \
        u32 bits = type##_unrounded(op, p, q, r);                                           \
        if (ftz && (bits & ~F32_SIGN) < least) bits &= F32_SIGN;                            \
        return limit16(round(bits), flags, infinity, one);                                  \
    }
#define IS_BITWISE(op) ((op) == OP_MIN || (op) == OP_MAX || (op) == OP_ABS || (op) == OP_NEG)
DEFINE_OPERATIONS(f16, F16_INF, 0x3c00u, 0x387ff000u, half_or_nan)
DEFINE_OPERATIONS(bf16, BF16_INF, 0x3f80u, 0x007fc000u, bfloat16_or_nan)

/* `apply` for the half that there is, or for both. */
#define LOW(row) ((u32)row[i] & 0xffffu)
#define HIGH(row) ((u32)row[i] >> 16)
#define SINGLE(apply, ...) EACH(d[i] = apply(__VA_ARGS__, LOW(x), LOW(y), LOW(z)))
#define PAIR(apply, ...)                                                         \
    EACH(const u32 low = apply(__VA_ARGS__, LOW(x), LOW(y), LOW(z));             \
         const u32 high = apply(__VA_ARGS__, HIGH(x), HIGH(y), HIGH(z));         \
         d[i] = high << 16 | low)
#define ON(op, TYPE, type, loop)                \
    case KEY(op, TYPE):                         \
        if (flags)                              \
            loop(type##_modified, op, flags);   \
        else                                    \
            loop(type##_plain, op);             \
        return true
#define ON_HALVES(op)                    \
    ON(op, TYPE_F16, f16, SINGLE);       \
    ON(op, TYPE_F16X2, f16, PAIR);       \
    ON(op, TYPE_BF16, bf16, SINGLE);     \
    ON(op, TYPE_BF16X2, bf16, PAIR)

bool half_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u32 flags = in->flags;
    const bool unary = in->op == OP_ABS || in->op == OP_NEG;
    /* Any row where an operation has fewer sources. */
    const u64 *x = a[0], *y = unary ? x : a[1], *z = in->op == OP_FMA ? a[2] : x;
    if (in->round != ROUND_NONE && in->round != ROUND_RN) return false;
    switch (KEY(in->op, in->type)) {
        ON_HALVES(OP_ADD);
        ON_HALVES(OP_SUB);
        ON_HALVES(OP_MUL);
        ON_HALVES(OP_FMA);
        ON_HALVES(OP_MIN);
        ON_HALVES(OP_MAX);
        ON_HALVES(OP_ABS);
        ON_HALVES(OP_NEG);
    default:
        return false;
    }
}
