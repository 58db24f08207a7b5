/* cvt between every pair of types, and cvt.pack. */
#include <fenv.h>
#include <math.h>

#include "formats.h"

typedef __int128 i128;

/* --- Integers --- */

typedef struct {
    int width;
    bool is_signed;
} integer_type;

/* Width 0 for a type that is no integer. */
static integer_type integer_of(int type) {
    switch (type) {
    case TYPE_U8:
        return (integer_type){8, false};
    case TYPE_U16:
        return (integer_type){16, false};
    case TYPE_U32:
        return (integer_type){32, false};
    case TYPE_U64:
        return (integer_type){64, false};
    case TYPE_S8:
        return (integer_type){8, true};
    case TYPE_S16:
        return (integer_type){16, true};
    case TYPE_S32:
        return (integer_type){32, true};
    case TYPE_S64:
        return (integer_type){64, true};
    default:
        return (integer_type){0, false};
    }
}

static inline u64 extend(u64 bits, integer_type type) {
    const int shift = 64 - type.width;
    return type.is_signed ? (u64)((i64)(bits << shift) >> shift) : bits << shift >> shift;
}

static inline i128 least(integer_type type) { return type.is_signed ? -((i128)1 << (type.width - 1)) : 0; }
static inline i128 greatest(integer_type type) {
    return ((i128)1 << (type.width - type.is_signed)) - 1;
}

static inline u64 clamp(i128 value, integer_type to) {
    return (u64)(value < least(to) ? least(to) : value > greatest(to) ? greatest(to) : value);
}

static inline i128 as_i128(u64 extended, integer_type type) {
    return type.is_signed ? (i128)(i64)extended : (i128)extended;
}

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

static inline double decode(int type, u64 bits, bool ftz) {
    switch (type) {
    case TYPE_F16:
        return half_as_float((u32)bits);
    case TYPE_BF16:
        return bfloat16_as_float((u32)bits);
    case TYPE_F32:
        return float_of(f32_flush_if(ftz, (u32)bits));
    default:
        return double_of(bits);
    }
}

/* 0: not a float that cvt converts one by one. */
static inline u64 one_of(int type) {
    switch (type) {
    case TYPE_F16:
        return 0x3c00u;
    case TYPE_BF16:
        return 0x3f80u;
    case TYPE_F32:
        return 0x3f800000u;
    case TYPE_F64:
        return 0x3ff0000000000000ull;
    default:
        return 0;
    }
}

/* The canonical NaN. */
static inline u64 nan_of(int type) {
    switch (type) {
    case TYPE_F64:
        return F64_NAN;
    case TYPE_F32:
        return F32_NAN;
    case TYPE_TF32:
        return F32_NAN & ~0x1fffu;
    case TYPE_E4M3:
    case TYPE_E5M2:
        return 0x7f;
    default:
        return F16_NAN;
    }
}

