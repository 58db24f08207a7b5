/* The elements of matrix operands: widths, and numbers from bits and back. */
#include <string.h>

#include "alu.h"
#include "product.h"

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

double number_from_bits(int type, u32 bits) {
    switch (type) {
    case TYPE_F16: return half_to_float((u16)bits);
    case TYPE_BF16: return bfloat16_to_float((u16)bits);
    case TYPE_E4M3: return e4m3_to_float((u8)bits);
    case TYPE_E5M2: return e5m2_to_float((u8)bits);
    default: { /* tf32: the hardware ignores the low 13 bits */
        const u32 kept = bits & ~0x1fffu;
        float value;
        memcpy(&value, &kept, sizeof value);
        return value;
    }
    }
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

float sum_from_bits(bool half, u32 bits) {
    if (half) return half_to_float((u16)bits);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

u32 sum_to_bits(bool half, float value) {
    if (half) return value != value ? 0x7fff : float_to_half(value, ROUND_RN);
    if (value != value) return 0x7fffffff;
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

u32 integer_sum(i64 sum, bool saturate) {
    if (saturate && sum > INT32_MAX) return (u32)INT32_MAX;
    if (saturate && sum < INT32_MIN) return (u32)INT32_MIN;
    return (u32)sum;
}
