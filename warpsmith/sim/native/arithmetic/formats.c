/* The small float formats: half, bfloat16, tf32 and the two of eight bits. */
#include "arithmetic/formats.h"

#include <math.h>

float half_to_float(u16 bits) { return half_as_float(bits); }
float bfloat16_to_float(u16 bits) { return bfloat16_as_float(bits); }

/* e4m3 has no infinity, and one NaN of each sign: all ones. */
float e4m3_to_float(u8 bits) {
    const u32 magnitude = bits & 0x7fu;
    const float value = magnitude == 0x7f ? float_of(F32_NAN)
                                          : float_of(magnitude << 20) * 0x1p120f;
    return bits & 0x80 ? -value : value;
}

/* e5m2 is the upper byte of a half. */
float e5m2_to_float(u8 bits) { return half_as_float((u32)bits << 8); }

u16 float_to_half(float value, int round) {
    if (isnan(value)) return F16_NAN;
    const u32 sign = signbit(value) ? 0x8000u : 0;
    return (u16)(sign | round_magnitude(value, FORMAT_F16, round, false));
}

u16 float_to_bfloat16(float value, int round) {
    if (isnan(value)) return BF16_NAN;
    const u32 sign = signbit(value) ? 0x8000u : 0;
    return (u16)(sign | round_magnitude(value, FORMAT_BF16, round, false));
}

u8 float_to_e4m3(float value, bool saturate) {
    if (isnan(value)) return 0x7f;
    const u32 sign = signbit(value) ? 0x80u : 0;
    return (u8)(sign | round_magnitude(value, FORMAT_E4M3, ROUND_RN, saturate));
}

u8 float_to_e5m2(float value, bool saturate) {
    if (isnan(value)) return 0x7f;
    const u32 sign = signbit(value) ? 0x80u : 0;
    return (u8)(sign | round_magnitude(value, FORMAT_E5M2, ROUND_RN, saturate));
}

u32 float_to_tf32(float value, int round) {
    if (isnan(value)) return F32_NAN & ~0x1fffu;
    const u32 sign = signbit(value) ? F32_SIGN : 0;
    return sign | round_magnitude(value, FORMAT_TF32, round, false) << 13;
}