static inline u64 encode(int type, double value, int round, u32 flags) {
    const bool saturate = flags & FLAG_SATFINITE;
    const bool negative = signbit(value);
    if (isnan(value)) return flags & FLAG_SAT ? 0 : nan_of(type);
    if (negative && (flags & (FLAG_RELU | FLAG_SAT))) return 0;
    if (value > 1 && (flags & FLAG_SAT)) value = 1;
    switch (type) {
    case TYPE_F16:
        return (negative ? 0x8000u : 0) | round_magnitude(value, FORMAT_F16, round, saturate);
    case TYPE_BF16:
        return (negative ? 0x8000u : 0) | round_magnitude(value, FORMAT_BF16, round, saturate);
    case TYPE_F32:
        return f32_flush_if(flags & FLAG_FTZ,
                            (negative ? F32_SIGN : 0) |
                                round_magnitude(value, FORMAT_F32, round, saturate));
    case TYPE_TF32:
        return (negative ? F32_SIGN : 0) |
               round_magnitude(value, FORMAT_TF32, round, saturate) << 13;
    case TYPE_E4M3:
        return (negative ? 0x80u : 0) | round_magnitude(value, FORMAT_E4M3, round, saturate);
    case TYPE_E5M2:
        return (negative ? 0x80u : 0) | round_magnitude(value, FORMAT_E5M2, round, saturate);
    default:
        return bits_of_double(value);
    }
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

/* A NaN to or from f64 keeps its sign and what its payload has room for, and becomes quiet. Fraction
   bits of the shorter type. */
static inline int fraction_of(int type) {
    return type == (int)TYPE_F16 ? 10 : type == (int)TYPE_BF16 ? 7 : type == (int)TYPE_F32 ? 23 : 52;
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

/* --- Pairs --- */

/* Two floats into one register, the first into the high half. */
static bool pair_from_floats(const insn *in, u64 *d, const u64 *high, const u64 *low, u32 mask) {
    const u32 flags = in->flags;
    const int round = in->round;
    const bool ftz = flags & FLAG_FTZ;
#define PAIR(type, width)                                                                   \
    EACH(d[i] = encode(type, decode(TYPE_F32, high[i], ftz), round, flags) << width |       \
                encode(type, decode(TYPE_F32, low[i], ftz), round, flags))
    switch (in->type) {
    case TYPE_F16X2:
        PAIR(TYPE_F16, 16);
        return true;
    case TYPE_BF16X2:
        PAIR(TYPE_BF16, 16);
        return true;
    case TYPE_E4M3X2:
        PAIR(TYPE_E4M3, 8);
        return true;
    case TYPE_E5M2X2:
        PAIR(TYPE_E5M2, 8);
        return true;
    default:
        return false;
    }
}

/* Between halves and eight-bit floats, pair by pair. */
static bool pair_from_pair(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const u32 flags = in->flags;
    const int round = in->round;
    switch ((u32)in->type << 8 | in->type2) {
#define NARROW(type)                                                                       \
    EACH(d[i] = encode(type, half_as_float((u32)x[i] >> 16), round, flags) << 8 |          \
                encode(type, half_as_float((u32)x[i]), round, flags))
    case TYPE_E4M3X2 << 8 | TYPE_F16X2:
        NARROW(TYPE_E4M3);
        return true;
    case TYPE_E5M2X2 << 8 | TYPE_F16X2:
        NARROW(TYPE_E5M2);
        return true;
#define WIDEN(as_float)                                                                    \
    EACH(d[i] = encode(TYPE_F16, as_float((u8)(x[i] >> 8)), round, flags) << 16 |          \
                encode(TYPE_F16, as_float((u8)x[i]), round, flags))
    case TYPE_F16X2 << 8 | TYPE_E4M3X2:
        WIDEN(e4m3_to_float);
        return true;
    case TYPE_F16X2 << 8 | TYPE_E5M2X2:
        WIDEN(e5m2_to_float);
        return true;
    default:
        return false;
    }
}

/* cvt.pack.sat: a and b saturated side by side, a above b; bytes below the low half of c. */
static bool pack_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    const integer_type to = integer_of(in->type), from = {32, true};
    const u64 *x = a[0], *y = a[1], *z = a[2];
    if (to.width != 8 && to.width != 16) return false;
    const int width = to.width;
    const u64 field = (1ull << width) - 1;
#define PACKED                                                                             \
    ((clamp(as_i128(extend(x[i], from), from), to) & field) << width |                     \
     (clamp(as_i128(extend(y[i], from), from), to) & field))
    if (width == 16)
        EACH(d[i] = PACKED);
    else
        EACH(d[i] = (z[i] & 0xffff) << 16 | PACKED);
    return true;
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
    const bool from_float = one_of(in->type2);
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
        if (!one_of(in->type)) return false;
        float_from_integer(in, d, a[0], mask);
        return true;
    }
    if (!from_float) return pair_from_pair(in, d, a[0], mask);
    if (in->type2 == TYPE_F32 && pair_from_floats(in, d, a[0], a[1], mask)) return true;
    return float_from_float(in, d, a[0], mask);
}
