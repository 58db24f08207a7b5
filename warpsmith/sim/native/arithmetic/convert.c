/* cvt between every pair of types, and cvt.pack. */
#include "arithmetic/encode.h"

/* The bits of the destination register: a signed result extends to `vector` bytes where the
   register is wider than the type, as cvt.s8.s32 into a 32-bit register. */
static u64 register_mask(const insn *in, integer_type to) {
    const int width = in->vector * 8 > to.width ? in->vector * 8 : to.width;
    return width >= 64 ? ~0ull : (1ull << width) - 1;
}

static void integer_from_integer(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const integer_type to = integer_of(in->type), from = integer_of(in->type2);
    const u64 kept = register_mask(in, to);
    if (in->flags & FLAG_SAT)
        EACH(d[i] = clamp(as_i128(extend(x[i], from), from), to) & kept);
    else
        EACH(d[i] = extend(extend(x[i], from), to) & kept);
}

/* --- Floats --- */

/* A float that cvt converts one by one. */
static bool is_float(int type) {
    return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F32 || type == TYPE_F64;
}

static inline double to_integral(double value, int round) {
    switch (round) {
    case ROUND_RNI:
        return nearbyint(value);
    case ROUND_RZI:
        return trunc(value);
    case ROUND_RMI:
        return floor(value);
    case ROUND_RPI:
        return ceil(value);
    default:
        return value;
    }
}

/* Floats saturate, whether .sat is there or not. */
static void integer_from_float(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const integer_type to = integer_of(in->type);
    const int from = in->type2, round = in->round;
    const bool ftz = in->flags & FLAG_FTZ;
    const u64 kept = register_mask(in, to);
    const double low = (double)least(to), above = ldexp(1.0, to.width - to.is_signed);
    const u64 least_bits = (u64)least(to) & kept, greatest_bits = (u64)greatest(to);
    /* PTX says 0 for a NaN; the GPU gives that only for a float or half to 32 bits and fewer. */
    const bool zero = from != TYPE_F64 && to.width < 64;
    const u64 nan_bits = zero ? 0 : extend(1ull << (to.width - 1), to) & kept;
    EACH(const double value = to_integral(decode(from, x[i], ftz), round);
         u64 bits;
         if (isnan(value))
             bits = nan_bits;
         else if (value < low)
             bits = least_bits;
         else if (value >= above)
             bits = greatest_bits;
         else if (value < 0)
             bits = (u64)(i64)value & kept;
         else
             bits = (u64)value;
         d[i] = bits);
}

/* A 64-bit integer as a double that rounds to a shorter format as the integer would. */
static inline double to_odd(u64 extended, bool is_signed) {
    const bool negative = is_signed && extended >> 63;
    u64 magnitude = negative ? 0 - extended : extended;
    if (magnitude >> 53) magnitude = (magnitude & ~0x7ffull) | (magnitude & 0x7ff ? 0x800 : 0);
    return negative ? -(double)magnitude : (double)magnitude;
}

static void float_from_integer(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const integer_type from = integer_of(in->type2);
    const int type = in->type, round = in->round;
    const u32 flags = in->flags;
    if (type == TYPE_F64) {
        const int saved = set_rounding(round);
        if (from.is_signed)
            EACH(d[i] = bits_of_double((double)(i64)extend(x[i], from)));
        else
            EACH(d[i] = bits_of_double((double)extend(x[i], from)));
        restore_rounding(saved);
        if (flags & FLAG_SAT) EACH(d[i] = encode(TYPE_F64, double_of(d[i]), round, flags));
        return;
    }
    EACH(d[i] = encode(type, to_odd(extend(x[i], from), from.is_signed), round, flags));
}

/* A NaN to or from f64 keeps its sign and what its payload has room for, and becomes quiet. */
static inline int fraction_of(int type) {
    return type == (int)TYPE_F16 ? 10 : type == (int)TYPE_BF16 ? 7 : 23;
}

static inline u64 narrow_nan(int to, u64 bits) {
    const int fraction = fraction_of(to), width = to == (int)TYPE_F32 ? 32 : 16;
    return (bits >> 63 << (width - 1)) | ((f64_quiet(bits) & ~F64_SIGN) >> (52 - fraction) &
                                          ((1ull << (width - 1)) - 1));
}

static inline u64 widen_nan(int from, u64 bits) {
    const int fraction = fraction_of(from), width = from == (int)TYPE_F32 ? 32 : 16;
    const u64 payload = (bits & ((1ull << fraction) - 1)) << (52 - fraction);
    return (bits >> (width - 1) & 1) << 63 | F64_INF | f64_quiet(payload);
}

/* cvt.rna.tf32 sees no NaN: it cuts those off as it does infinity. */
static inline u64 tf32_special(u64 bits, bool saturate) {
    return (bits & 0xffffe000u) - (saturate ? 0x2000u : 0);
}

