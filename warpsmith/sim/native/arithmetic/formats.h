/* Rounding a double to a smaller format, and the formats there are. */
#pragma once
#include "arithmetic/lanes.h"

/* A float format: bits of the fraction, exponent bias, and the code of infinity (of the number
   above the largest one where there is no infinity), all without the sign. */
typedef struct {
    int fraction, bias;
    u32 infinity;
} float_format;

#define FORMAT_F32 ((float_format){23, 127, 0x7f800000u})
#define FORMAT_F16 ((float_format){10, 15, 0x7c00u})
#define FORMAT_BF16 ((float_format){7, 127, 0x7f80u})
#define FORMAT_TF32 ((float_format){10, 127, 0x7f800000u >> 13})
#define FORMAT_E4M3 ((float_format){3, 7, 0x7fu})
#define FORMAT_E5M2 ((float_format){2, 15, 0x7cu})

/* The code, without sign, of the magnitude of `value` (no NaN) in a format. Beyond the largest
   number it is infinity, or that number where rounding goes inwards or `saturate` says so. */
static inline u32 round_magnitude(double value, float_format format, int round, bool saturate) {
    const u64 bits = bits_of_double(value);
    const bool negative = bits >> 63;
    const int exponent = (int)(bits >> 52 & 0x7ff);
    const u64 fraction = bits & ((1ull << 52) - 1);
    const u64 number = exponent ? fraction | 1ull << 52 : fraction;
    const int target = exponent - (1023 - format.bias);
    int shift = 52 - format.fraction + (target > 0 ? 0 : 1 - target);
    if (shift > 60) shift = 60;
    const u64 kept = number >> shift, rest = number & ((1ull << shift) - 1);
    const u64 half = 1ull << (shift - 1);
    u64 up;
    switch (round) {
    case ROUND_RZ:
        up = 0;
        break;
    case ROUND_RM:
        up = negative && rest;
        break;
    case ROUND_RP:
        up = !negative && rest;
        break;
    case ROUND_RNA:
        up = rest >= half;
        break;
    default:
        up = rest + (kept & 1) > half;
    }
    const u64 code = ((u64)(target > 0 ? target - 1 : 0) << format.fraction) + kept + up;
    if (code < format.infinity) return (u32)code;
    const bool inwards = round == (int)ROUND_RZ || (round == (int)ROUND_RM && !negative) ||
                         (round == (int)ROUND_RP && negative);
    const bool infinite = exponent == 0x7ff;
    return saturate || (inwards && !infinite) ? format.infinity - 1 : format.infinity;
}

/* p + q, the last bit set when the sum is not exact ("rounded to odd"), so that rounding it again
   to half the precision or less gives what rounding the exact sum would. Needs the host to round to
   nearest. */
static inline double add_to_odd(double p, double q) {
    const double sum = p + q;
    const double q_part = sum - p;
    const double error = (p - (sum - q_part)) + (q - q_part);
    u64 bits = bits_of_double(sum);
    /* The error of an infinite sum is a NaN. */
    const bool inexact = (bits_of_double(error) & ~F64_SIGN) - 1 < F64_INF - 1;
    if (inexact && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : ~0ull;
    return double_of(bits);
}

/* Exact, in every rounding mode of the host. */
static inline float half_as_float(u32 bits) {
    const u32 magnitude = (bits & 0x7fffu) << 13;
    const u32 scaled = bits_of(float_of(magnitude) * 0x1p112f);
    const u32 special = choose(magnitude >= 0x0f800000u, F32_INF, 0); /* infinities and NaNs */
    return float_of(scaled | special | (bits & 0x8000u) << 16);
}
static inline float bfloat16_as_float(u32 bits) { return float_of((bits & 0xffffu) << 16); }

/* To nearest, of the bits of a float that is no NaN: the usual conversions, without a branch. */
static inline u32 bfloat16_from_float(u32 bits) {
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

/* A subnormal half is a multiple of the last bit of 0.5f, so an addition rounds it. */
static inline u32 half_from_float(u32 bits) {
    const u32 magnitude = bits & ~F32_SIGN;
    const u32 small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    const u32 normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    const u32 finite = choose(magnitude < 0x38800000u, small, normal);
    return choose(magnitude < 0x477ff000u, finite, 0x7c00u) | (bits >> 16 & 0x8000u);
}

static inline u32 half_or_nan(u32 bits) {
    return choose(f32_is_nan(bits), F16_NAN, half_from_float(bits));
}
static inline u32 bfloat16_or_nan(u32 bits) {
    return choose(f32_is_nan(bits), BF16_NAN, bfloat16_from_float(bits));
}
