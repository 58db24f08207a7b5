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

static inline u64 encode(int type, double value, int round, u32 flags) {
    const bool saturate = flags & FLAG_SATFINITE;
    const bool negative = signbit(value);
    if (isnan(value)) {
        if (flags & FLAG_SAT) return 0;
        return type == (int)TYPE_F64   ? 0xfff8000000000000ull
               : type == (int)TYPE_F32 || type == (int)TYPE_TF32 ? F32_NAN
               : type == (int)TYPE_E4M3 || type == (int)TYPE_E5M2 ? 0x7f
                                                             : 0x7fff;
    }
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
    const u64 nan_bits = 0;
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

/* Without an integer rounding, or between types, the value itself is rounded. */
#define FLOAT_TO(type)                                                                     \
    case TYPE_##type:                                                                      \
        EACH(d[i] = encode(TYPE_##type, to_integral(decode(from, x[i], ftz), round), round, \
                           flags));                                                        \
        return true

static bool float_from_float(const insn *in, u64 *d, const u64 *x, u32 mask) {
    const int from = in->type2, round = in->round;
    const u32 flags = in->flags;
    const bool ftz = flags & FLAG_FTZ;
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

bool convert_run(const insn *in, u64 *d, const u64 *const *a, u32 mask) {
    if (in->op == OP_CVT_PACK) return pack_run(in, d, a, mask);
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
