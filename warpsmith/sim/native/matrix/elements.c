#include "matrix/elements.h"

#include <string.h>

#include "arithmetic/alu.h"

int type_of_b(const insn *in) { return in->vector > 1 ? in->vector : in->type2; }

int bits_of_type(int type) {
    switch (type) {
    case TYPE_F64: return 64;
    case TYPE_F32:
    case TYPE_S32:
    case TYPE_TF32: return 32;
    case TYPE_F16:
    case TYPE_BF16: return 16;
    default: return 8;
    }
}

int elements_per_register(int type) { return type == TYPE_F64 ? 1 : 32 / bits_of_type(type); }

u64 element_bits(u64 slot, int type, int i) {
    const int width = bits_of_type(type);
    return width == 64 ? slot : slot >> (i * width) & ((1ull << width) - 1);
}

int least_exponent(int type) {
    switch (type) {
    case TYPE_F16:
    case TYPE_E5M2: return -14;
    case TYPE_E4M3: return -6;
    default: return -126;
    }
}

int integer_from_bits(int type, u32 bits) { return type == TYPE_S8 ? (i8)bits : (u8)bits; }

void sums_from_bits(bool half, const u32 *bits, int count, float *to) {
    if (half)
        for (int i = 0; i < count; i++) to[i] = half_to_float((u16)bits[i]);
    else memcpy(to, bits, (size_t)count * sizeof *to);
}

void sums_to_bits(bool half, const float *sums, int count, u32 *to) {
    memcpy(to, sums, (size_t)count * sizeof *to);
    for (int i = 0; i < count; i++) {
        if (sums[i] != sums[i]) to[i] = half ? 0x7fff : 0x7fffffff;
        else if (half) to[i] = float_to_half(sums[i], ROUND_RN);
    }
}

u32 integer_sum(i64 sum, bool saturate) {
    if (saturate && sum > INT32_MAX) return (u32)INT32_MAX;
    if (saturate && sum < INT32_MIN) return (u32)INT32_MIN;
    return (u32)sum;
}
