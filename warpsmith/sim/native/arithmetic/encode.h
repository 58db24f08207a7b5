/* Numbers of any type that cvt knows, to and from what they are computed in. */
#pragma once
#include <math.h>

#include "arithmetic/formats.h"

typedef __int128 i128;

typedef struct {
    int width;
    bool is_signed;
} integer_type;

/* Width 0 for a type that is no integer. */
static inline integer_type integer_of(int type) {
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

static inline i128 least(integer_type type) {
    return type.is_signed ? -((i128)1 << (type.width - 1)) : 0;
}
static inline i128 greatest(integer_type type) {
    return ((i128)1 << (type.width - type.is_signed)) - 1;
}

static inline u64 clamp(i128 value, integer_type to) {
    return (u64)(value < least(to) ? least(to) : value > greatest(to) ? greatest(to) : value);
}

static inline i128 as_i128(u64 extended, integer_type type) {
    return type.is_signed ? (i128)(i64)extended : (i128)extended;
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