/* Any float to any other; an integral rounding comes first. */
static inline u64 convert_float(int to, int from, u64 bits, int round, u32 flags) {
    const bool from_f32 = from == (int)TYPE_F32;
    if (to == (int)TYPE_TF32 && round == (int)ROUND_RNA && (~bits & F32_INF) == 0)
        return tf32_special(bits, flags & FLAG_SATFINITE);
    /* What .ftz would flush is nothing in a half; but rounding outwards still sees it. */
    const bool ftz = (flags & FLAG_FTZ) && to != (int)TYPE_F16;
    const double value = to_integral(decode(from, bits, ftz), round);
    if (isnan(value) && !(flags & FLAG_SAT)) {
        if (to == (int)TYPE_F64 && from == (int)TYPE_F64)
            return round == (int)ROUND_NONE ? bits : f64_quiet(bits);
        if (to == (int)TYPE_F64) return widen_nan(from, from_f32 && ftz ? F32_NAN : bits);
        if (from == (int)TYPE_F64) return narrow_nan(to, bits);
        /* These two are no more than moves. */
        if (to == (int)TYPE_F32 && from == (int)TYPE_BF16 && !ftz) return (bits & 0xffffu) << 16;
        if (to == (int)TYPE_F32 && from_f32 && round == (int)ROUND_NONE && !ftz) return (u32)bits;
    }
    return encode(to, value, round, flags);
}

#define FLOAT_TO(type)                                                                     \
    case TYPE_##type:                                                                      \
        EACH(d[i] = convert_float(TYPE_##type, from, x[i], round, flags));                 \
        return true

static bool float_from_float(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const int from = in->type2, round = in->round;
    const u32 flags = in->flags;
    switch (in->type) {
        FLOAT_TO(F16);
        FLOAT_TO(BF16);
        FLOAT_TO(F32);
        FLOAT_TO(F64);
        FLOAT_TO(TF32);
    default:
        return false;
    }
}

/* --- The conversions that kernels are full of, without modifiers --- */

/* Towards zero; a float outside the range, where C leaves it open, apart. */
static inline u32 s32_from_f32(u32 bits) {
    const float value = float_of(bits);
    const bool inside = value >= -0x1p31f && value < 0x1p31f;
    const u32 limit = f32_is_nan(bits) ? 0 : bits & F32_SIGN ? 0x80000000u : 0x7fffffffu;
    return inside ? (u32)(i32)(inside ? value : 0) : limit;
}

static inline u32 f32_from_half(u32 half) {
    const u32 bits = bits_of(half_as_float(half));
    return f32_is_nan(bits) ? F32_NAN : bits;
}

#define PLAIN(to, from, round) ((u32)(to) << 16 | (u32)(from) << 8 | (u32)(round))

static bool common_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const u64 *x = a[0], *y = a[1];
    if (in->flags) return false;
    switch (PLAIN(in->type, in->type2, in->round)) {
    case PLAIN(TYPE_BF16X2, TYPE_F32, ROUND_RN):
        EACH(d[i] = bfloat16_or_nan((u32)x[i]) << 16 | bfloat16_or_nan((u32)y[i]));
        return true;
    case PLAIN(TYPE_F16X2, TYPE_F32, ROUND_RN):
        EACH(d[i] = half_or_nan((u32)x[i]) << 16 | half_or_nan((u32)y[i]));
        return true;
    case PLAIN(TYPE_BF16, TYPE_F32, ROUND_RN):
        EACH(d[i] = bfloat16_or_nan((u32)x[i]));
        return true;
    case PLAIN(TYPE_F16, TYPE_F32, ROUND_RN):
        EACH(d[i] = half_or_nan((u32)x[i]));
        return true;
    case PLAIN(TYPE_F32, TYPE_F16, ROUND_NONE):
        EACH(d[i] = f32_from_half((u32)x[i]));
        return true;
    case PLAIN(TYPE_F32, TYPE_BF16, ROUND_NONE):
        EACH(d[i] = (x[i] & 0xffffu) << 16); /* NaNs stay what they are */
        return true;
    case PLAIN(TYPE_F64, TYPE_F32, ROUND_NONE):
        EACH(const double value = (double)float_of((u32)x[i]);
             d[i] = f32_is_nan((u32)x[i]) ? widen_nan(TYPE_F32, x[i]) : bits_of_double(value));
        return true;
    case PLAIN(TYPE_F32, TYPE_S32, ROUND_RN):
        EACH(d[i] = bits_of((float)(i32)x[i]));
        return true;
    case PLAIN(TYPE_F32, TYPE_U32, ROUND_RN):
        EACH(d[i] = bits_of((float)(double)(u32)x[i]));
        return true;
    case PLAIN(TYPE_S32, TYPE_F32, ROUND_RZI):
        EACH(d[i] = s32_from_f32((u32)x[i]));
        return true;
    default:
        return false;
    }
}

bool convert_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    if (in->op == OP_CVT_PACK) return pack_run(in, d, a, mask);
    if (common_run(in, d, a, mask)) return true;
    const bool to_integer = integer_of(in->type).width, from_integer = integer_of(in->type2).width;
    const bool from_float = is_float(in->type2);
    if (to_integer && from_integer) {
        integer_from_integer(in, d, a[0], mask);
        return true;
    }
    if (to_integer) {
        if (!from_float || in->round < ROUND_RNI) return false;
        integer_from_float(in, d, a[0], mask);
        return true;
    }
    if (from_integer) {
        if (!is_float(in->type)) return false;
        float_from_integer(in, d, a[0], mask);
        return true;
    }
    if (!from_float) return pair_from_pair(in, d, a[0], mask);
    if (in->type2 == TYPE_F32 && pair_from_floats(in, d, a[0], a[1], mask)) return true;
    return float_from_float(in, d, a[0], mask);
}
